//! `y = gather(table, slice(indices))` with constants `table` and `indices`
//!
//! becomes `slice(gather(table, indices))`, whose Gather is constant, if that is at most 4 times larger than
//! the table. Exporters look up position embeddings of texts of any length so.
//!
//! `y = gather(x, view(range(0, n, 1)))` along an axis of the free size `n`
//!
//! becomes `unsqueeze(x)`, or `x` if the view of the indices adds no axes of size 1.

use std::collections::BTreeSet;

use super::{Found, Matcher, first, fuse, two};
use crate::error::Result;
use crate::graph::{Attribute, Graph, Node, ValueId};
use crate::op::resolve_axis;
use crate::pass::pattern::{axis, input};
use crate::tensor::Dim;

/// The most views between a Range and the Gather that reads it.
const MAX_VIEWS: usize = 8;
/// The largest ratio of the gathered constant to the table.
const MAX_GROWTH: usize = 4;

struct Part {
    table: ValueId,
    axis: usize,
    indices: ValueId,
    slice: Node,
    /// The axes of the Slice in the gathered constant.
    axes: Vec<i64>,
}

pub(crate) fn fuse_gather_of_slice(graph: &mut Graph) -> Result<bool> {
    fuse(graph, find_part, |made, part| {
        let Part { table, axis, indices, mut slice, axes } = part;
        let axis = ("axis", Attribute::Int(i64::try_from(axis)?));
        let gathered = made.op("Gather", &[table, indices], &[axis]);
        let axes = made.ints(&axes)?;
        for (index, value) in [(0, gathered), (3, axes)] {
            if let Some(slot) = slice.inputs.get_mut(index) {
                *slot = Some(value);
            }
        }
        made.last_as(slice);
        Ok(())
    })
}

fn find_part(matcher: &Matcher, node: &Node) -> Option<Found<Part>> {
    let [table, sliced] = two(node).filter(|_| node.is("Gather"))?;
    let slice = matcher.made_by(sliced, "Slice").filter(|slice| slice.version >= 10)?;
    let (indices, axes) = (first(slice)?, matcher.ints(input(slice, 3)?)?);
    let (data, all) = (matcher.constant(table)?, matcher.constant(indices)?);
    let axis = axis(node, 0, matcher.rank(table)?)?;
    let row = data.len().checked_div(*data.shape().get(axis)?)?;
    if all.len().checked_mul(row)? > data.len().checked_mul(MAX_GROWTH)? {
        return None;
    }
    let shift = |own: i64| i64::try_from(resolve_axis(own, all.shape().len()).ok()? + axis).ok();
    let axes = axes.into_iter().map(shift).collect::<Option<_>>()?;
    let parts = Part { table, axis, indices, slice: slice.clone(), axes };
    Some(Found { inner: BTreeSet::new(), parts })
}

pub(crate) fn remove_gathers_of_all(graph: &mut Graph) -> Result<bool> {
    fuse(graph, find_all, |made, (x, axes)| {
        if axes.is_empty() {
            made.last("Identity", &[x], &[]);
        } else {
            let axes = made.ints(&axes)?;
            made.last("Unsqueeze", &[x, axes], &[]);
        }
        Ok(())
    })
}

fn find_all(matcher: &Matcher, node: &Node) -> Option<Found<(ValueId, Vec<i64>)>> {
    let [x, indices] = two(node).filter(|_| node.is("Gather"))?;
    let axis = axis(node, 0, matcher.rank(x)?)?;
    let size = matcher.shape(x)?.get(axis)?;
    let shape = matcher.shape(indices)?;
    if size.known().is_some() || !shape.iter().filter(|size| !size.is(1)).eq([size]) {
        return None;
    }
    let mut source = indices;
    for _ in 0..MAX_VIEWS {
        let views = ["Unsqueeze", "Reshape", "Squeeze", "Cast", "Identity"];
        let Some(view) = views.iter().find_map(|op_type| matcher.made_by(source, op_type)) else { break };
        source = first(view)?;
    }
    let range = matcher.made_by(source, "Range")?;
    let is_input = |index, scalar| input(range, index).is_some_and(|value| matcher.is_scalar(value, scalar));
    if !is_input(0, 0.0) || !is_input(2, 1.0) || matcher.shape(source)? != std::slice::from_ref(size) {
        return None;
    }
    let added = shape.iter().enumerate().filter(|(_, size): &(usize, &Dim)| size.is(1));
    let axes = added.map(|(at, _)| i64::try_from(axis + at).ok()).collect::<Option<_>>()?;
    Some(Found { inner: BTreeSet::new(), parts: (x, axes) })
}
