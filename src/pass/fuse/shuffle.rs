//! `y = reshape(transpose(reshape(x, blocks), perm), shape)`
//!
//! becomes the operator whose Reshapes and Transpose give the same view of `x`:
//!
//! `ShuffleChannel(x)`: blocks `[n, groups, c / groups, h, w]`, perm `[0, 2, 1, 3, 4]`, `n` = 1
//! `DepthToSpace(x)`, CRD: blocks `[n, c / b^2, b, b, h, w]`, perm `[0, 1, 4, 2, 5, 3]`
//! `DepthToSpace(x)`, DCR: blocks `[n, b, b, c / b^2, h, w]`, perm `[0, 3, 4, 1, 5, 2]`
//! `SpaceToDepth(x)`, CRD: blocks `[n, c, h / b, b, w / b, b]`, perm `[0, 1, 3, 5, 2, 4]`
//! `SpaceToDepth(x)`, DCR: the same blocks, perm `[0, 3, 5, 1, 2, 4]`
//!
//! Images of free sizes are matched node by node, as ShuffleChannel or as SpaceToDepth in mode CRD.

use std::collections::BTreeSet;

use super::matcher::{Found, Matcher, fuse};
use super::view::View;
use crate::error::Result;
use crate::graph::{Graph, Node, ValueId};
use crate::op;
use crate::pass::pattern::{ints, perm_of};

/// The most Reshapes between the image and its blocks.
const MAX_STEPS: usize = 4;

/// The operator to be made.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Shuffle {
    Channels { groups: i64 },
    ToSpace { block: i64, mode: &'static str },
    ToDepth { block: i64, mode: &'static str },
}

pub(crate) fn fuse_shuffle(graph: &mut Graph) -> Result<bool> {
    fuse(graph, find, |made, (x, shuffle)| {
        let (op_type, block, mode) = match shuffle {
            Shuffle::Channels { groups } => {
                return Ok(made.op("ncnn.ShuffleChannel", [made.value(x)], [("group", groups.into())]));
            }
            Shuffle::ToSpace { block, mode } => ("DepthToSpace", block, mode),
            Shuffle::ToDepth { block, mode } => ("SpaceToDepth", block, mode),
        };
        Ok(made.op(op_type, [made.value(x)], [("blocksize", block.into()), ("mode", mode.into())]))
    })
}

fn find(matcher: &Matcher, node: &Node) -> Option<Found<(ValueId, Shuffle)>> {
    find_three(matcher, node).or_else(|| find_free_blocks(matcher, node))
}

/// Matches exactly Reshape, Transpose and Reshape.
fn find_three(matcher: &Matcher, node: &Node) -> Option<Found<(ValueId, Shuffle)>> {
    let result = node.output(0)?;
    let transposed = node.input(0).filter(|_| node.is("Reshape"))?;
    let transpose = matcher.made_by(transposed, "Transpose")?;
    let blocks = transpose.input(0)?;
    let x = matcher.made_by(blocks, "Reshape")?.input(0)?;
    let inner = BTreeSet::from([blocks, transposed]);
    if matcher.sizes(x).is_none() {
        let groups = free_groups(matcher, [x, blocks, result], transpose)?;
        return Some(Found { inner, parts: (x, Shuffle::Channels { groups }) });
    }
    let [from, separate, to] = [x, blocks, result].map(|value| matcher.sizes(value));
    let (from, to) = (from?, to?);
    let view = View::of(&from).reshaped(&separate?)?.transposed(&perm_of(matcher.graph, transpose)?)?;
    let shuffle = recognize(&from, &to, &view.reshaped(&to)?.merged())?;
    matcher.is_float(result).then_some(Found { inner, parts: (x, shuffle) })
}

/// The groups of ShuffleChannel on an image of free sizes.
fn free_groups(matcher: &Matcher, [x, blocks, result]: [ValueId; 3], transpose: &Node) -> Option<i64> {
    let [batch, channels, height, width] = matcher.shape(x)? else { return None };
    let [_, groups, within, ..] = matcher.shape(blocks)? else { return None };
    let sizes = [batch, groups, within, height, width];
    let (channels, groups, within) = (channels.known()?, groups.known()?, within.known()?);
    let fits = batch.is(1)
        && matcher.alike(x, result)
        && matcher.shape(blocks)?.iter().eq(sizes)
        && ints(transpose, "perm")? == [0, 2, 1, 3, 4]
        && groups > 1
        && within > 1
        && groups.checked_mul(within) == Some(channels);
    fits.then_some(groups)
}

/// Matches SpaceToDepth on an image of free sizes, for which exporters write more Reshapes.
fn find_free_blocks(matcher: &Matcher, node: &Node) -> Option<Found<(ValueId, Shuffle)>> {
    let (result, mut value) = (node.output(0)?, op::viewed(node)?);
    let [_, deep, rows, columns] = matcher.shape(result)? else { return None };
    if rows.known().is_some() && columns.known().is_some() {
        return None;
    }
    let mut inner = BTreeSet::new();
    let mut made_by = |value: ValueId| {
        inner.insert(value);
        matcher.producer(value)
    };
    let mut maker = made_by(value)?;
    for _ in 0..MAX_STEPS {
        if maker.is("Transpose") {
            break;
        }
        value = op::viewed(maker)?;
        maker = made_by(value)?;
    }
    let turns = maker.is("Transpose") && ints(maker, "perm")? == [0, 1, 3, 5, 2, 4];
    let blocks = maker.input(0).filter(|_| turns)?;
    let [_, channels, height, block, width, other] = matcher.shape(blocks)? else { return None };
    let side = block.known().filter(|side| *side > 1 && other.is(*side))?;
    let fits = |x: ValueId| {
        let Some([_, of_input, h, w]) = matcher.shape(x) else { return false };
        of_input == channels
            && [h.floor_div(block), w.floor_div(block)] == [height.clone(), width.clone()]
            && channels * (side * side) == *deep
            && (rows, columns) == (height, width)
    };
    value = blocks;
    for _ in 0..MAX_STEPS {
        maker = made_by(value)?;
        value = op::viewed(maker)?;
        if fits(value) {
            let parts = (value, Shuffle::ToDepth { block: side, mode: "CRD" });
            return Some(Found { inner, parts }).filter(|_| matcher.is_float(result));
        }
    }
    None
}

/// The operator that makes this view.
fn recognize(from: &[i64], to: &[i64], view: &View) -> Option<Shuffle> {
    let (&[n, c, h, w], &[m, d, y, x]) = (from, to) else { return None };
    let is = |shuffle: &Shuffle| view_of(*shuffle, from).is_some_and(|made| made == *view);
    let candidates: Vec<Shuffle> = if (n, c, h, w) == (m, d, y, x) {
        // The outer run of the channels has the size of a group.
        let within = view.axes.get(1)?.first()?.size;
        vec![Shuffle::Channels { groups: c / within }]
    } else if y > h && y % h == 0 {
        ["CRD", "DCR"].map(|mode| Shuffle::ToSpace { block: y / h, mode }).to_vec()
    } else if y < h && h % y == 0 {
        ["CRD", "DCR"].map(|mode| Shuffle::ToDepth { block: h / y, mode }).to_vec()
    } else {
        return None;
    };
    candidates.into_iter().find(is)
}

/// The view of an image of these sizes that an operator makes.
fn view_of(shuffle: Shuffle, from: &[i64]) -> Option<View> {
    let &[n, c, h, w] = from else { return None };
    let whole = View::of(from);
    let (blocks, perm, to): (Vec<i64>, &[usize], Vec<i64>) = match shuffle {
        Shuffle::Channels { groups: g } => {
            // Several images would be shuffled as the channels of one.
            (n == 1 && g > 1 && g < c).then_some(())?;
            (vec![n, g, c / g, h, w], &[0, 2, 1, 3, 4], vec![n, c, h, w])
        }
        Shuffle::ToSpace { block: b, mode } => {
            let deep = c / (b * b);
            let (blocks, perm): (_, &[usize]) = match mode {
                "CRD" => (vec![n, deep, b, b, h, w], &[0, 1, 4, 2, 5, 3]),
                _ => (vec![n, b, b, deep, h, w], &[0, 3, 4, 1, 5, 2]),
            };
            (blocks, perm, vec![n, deep, h * b, w * b])
        }
        Shuffle::ToDepth { block: b, mode } => {
            let perm: &[usize] = if mode == "CRD" { &[0, 1, 3, 5, 2, 4] } else { &[0, 3, 5, 1, 2, 4] };
            (vec![n, c, h / b, b, w / b, b], perm, vec![n, c * b * b, h / b, w / b])
        }
    };
    Some(whole.reshaped(&blocks)?.transposed(perm)?.reshaped(&to)?.merged())
}
