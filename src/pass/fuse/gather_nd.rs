//! `y = gather_nd(x, concat(unsqueeze(expand(i0), -1), unsqueeze(expand(i1), -1), .., axis=-1))` with
//! `i = view(range(0, n, 1))`, each along another axis of the result
//!
//! becomes `unsqueeze(transpose(slice(x)))`. Exporters write masks so: `mask[batch, position]`, with the
//! positions of all elements.

use super::matcher::{Found, Matcher, fuse, two};
use crate::common::int::Int;
use crate::error::Result;
use crate::graph::{Graph, Node, ValueId};
use crate::pass::pattern::is_set;
use crate::pass::progression::columns;
use crate::tensor::{Dim, SizeCondition};

struct Part {
    x: ValueId,
    /// The axes of `x` of which only the first elements are taken: their number as a scalar and as a size,
    /// and the size of the axis.
    sliced: Vec<(usize, ValueId, [Dim; 2])>,
    /// The axes of `x` of size 1 that the result lacks.
    dropped: Vec<i64>,
    /// The order of the other axes.
    perm: Vec<usize>,
    /// The axes of size 1 that the result has in addition to these.
    added: Vec<i64>,
}

pub(crate) fn fuse_gather_nd_of_all(graph: &mut Graph) -> Result<bool> {
    fuse(graph, find, |made, Part { x, sliced, dropped, perm, added }| {
        let mut moved = made.value(x);
        for (axis, count, [taken, size]) in sliced {
            // A Slice takes fewer elements from a shorter axis, where a GatherND fails.
            made.require(SizeCondition::first_of(&taken, &size)?);
            moved = moved.first_of(axis, made.value(count));
        }
        if !dropped.is_empty() {
            moved = moved.squeeze(&dropped);
        }
        if !perm.is_sorted() {
            moved = moved.transpose(&perm);
        }
        Ok(moved.unsqueeze(&added))
    })
}

fn find(matcher: &Matcher, node: &Node) -> Option<Found<Part>> {
    let [x, indices] = two(node).filter(|_| node.is("GatherND") && !is_set(node, "batch_dims"))?;
    let (shape, taken) = (matcher.shape(x)?, matcher.shape(indices)?.split_last()?.1);
    let columns = columns(matcher.graph, indices).filter(|columns| columns.len() <= shape.len())?;
    let (mut sliced, mut dropped) = (Vec::new(), Vec::new());
    // The axis of the result along which each axis of x lies.
    let mut axes: Vec<(usize, usize)> = Vec::new();
    for (from, size) in shape.iter().enumerate() {
        let Some(column) = columns.get(from) else {
            axes.push((taken.len() + from, from));
            continue;
        };
        match column.axis.filter(|_| column.counts()) {
            Some(axis) => {
                let count = taken.get(axis)?;
                if count != size {
                    let number = matcher.limit(column.range?)?;
                    sliced.push((from, number, [count.clone(), size.clone()]));
                }
                axes.push((axis, from));
            }
            None if column.axis.is_none() && column.start.is(0) && size.is(1) => dropped.push(from.int()),
            None => return None,
        }
    }
    axes.sort_unstable();
    if !axes.is_sorted_by(|a, b| a.0 < b.0) {
        return None;
    }
    let is_free = |axis: &usize| axes.iter().all(|(to, _)| to != axis);
    let added: Vec<usize> = (0..taken.len()).filter(is_free).collect();
    if !added.iter().all(|axis| taken.get(*axis).is_some_and(|size| size.is(1))) {
        return None;
    }
    let left: Vec<usize> =
        (0..shape.len()).filter(|axis| axes.iter().any(|(_, from)| from == axis)).collect();
    let perm =
        axes.iter().map(|(_, from)| left.iter().position(|axis| axis == from)).collect::<Option<_>>()?;
    let added = added.into_iter().map(|axis| i64::try_from(axis).ok()).collect::<Option<_>>()?;
    Some(Found::open(Part { x, sliced, dropped, perm, added }))
}
