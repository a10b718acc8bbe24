//! `y = gather_nd(x, concat(unsqueeze(expand(i0), -1), unsqueeze(expand(i1), -1), .., axis=-1))` with
//! `i = view(range(0, n, 1))`, each along another axis of the result
//!
//! becomes `unsqueeze(transpose(slice(x)))`. Exporters write masks so: `mask[batch, position]`, with the
//! positions of all elements.
//!
//! `scatter_nd(x, concat(unsqueeze(expand(i0), -1), unsqueeze(expand(i1), -1), .., axis=-1), updates)` with one
//! `i = view(range(0, n, 1))` for each axis of `x` and of all its positions, in order
//!
//! becomes `updates`. Exporters write an assignment to a whole tensor so.

use std::collections::BTreeSet;

use super::{Found, Matcher, first, fuse, two};
use crate::error::Result;
use crate::graph::{Attribute, Graph, Node, ValueId};
use crate::pass::pattern::{axis, input, int};
use crate::tensor::{Dim, SizeCondition};

struct Part {
    x: ValueId,
    /// The axes of `x` of which only the first elements are taken: their number as a scalar and as a size, and the
    /// size of the axis.
    sliced: Vec<(usize, ValueId, [Dim; 2])>,
    /// The axes of `x` of size 1 that the result lacks.
    dropped: Vec<i64>,
    /// The order of the other axes.
    perm: Vec<usize>,
    /// The axes of size 1 that the result has beside these.
    added: Vec<i64>,
}

pub(crate) fn fuse_gather_nd_of_all(graph: &mut Graph) -> Result<bool> {
    fuse(graph, find, |made, Part { x, sliced, dropped, perm, added }| {
        let mut moved = made.value(x);
        for (axis, count, [taken, size]) in sliced {
            // A Slice takes fewer elements from a shorter axis, where a GatherND fails.
            made.require(SizeCondition::first_of(&taken, &size)?);
            moved = moved.first_of(i64::try_from(axis)?, made.value(count));
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
    let [x, indices] =
        two(node).filter(|_| node.is("GatherND") && int(node, "batch_dims").is_none_or(|n| n == 0))?;
    let concat = matcher.made_by(indices, "Concat")?;
    let (shape, taken) = (matcher.shape(x)?, matcher.shape(indices)?.split_last()?.1);
    if axis(concat, 0, taken.len() + 1)? != taken.len() || concat.inputs.len() > shape.len() {
        return None;
    }
    let (mut sliced, mut dropped) = (Vec::new(), Vec::new());
    // The axis of the result along which each axis of x lies.
    let mut places: Vec<(usize, usize)> = Vec::new();
    for (from, size) in shape.iter().enumerate() {
        let Some(part) = concat.inputs.get(from) else {
            places.push((taken.len() + from, from));
            continue;
        };
        match count(matcher, (*part)?, taken)? {
            None if size.is(1) => dropped.push(i64::try_from(from).ok()?),
            None => return None,
            Some(Count { axis, number }) => {
                let count = taken.get(axis)?;
                if count != size {
                    sliced.push((from, number?, [count.clone(), size.clone()]));
                }
                places.push((axis, from));
            }
        }
    }
    places.sort_unstable();
    if !places.is_sorted_by(|a, b| a.0 < b.0) {
        return None;
    }
    let is_free = |axis: &usize| places.iter().all(|(place, _)| place != axis);
    let added: Vec<usize> = (0..taken.len()).filter(is_free).collect();
    if !added.iter().all(|axis| taken.get(*axis).is_some_and(|size| size.is(1))) {
        return None;
    }
    let left: Vec<usize> =
        (0..shape.len()).filter(|axis| places.iter().any(|(_, from)| from == axis)).collect();
    let perm =
        places.iter().map(|(_, from)| left.iter().position(|axis| axis == from)).collect::<Option<_>>()?;
    let added = added.into_iter().map(|axis| i64::try_from(axis).ok()).collect::<Option<_>>()?;
    Some(Found { inner: BTreeSet::new(), parts: Part { x, sliced, dropped, perm, added } })
}

pub(crate) fn remove_scatters_to_all(graph: &mut Graph) -> Result<bool> {
    fuse(graph, find_scatter, |made, updates| Ok(made.value(updates)))
}

fn find_scatter(matcher: &Matcher, node: &Node) -> Option<Found<ValueId>> {
    let replaces = || match node.attributes.get("reduction") {
        Some(Attribute::String(text)) => text.as_ref() == b"none",
        other => other.is_none(),
    };
    let [x, indices, updates] = <[_; 3]>::try_from(node.inputs.as_slice()).ok()?;
    let (x, indices, updates) = (x?, indices?, updates?);
    if !node.is("ScatterND") || !replaces() {
        return None;
    }
    let concat = matcher.made_by(indices, "Concat")?;
    let (shape, taken) = (matcher.shape(x)?, matcher.shape(indices)?.split_last()?.1);
    if axis(concat, 0, taken.len() + 1)? != taken.len()
        || concat.inputs.len() != shape.len()
        || taken != shape
    {
        return None;
    }
    for (place, (part, size)) in concat.inputs.iter().zip(shape).enumerate() {
        match count(matcher, (*part)?, taken)? {
            None if size.is(1) => {}
            Some(Count { axis, .. }) if axis == place => {}
            _ => return None,
        }
    }
    Some(Found { inner: BTreeSet::new(), parts: updates })
}

/// Indices that count from 0 along an axis.
struct Count {
    axis: usize,
    /// The number of indices, a scalar, if it is computed.
    number: Option<ValueId>,
}

/// Reads a part of the indices, of shape `taken` and an axis of size 1: indices that count along an axis, or,
/// as `None`, zeros.
fn count(matcher: &Matcher, part: ValueId, taken: &[Dim]) -> Option<Option<Count>> {
    let mut source = part;
    let mut shape = matcher.shape(part)?.split_last().filter(|(last, _)| last.is(1))?.1;
    let unsqueeze = ["Unsqueeze", "Reshape"].iter().find_map(|op_type| matcher.made_by(part, op_type));
    let whole = unsqueeze.and_then(first).filter(|whole| matcher.shape(*whole) == Some(taken));
    if let Some(expand) = whole.and_then(|whole| matcher.made_by(whole, "Expand")) {
        source = first(expand)?;
        shape = matcher.shape(source)?;
    }
    let shift = taken.len().checked_sub(shape.len())?;
    let mut long = shape.iter().enumerate().filter(|(_, size)| !size.is(1));
    let Some((axis, size)) = long.next() else {
        return matcher.ints(source).is_some_and(|list| list == [0]).then_some(None);
    };
    if long.next().is_some() {
        return None;
    }
    let axis = axis + shift;
    if let Some(list) = matcher.ints(source) {
        return list.into_iter().eq(0..size.known()?).then_some(Some(Count { axis, number: None }));
    }
    let range = matcher.count_to(source, size)?;
    Some(Some(Count { axis, number: input(range, 1) }))
}
