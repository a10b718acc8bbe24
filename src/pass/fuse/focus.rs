//! `y = concat(x[.., i0::b, j0::b], x[.., i1::b, j1::b], ...)` with each offset `(i, j)` of a block once
//!
//! becomes `SpaceToDepth(x)` if the offsets are row by row (`j` changes first) and `Reshape`, `Transpose` and
//! `Reshape` if they are column by column, as in YOLOv5 and YOLOX, or if channels are the last axis, as in
//! patch merging.
//!
//! `y = conv(concat(...), weight)`
//!
//! becomes `conv(SpaceToDepth(x), weight')` with the input channels of the weight permuted, if the group is
//! 1.

use std::collections::BTreeSet;

use super::matcher::{Found, Matcher, fuse};
use crate::common::int::Int;
use crate::error::{Error, Result};
use crate::graph::{Graph, Node, ValueId};
use crate::op::{self, resolve_axis};
use crate::pass::builder::{Builder, Expr};
use crate::pass::pattern::int;
use crate::tensor::Span;

/// The largest block.
const MAX_BLOCK: i64 = 4;

/// Blocks of an image, concatenated along its channels.
struct Blocks {
    x: ValueId,
    sizes: Vec<i64>,
    block: i64,
    /// Whether the channels are the last axis instead of the second.
    channels_last: bool,
    /// The offset in the block of each part: row times block plus column.
    order: Vec<i64>,
    inner: BTreeSet<ValueId>,
}

impl Blocks {
    fn rows_first(&self) -> bool {
        self.order.iter().copied().eq(0..self.block * self.block)
    }

    fn columns_first(&self) -> bool {
        let block = self.block;
        let offsets = (0..block).flat_map(|column| (0..block).map(move |row| row * block + column));
        offsets.eq(self.order.iter().copied())
    }
}

/// A strided Slice of a value, or several in a row.
struct Strided {
    x: ValueId,
    /// Start and step along each axis.
    steps: Vec<(i64, i64)>,
    inner: BTreeSet<ValueId>,
}

fn strided(matcher: &Matcher, value: ValueId) -> Option<Strided> {
    let rank = matcher.rank(value)?;
    let mut found = Strided { x: value, steps: vec![(0, 1); rank], inner: BTreeSet::new() };
    for _ in 0..rank {
        let Some((x, spans)) = op::taken(matcher.graph, found.x) else { break };
        for (axis, Span { start, step, .. }) in spans {
            let (start, (outer_start, outer_step)) = (start.known()?, found.steps.get_mut(axis)?);
            if !(0..=MAX_BLOCK).contains(&start) || !(1..=MAX_BLOCK).contains(&step) {
                return None;
            }
            *outer_start = start + step * *outer_start;
            *outer_step *= step;
        }
        found.inner.insert(found.x);
        found.x = x;
    }
    Some(found)
}

fn blocks(matcher: &Matcher, concat: &Node) -> Option<Blocks> {
    let result = concat.output(0).filter(|_| concat.is("Concat"))?;
    let axis = resolve_axis(int(concat, "axis")?, 4).ok()?;
    let channels_last = axis == 3;
    let (rows, columns) = if channels_last { (1, 2) } else { (2, 3) };
    let parts: Vec<Strided> =
        concat.inputs.iter().map(|part| strided(matcher, (*part)?)).collect::<Option<_>>()?;
    let part = parts.first()?;
    let (x, sizes) = (part.x, matcher.sizes(part.x)?);
    let block = part.steps.get(rows)?.1;
    let mut order = Vec::new();
    let mut inner = BTreeSet::new();
    for part in &parts {
        for (at, (start, step)) in part.steps.iter().enumerate() {
            let expected = if at == rows || at == columns { block } else { 1 };
            if *step != expected || (expected == 1 && *start != 0) {
                return None;
            }
        }
        order.push(part.steps.get(rows)?.0 * block + part.steps.get(columns)?.0);
        inner.extend(&part.inner);
    }
    let to = matcher.sizes(result)?;
    let is_whole = [rows, columns]
        .iter()
        .all(|at| sizes.get(*at).zip(to.get(*at)).is_some_and(|(from, to)| block > 1 && *from == to * block));
    let all: BTreeSet<i64> = order.iter().copied().collect();
    let fits = sizes.len() == 4
        && (axis == 1 || channels_last)
        && is_whole
        && parts.iter().all(|part| part.x == x)
        && order.len() == all.len()
        && all.into_iter().eq(0..block * block)
        && matcher.is_float(x);
    fits.then_some(Blocks { x, sizes, block, channels_last, order, inner })
}

pub(crate) fn fuse_focus_conv(graph: &mut Graph) -> Result<bool> {
    fuse(graph, find_conv, |made, (blocks, conv): (Blocks, Node)| {
        let deep = made.op("SpaceToDepth", [made.value(blocks.x)], [("blocksize", blocks.block.into())]);
        let channels = blocks.sizes.get(1).copied().unwrap_or(1);
        let mut indices = Vec::new();
        for offset in 0..blocks.block * blocks.block {
            let part = blocks.order.iter().position(|at| *at == offset).unwrap_or(0);
            let begin = part.int() * channels;
            indices.extend(begin..begin + channels);
        }
        let mut inputs = made.inputs_of(&conv);
        if let [image, Some(weight), ..] = inputs.as_mut_slice() {
            *image = Some(deep);
            *weight = weight.gather(made.ints(&indices), 1);
        }
        made.only_copy_of(&conv, &inputs)
    })
}

fn find_conv(matcher: &Matcher, node: &Node) -> Option<Found<(Blocks, Node)>> {
    let image = node.input(0).filter(|_| node.is("Conv"))?;
    let blocks = blocks(matcher, matcher.made_by(image, "Concat")?)?;
    matcher.constant(node.input(1)?)?;
    if int(node, "group").is_some_and(|group| group != 1) || blocks.channels_last || blocks.rows_first() {
        return None;
    }
    let mut inner = blocks.inner.clone();
    inner.insert(image);
    Some(Found { inner, parts: (blocks, node.clone()) })
}

pub(crate) fn fuse_focus(graph: &mut Graph) -> Result<bool> {
    fuse(graph, find, |made, blocks: Blocks| {
        if blocks.rows_first() && !blocks.channels_last {
            return Ok(made.op("SpaceToDepth", [made.value(blocks.x)], [("blocksize", blocks.block.into())]));
        }
        permute(made, &blocks)
    })
}

fn find(matcher: &Matcher, node: &Node) -> Option<Found<Blocks>> {
    let mut blocks = blocks(matcher, node)?;
    let inner = std::mem::take(&mut blocks.inner);
    (blocks.rows_first() || blocks.columns_first()).then_some(Found { inner, parts: blocks })
}

/// Builds the blocks by Reshape, Transpose and Reshape.
fn permute<'b>(made: &'b Builder<'b>, blocks: &Blocks) -> Result<Expr<'b>> {
    let (&[n, a, b, c], by) = (blocks.sizes.as_slice(), blocks.block) else {
        return Err(Error::internal("blocks of other axes"));
    };
    let (separate, perm, together) = if blocks.channels_last {
        let order: &[usize] = if blocks.rows_first() { &[0, 1, 3, 2, 4, 5] } else { &[0, 1, 3, 4, 2, 5] };
        (vec![n, a / by, by, b / by, by, c], order, vec![n, a / by, b / by, by * by * c])
    } else {
        (vec![n, a, b / by, by, c / by, by], &[0, 5, 3, 1, 2, 4][..], vec![n, by * by * a, b / by, c / by])
    };
    Ok(made.value(blocks.x).reshape(&separate).transpose(perm).reshape(&together))
}
