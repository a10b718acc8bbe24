//! DepthToSpace, SpaceToDepth and ShuffleChannel: `reshape(transpose(reshape(x)))` with the shapes and the
//! permutation of such a rearrangement.

use std::collections::BTreeSet;

use super::view::{View, trace};
use super::{Build, Found, Look, first, fuse};
use crate::error::Result;
use crate::graph::{Attribute, Graph, Node, ValueId};
use crate::tensor::Dim;

/// The maximum number of consecutive nodes that change the axes of an image.
const MAX_STEPS: usize = 4;

/// A rearrangement of blocks.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Shuffle {
    /// Shuffles the channels of groups.
    Channels { groups: i64 },
    /// Moves blocks of channels to blocks of pixels.
    ToSpace { block: i64, mode: &'static str },
    /// Moves blocks of pixels to blocks of channels.
    ToDepth { block: i64, mode: &'static str },
}

/// Fuses Reshape, Transpose and Reshape to one rearrangement of an image.
pub(crate) fn fuse_shuffle(graph: &mut Graph) -> Result<bool> {
    fuse(graph, find, |made: &mut Build, (x, shuffle): (ValueId, Shuffle)| {
        let text = |mode: &'static str| Attribute::String(mode.into());
        match shuffle {
            Shuffle::Channels { groups } => {
                made.own("ShuffleChannel", &[x], &[("group", Attribute::Int(groups))]);
            }
            Shuffle::ToSpace { block, mode } => {
                let block = ("blocksize", Attribute::Int(block));
                made.last("DepthToSpace", &[x], &[block, ("mode", text(mode))]);
            }
            Shuffle::ToDepth { block, mode } => {
                let block = ("blocksize", Attribute::Int(block));
                made.last("SpaceToDepth", &[x], &[block, ("mode", text(mode))]);
            }
        }
        Ok(())
    })
}

fn find(look: &Look, node: &Node) -> Option<Found<(ValueId, Shuffle)>> {
    of_groups_or_blocks(look, node).or_else(|| blocks_to_depth(look, node))
}

fn of_groups_or_blocks(look: &Look, node: &Node) -> Option<Found<(ValueId, Shuffle)>> {
    let result = node.outputs.first().copied().flatten()?;
    let turned = first(node).filter(|_| node.is("Reshape"))?;
    let transpose = look.made_by(turned, "Transpose")?;
    let blocks = first(transpose)?;
    let x = first(look.made_by(blocks, "Reshape")?)?;
    if look.sizes(x).is_none() {
        let groups = free_groups(look, [x, blocks, result], transpose)?;
        let parts = (x, Shuffle::Channels { groups });
        return Some(Found { inner: BTreeSet::from([blocks, turned]), parts });
    }
    let to = look.sizes(result)?;
    let mut traced = trace(look, result, |value| value == x, false)?;
    traced.inner.remove(&result);
    let from = look.sizes(traced.source)?;
    if traced.source != x || !look.is_float(result) {
        return None;
    }
    let shuffle = recognise(&from, &to, &traced.view.merged())?;
    Some(Found { inner: traced.inner, parts: (x, shuffle) })
}

/// Returns the number of groups of shuffled channels in an image of free sizes.
fn free_groups(look: &Look, [x, blocks, result]: [ValueId; 3], transpose: &Node) -> Option<i64> {
    let [batch, channels, height, width] = look.shape(x)? else { return None };
    let [_, groups, within, ..] = look.shape(blocks)? else { return None };
    let apart = [batch, groups, within, height, width];
    let Some(Attribute::Ints(perm)) = transpose.attributes.get("perm") else { return None };
    let counts = (channels.known()?, groups.known()?, within.known()?);
    let fits = batch.is(1)
        && look.alike(x, result)
        && look.shape(blocks)?.iter().eq(apart)
        && perm.as_slice() == [0, 2, 1, 3, 4]
        && counts.1 > 1
        && counts.2 > 1
        && counts.1.checked_mul(counts.2) == Some(counts.0);
    fits.then_some(counts.1)
}

/// Matches blocks of pixels of an image of free sizes that become channels: exporters write rows and columns
/// in separate steps.
fn blocks_to_depth(look: &Look, node: &Node) -> Option<Found<(ValueId, Shuffle)>> {
    let result = node.outputs.first().copied().flatten().filter(|_| reshapes(node))?;
    let [_, deep, rows, columns] = look.shape(result)? else { return None };
    if rows.known().is_some() || columns.known().is_some() {
        return None;
    }
    let mut inner = BTreeSet::new();
    let mut value = first(node)?;
    let mut made_by = |value: ValueId| {
        inner.insert(value);
        look.graph.value(value).producer.and_then(|id| look.graph.node(id))
    };
    let mut maker = made_by(value)?;
    for _ in 0..MAX_STEPS {
        if maker.is("Transpose") {
            break;
        }
        value = first(maker).filter(|_| reshapes(maker))?;
        maker = made_by(value)?;
    }
    let Some(Attribute::Ints(perm)) = maker.attributes.get("perm") else { return None };
    let blocks = first(maker).filter(|_| maker.is("Transpose") && perm.as_slice() == [0, 1, 3, 5, 2, 4])?;
    let [_, channels, height, block, width, other] = look.shape(blocks)? else { return None };
    let side = block.known().filter(|side| *side > 1 && other.is(*side))?;
    let fits = |x: ValueId| {
        let Some([batch, own, h, w]) = look.shape(x) else { return false };
        let parts = |size: &Dim| size.floor_div(block).ok();
        batch.is(1)
            && own == channels
            && [parts(h).as_ref(), parts(w).as_ref()] == [Some(height), Some(width)]
            && channels.mul(&Dim::Known(side * side)).is_ok_and(|product| product == *deep)
            && (rows, columns) == (height, width)
    };
    value = blocks;
    for _ in 0..MAX_STEPS {
        maker = made_by(value)?;
        value = first(maker).filter(|_| reshapes(maker))?;
        if fits(value) {
            let parts = (value, Shuffle::ToDepth { block: side, mode: "CRD" });
            return Some(Found { inner, parts }).filter(|_| look.is_float(result));
        }
    }
    None
}

fn reshapes(node: &Node) -> bool {
    ["Reshape", "Squeeze", "Unsqueeze", "Flatten"].into_iter().any(|op_type| node.is(op_type))
}

fn recognise(from: &[i64], to: &[i64], view: &View) -> Option<Shuffle> {
    let (&[n, c, h, w], &[m, d, y, x]) = (from, to) else { return None };
    let is = |shuffle: &Shuffle| made_by(*shuffle, from).is_some_and(|made| made == *view);
    let candidates: Vec<Shuffle> = if (n, c, h, w) == (m, d, y, x) {
        // The first run of the channels iterates over the channels of a group.
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

/// Returns the view that a rearrangement computes.
fn made_by(shuffle: Shuffle, from: &[i64]) -> Option<View> {
    let &[n, c, h, w] = from else { return None };
    let whole = View::of(from);
    let (blocks, perm, to): (Vec<i64>, &[usize], Vec<i64>) = match shuffle {
        Shuffle::Channels { groups: g } => {
            // A batch would be more channels in one row.
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
