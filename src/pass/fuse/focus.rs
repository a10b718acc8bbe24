//! SpaceToDepth, from a Concat of strided Slices.
//!
//! `concat(x[.., i::b, j::b] for each i, j < b)`
//!
//! YOLOv5 and YOLOX begin with it, the columns of a block before its rows; if a Conv reads the result, the
//! order is moved into its weight. Patch merging has the channels last.

use std::collections::BTreeSet;

use super::layer_norm::to_attribute;
use super::view::ints;
use super::{Build, Found, Look, first, fuse};
use crate::error::Result;
use crate::graph::{Attribute, Graph, Node, ValueId};
use crate::op::resolve_axis;

/// The maximum size of a block.
const MAX_BLOCK: i64 = 4;

/// The blocks of an image, each of which becomes the channels of one position.
struct Blocks {
    x: ValueId,
    sizes: Vec<i64>,
    block: i64,
    /// Whether the channels are the last axis, not the second.
    channels_last: bool,
    /// The positions within a block, in the order of the parts: row times block size plus column.
    order: Vec<i64>,
    inner: BTreeSet<ValueId>,
}

impl Blocks {
    fn rows_first(&self) -> bool {
        self.order.iter().copied().eq(0..self.block * self.block)
    }

    fn columns_first(&self) -> bool {
        let turned = (0..self.block).flat_map(|column| (0..self.block).map(move |row| (row, column)));
        turned.map(|(row, column)| row * self.block + column).eq(self.order.iter().copied())
    }
}

/// A strided slice of a value.
struct Strided {
    x: ValueId,
    /// Start and step along each axis.
    cuts: Vec<(i64, i64)>,
    inner: BTreeSet<ValueId>,
}

fn strided(look: &Look, value: ValueId) -> Option<Strided> {
    let rank = look.rank(value)?;
    let mut found = Strided { x: value, cuts: vec![(0, 1); rank], inner: BTreeSet::new() };
    // At most one Slice for each axis.
    for _ in 0..rank {
        let Some(node) = look.made_by(found.x, "Slice") else { break };
        let x = first(node)?;
        let list = |index: usize| node.inputs.get(index).copied().flatten().map(|list| ints(look, list));
        let (starts, axes) = (list(1)??, list(3)??);
        let steps = list(4).unwrap_or_else(|| Some(vec![1; starts.len()]))?;
        for ((start, axis), step) in starts.into_iter().zip(axes).zip(steps) {
            let axis = resolve_axis(axis, rank).ok()?;
            let (outer_start, outer_step) = found.cuts.get_mut(axis)?;
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

fn blocks(look: &Look, concat: &Node) -> Option<Blocks> {
    let result = concat.outputs.first().copied().flatten().filter(|_| concat.is("Concat"))?;
    let axis = match concat.attributes.get("axis") {
        Some(Attribute::Int(axis)) => resolve_axis(*axis, 4).ok()?,
        _ => return None,
    };
    let channels_last = axis == 3;
    let (rows, columns) = if channels_last { (1, 2) } else { (2, 3) };
    let parts: Vec<Strided> =
        concat.inputs.iter().map(|part| strided(look, (*part)?)).collect::<Option<_>>()?;
    let part = parts.first()?;
    let (x, sizes) = (part.x, look.sizes(part.x)?);
    let block = part.cuts.get(rows)?.1;
    let mut order = Vec::new();
    let mut inner = BTreeSet::new();
    for part in &parts {
        for (at, (start, step)) in part.cuts.iter().enumerate() {
            let expected = if at == rows || at == columns { block } else { 1 };
            if *step != expected || (expected == 1 && *start != 0) {
                return None;
            }
        }
        order.push(part.cuts.get(rows)?.0 * block + part.cuts.get(columns)?.0);
        inner.extend(&part.inner);
    }
    let to = look.sizes(result)?;
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
        && look.is_float(x);
    fits.then_some(Blocks { x, sizes, block, channels_last, order, inner })
}

/// Fuses Slices and Concat before a Conv; other orders of the blocks than that of SpaceToDepth go into the
/// weight.
pub(crate) fn fuse_focus_conv(graph: &mut Graph) -> Result<bool> {
    fuse(graph, find_conv, |made: &mut Build, (blocks, conv): (Blocks, Node)| {
        let deep = space_to_depth(made, &blocks)?;
        let channels = blocks.sizes.get(1).copied().unwrap_or(1);
        let mut places = Vec::new();
        for place in 0..blocks.block * blocks.block {
            let part = blocks.order.iter().position(|at| *at == place).unwrap_or(0);
            let begin = i64::try_from(part)? * channels;
            places.extend(begin..begin + channels);
        }
        let places = made.ints(&places)?;
        let mut conv = conv;
        let weight = conv.inputs.get(1).copied().flatten();
        let weights: Vec<ValueId> = weight.into_iter().chain([places]).collect();
        let weight = made.op("Gather", &weights, &[("axis", Attribute::Int(1))])?;
        for (slot, value) in conv.inputs.iter_mut().zip([deep, weight]) {
            *slot = Some(value);
        }
        made.last_as(conv);
        Ok(())
    })
}

fn find_conv(look: &Look, node: &Node) -> Option<Found<(Blocks, Node)>> {
    let image = first(node).filter(|_| node.is("Conv"))?;
    let blocks = blocks(look, look.made_by(image, "Concat")?)?;
    let weight = node.inputs.get(1).copied().flatten()?;
    look.graph.value(weight).constant.as_ref()?;
    let is_grouped = matches!(node.attributes.get("group"), Some(Attribute::Int(group)) if *group != 1);
    if is_grouped || blocks.channels_last || blocks.rows_first() {
        return None;
    }
    let mut inner = blocks.inner.clone();
    inner.insert(image);
    Some(Found { inner, parts: (blocks, node.clone()) })
}

/// Fuses Slices and Concat without a Conv.
pub(crate) fn fuse_focus(graph: &mut Graph) -> Result<bool> {
    fuse(graph, find, |made: &mut Build, blocks: Blocks| {
        if blocks.rows_first() && !blocks.channels_last {
            let block = ("blocksize", Attribute::Int(blocks.block));
            made.last("SpaceToDepth", &[blocks.x], &[block]);
            return Ok(());
        }
        turned(made, &blocks)
    })
}

fn find(look: &Look, node: &Node) -> Option<Found<Blocks>> {
    let mut blocks = blocks(look, node)?;
    let inner = std::mem::take(&mut blocks.inner);
    (blocks.rows_first() || blocks.columns_first()).then_some(Found { inner, parts: blocks })
}

fn space_to_depth(made: &mut Build, blocks: &Blocks) -> Result<ValueId> {
    made.op("SpaceToDepth", &[blocks.x], &[("blocksize", Attribute::Int(blocks.block))])
}

/// Emits the blocks by Reshape, Transpose and Reshape.
fn turned(made: &mut Build, blocks: &Blocks) -> Result<()> {
    let (&[n, a, b, c], by) = (blocks.sizes.as_slice(), blocks.block) else { return Ok(()) };
    let (apart, perm, together) = if blocks.channels_last {
        let order: &[usize] = if blocks.rows_first() { &[0, 1, 3, 2, 4, 5] } else { &[0, 1, 3, 4, 2, 5] };
        (vec![n, a / by, by, b / by, by, c], order, vec![n, a / by, b / by, by * by * c])
    } else {
        (vec![n, a, b / by, by, c / by, by], &[0, 5, 3, 1, 2, 4][..], vec![n, by * by * a, b / by, c / by])
    };
    let (apart, together) = (made.ints(&apart)?, made.ints(&together)?);
    let parts = made.op("Reshape", &[blocks.x, apart], &[])?;
    let moved = made.op("Transpose", &[parts], &[("perm", to_attribute(perm)?)])?;
    made.last("Reshape", &[moved, together], &[]);
    Ok(())
}
