//! Overlapping parts of an axis, by the indices of their elements.
//!
//! `y = gather(x, start + i * stride + j * dilation)` for all pairs of `i` and `j`, with `stride` below the reach of `j`
//!
//! becomes `reshape(Frames(x))`. Indices are constants, or sums of a Range over a free size and of constants: exporters
//! write Tensor.unfold, frames of signals and im2col so.
//!
//! `y = scatter_add(data, start + i * stride + j, x)` along a list, with constant indices
//!
//! becomes `data + Col2Im(x)`: frames that are added where they overlap.

use std::collections::BTreeSet;

use num_traits::ToPrimitive;

use super::{Found, Matcher, first, fuse, two};
use crate::error::Result;
use crate::graph::{Attribute, Graph, Node, ValueId};
use crate::pass::builder::{Builder, Expr};
use crate::pass::pattern::{axis, input};
use crate::tensor::Dim;

/// The maximum number of nodes between the indices and their sources.
const MAX_DEPTH: usize = 12;
/// The least number of frames, or of their elements, for which a layer is worth it.
const WORTH_A_LAYER: i64 = 4;

/// The number of elements along an axis of indices.
#[derive(Clone, Debug, PartialEq)]
enum Count {
    Known(i64),
    /// The axis of a value with this size.
    Free(ValueId, Dim),
}

impl Count {
    fn is(&self, n: i64) -> bool {
        *self == Count::Known(n)
    }
}

/// Indices that grow by a step along each axis.
#[derive(Clone, Debug, PartialEq)]
struct Steps {
    start: i64,
    axes: Vec<(Count, i64)>,
}

struct Frames {
    x: ValueId,
    indices: ValueId,
    axis: usize,
    rank: usize,
    start: i64,
    count: Count,
    stride: i64,
    elements: i64,
    dilation: i64,
    elements_first: bool,
}

pub(crate) fn fuse_frames(graph: &mut Graph) -> Result<bool> {
    fuse(graph, find, build)
}

fn build<'b>(made: &'b Builder<'b>, frames: Frames) -> Result<Expr<'b>> {
    let x = made.value(frames.x);
    let count = match frames.count {
        Count::Known(count) => made.ints(&[count]),
        Count::Free(range, _) => made.value(range).shape(),
    };
    let attributes = [
        ("axis", i64::try_from(frames.axis)?.into()),
        ("start", frames.start.into()),
        ("stride", frames.stride.into()),
        ("elements", frames.elements.into()),
        ("dilation", frames.dilation.into()),
        ("elements_first", i64::from(frames.elements_first).into()),
    ];
    let taken = made.own_op("Frames", [x, count], attributes);
    let (axis, rank) = (i64::try_from(frames.axis)?, i64::try_from(frames.rank)?);
    let mut shape = vec![made.value(frames.indices).shape()];
    if axis > 0 {
        shape.insert(0, x.apply("Shape", [("end", axis.into())]));
    }
    if axis + 1 < rank {
        shape.push(x.apply("Shape", [("start", (axis + 1).into())]));
    }
    Ok(taken.reshape_to(made.concat(&shape, 0)))
}

fn find(matcher: &Matcher, node: &Node) -> Option<Found<Frames>> {
    let [x, indices] = two(node).filter(|_| node.is("Gather"))?;
    let rank = matcher.rank(x)?;
    let axis = axis(node, 0, rank)?;
    let (start, [outer, inner]) = pair_of_steps(matcher, indices)?;
    let last = |(count, step): &(Count, i64)| match count {
        Count::Known(count) => count.saturating_sub(1).saturating_mul(*step),
        Count::Free(..) => 0,
    };
    let end = start.saturating_add(last(&outer)).saturating_add(last(&inner));
    if matcher.shape(x)?.get(axis)?.known().is_some_and(|size| end >= size) {
        return None;
    }
    let reach = |(count, step): &(Count, i64)| match count {
        Count::Known(count) => count.checked_mul(*step),
        Count::Free(..) => None,
    };
    // The axis of few elements is that of a frame. Frames of a free number need not overlap.
    let is_frame = |frame: &(Count, i64), other: &(Count, i64)| {
        let fits = match (&frame.0, &other.0) {
            (Count::Known(frame), Count::Known(other)) => frame <= other,
            (Count::Known(_), Count::Free(..)) => true,
            (Count::Free(..), _) => false,
        };
        fits && (is_free(other) || reach(frame).is_some_and(|reach| reach > other.1))
    };
    let elements_first = if is_frame(&inner, &outer) {
        false
    } else if is_frame(&outer, &inner) || reach(&outer).is_some() && is_free(&inner) {
        true
    } else {
        return None;
    };
    let ((count, stride), (elements, dilation)) =
        if elements_first { (inner, outer) } else { (outer, inner) };
    let Count::Known(elements) = elements else { return None };
    if matches!(count, Count::Known(count) if count < WORTH_A_LAYER)
        || start < 0
        || stride < 1
        || dilation < 1
    {
        return None;
    }
    let parts = Frames { x, indices, axis, rank, start, count, stride, elements, dilation, elements_first };
    Some(Found { inner: BTreeSet::new(), parts })
}

fn is_free((count, _): &(Count, i64)) -> bool {
    matches!(count, Count::Free(..))
}

/// Frames that are added to a list.
struct Overlap {
    data: ValueId,
    updates: ValueId,
    /// The sizes of the data but the first.
    row: Vec<i64>,
    length: i64,
    start: i64,
    count: i64,
    stride: i64,
    elements: i64,
    /// Whether the axis of the elements precedes that of the frames.
    elements_first: bool,
}

pub(crate) fn fuse_overlap_add(graph: &mut Graph) -> Result<bool> {
    fuse(graph, find_overlap, |made, overlap| {
        let Overlap { data, updates, row, length, start, count, stride, elements, elements_first } = overlap;
        let (width, covered) = (row.iter().product::<i64>(), (count - 1) * stride + elements);
        let columns = made.value(updates);
        let columns = if elements_first {
            columns.reshape(&[elements, count, width]).transpose(&[2, 0, 1])
        } else {
            columns.reshape(&[count, elements, width]).transpose(&[2, 1, 0])
        };
        let columns = columns.reshape(&[1, width * elements, count]);
        let inputs = [columns, made.ints(&[covered]), made.ints(&[elements])];
        let sum = made.op("Col2Im", inputs, [("strides", vec![stride].into())]);
        let mut sum = sum.reshape(&[width, covered]).transpose(&[1, 0]);
        if covered < length {
            let pads = made.ints(&[start, 0, length - start - covered, 0]);
            sum = made.op("Pad", [sum, pads], []);
        }
        let shape = [vec![length], row].concat();
        Ok(made.value(data) + sum.reshape(&shape))
    })
}

fn find_overlap(matcher: &Matcher, node: &Node) -> Option<Found<Overlap>> {
    let is_list = node.is("ScatterElements");
    let adds =
        matches!(node.attributes.get("reduction"), Some(Attribute::String(name)) if name.as_ref() == b"add");
    let [data, indices, updates] = [0, 1, 2].map(|index| input(node, index));
    let (data, indices, updates) = (data?, indices?, updates?);
    let sizes = matcher.sizes(data)?;
    let (length, row) = sizes.split_first()?;
    let list = matcher.sizes(indices)?;
    let fits = match is_list {
        true => row.is_empty(),
        false => node.is("ScatterND") && list.last() == Some(&1),
    };
    if !adds || !fits || !matcher.is_float(data) {
        return None;
    }
    let list = matcher.ints(indices)?;
    let steps = windows(&list)?;
    let [(Count::Known(outer), outer_step), (Count::Known(inner), inner_step)] = steps.axes.as_slice() else {
        return None;
    };
    let (start, elements_first) = (steps.start, *outer_step == 1);
    let (count, stride, elements) = match (outer_step, inner_step) {
        (1, stride) => (*inner, *stride, *outer),
        (stride, 1) => (*outer, *stride, *inner),
        _ => return None,
    };
    let end = count.checked_sub(1)?.checked_mul(stride)?.checked_add(elements)?.checked_add(start)?;
    let overlaps = count > 1 && (1..elements).contains(&stride) && start >= 0 && end <= *length;
    let (length, row) = (*length, row.to_vec());
    let parts = Overlap { data, updates, row, length, start, count, stride, elements, elements_first };
    overlaps.then_some(Found { inner: BTreeSet::new(), parts })
}

/// Returns the start and both axes of indices of two axes, apart from those that continue each other and those of one
/// element.
fn pair_of_steps(matcher: &Matcher, indices: ValueId) -> Option<(i64, [(Count, i64); 2])> {
    let mut value = indices;
    for _ in 0..MAX_DEPTH {
        let found = steps(matcher, value, MAX_DEPTH).or_else(|| windows_of_list(matcher, value));
        if let Some(Steps { start, axes }) = found {
            return <[_; 2]>::try_from(merged(axes)).ok().map(|axes| (start, axes));
        }
        let views = ["Reshape", "Unsqueeze", "Squeeze", "Cast", "Identity"];
        value = views.iter().find_map(|view| first(matcher.made_by(value, view)?))?;
    }
    None
}

/// Drops axes of one element, and merges those that continue each other.
fn merged(axes: Vec<(Count, i64)>) -> Vec<(Count, i64)> {
    let mut kept: Vec<(Count, i64)> = Vec::new();
    for (count, step) in axes.into_iter().filter(|(count, _)| !count.is(1)) {
        match (kept.last_mut(), &count) {
            (Some((Count::Known(before), before_step)), Count::Known(own))
                if own.checked_mul(step) == Some(*before_step) =>
            {
                *before = before.saturating_mul(*own);
                *before_step = step;
            }
            _ => kept.push((count, step)),
        }
    }
    kept
}

/// Returns the steps of indices along each of their axes.
fn steps(matcher: &Matcher, value: ValueId, depth: usize) -> Option<Steps> {
    let depth = depth.checked_sub(1)?;
    let shape = matcher.shape(value)?;
    if let Some(list) = matcher.ints(value) {
        return constant_steps(&matcher.sizes(value)?, &list);
    }
    let node = matcher.producer(value).filter(|node| node.domain.is_empty())?;
    let of = |index: usize| steps(matcher, input(node, index)?, depth);
    match node.op_type.as_str() {
        "Range" => {
            let number = |index: usize| matcher.scalar(input(node, index)?)?.to_i64();
            let [size] = shape else { return None };
            let count = match size.known() {
                Some(count) => Count::Known(count),
                None => Count::Free(value, size.clone()),
            };
            Some(Steps { start: number(0)?, axes: vec![(count, number(2)?)] })
        }
        "Identity" | "Cast" => of(0),
        "Unsqueeze" | "Squeeze" | "Reshape" => {
            let Steps { start, axes } = of(0)?;
            let mut left = axes.into_iter().filter(|(count, _)| !count.is(1));
            let mut axes = Vec::with_capacity(shape.len());
            for size in shape {
                axes.push(match size.is(1) {
                    true => (Count::Known(1), 0),
                    false => left.next().filter(|(count, _)| has_size(count, size))?,
                });
            }
            left.next().is_none().then_some(Steps { start, axes })
        }
        "Add" => sum(of(0)?, of(1)?),
        "Mul" => {
            let [a, b] = two(node)?;
            let (other, factor) = match (matcher.scalar(a), matcher.scalar(b)) {
                (_, Some(factor)) => (a, factor),
                (Some(factor), _) => (b, factor),
                _ => return None,
            };
            let Steps { start, axes } = steps(matcher, other, depth)?;
            let factor = factor.to_i64()?;
            let axes = axes.into_iter().map(|(count, step)| Some((count, step.checked_mul(factor)?)));
            Some(Steps { start: start.checked_mul(factor)?, axes: axes.collect::<Option<_>>()? })
        }
        _ => None,
    }
}

fn has_size(count: &Count, size: &Dim) -> bool {
    match count {
        Count::Known(count) => size.is(*count),
        Count::Free(_, other) => other == size,
    }
}

/// Returns the steps of a sum of indices that are broadcast.
fn sum(a: Steps, b: Steps) -> Option<Steps> {
    let rank = a.axes.len().max(b.axes.len());
    let at = |steps: &Steps, axis: usize| {
        let place = (axis + steps.axes.len()).checked_sub(rank);
        place.and_then(|place| steps.axes.get(place)).cloned().unwrap_or((Count::Known(1), 0))
    };
    let mut axes = Vec::with_capacity(rank);
    for axis in 0..rank {
        let ((count, step), (other, other_step)) = (at(&a, axis), at(&b, axis));
        axes.push(match (count.is(1), other.is(1)) {
            (_, true) => (count, step),
            (true, _) => (other, other_step),
            _ if count == other => (count, step.checked_add(other_step)?),
            _ => return None,
        });
    }
    Some(Steps { start: a.start.checked_add(b.start)?, axes })
}

/// Returns the steps of constant indices.
fn constant_steps(sizes: &[i64], list: &[i64]) -> Option<Steps> {
    let start = *list.first()?;
    let mut axes = Vec::with_capacity(sizes.len());
    let mut inner = usize::try_from(sizes.iter().product::<i64>()).ok()?;
    for size in sizes {
        inner = inner.checked_div(usize::try_from(*size).ok()?)?;
        let step = if *size > 1 { list.get(inner)?.checked_sub(start)? } else { 0 };
        axes.push((Count::Known(*size), step));
    }
    let mut expected = vec![start];
    for (count, step) in &axes {
        let Count::Known(count) = count else { return None };
        let grown = expected
            .iter()
            .flat_map(|first| (0..*count).map(move |n| first.wrapping_add(n.wrapping_mul(*step))));
        expected = grown.collect();
        if expected.len() > list.len() {
            return None;
        }
    }
    (expected == list).then_some(Steps { start, axes })
}

/// Returns the steps of windows that are listed one after the other.
fn windows_of_list(matcher: &Matcher, value: ValueId) -> Option<Steps> {
    windows(&matcher.ints(value).filter(|_| matcher.rank(value) == Some(1))?)
}

/// Returns the steps of windows that a list has one after the other.
fn windows(list: &[i64]) -> Option<Steps> {
    let differences = || list.iter().zip(list.iter().skip(1)).map(|(a, b)| b.wrapping_sub(*a));
    let first = differences().next()?;
    let elements = 1 + differences().take_while(|step| *step == first).count();
    let count = list.len().checked_div(elements).filter(|_| list.len().is_multiple_of(elements))?;
    constant_steps(&[i64::try_from(count).ok()?, i64::try_from(elements).ok()?], list)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_of_constants_are_verified() {
        let known = |count, step| (Count::Known(count), step);
        let found =
            |sizes: &[i64], list: &[i64]| constant_steps(sizes, list).map(|steps| (steps.start, steps.axes));
        assert_eq!(found(&[3, 2], &[1, 2, 3, 4, 5, 6]), Some((1, vec![known(3, 2), known(2, 1)])));
        assert_eq!(found(&[2, 3], &[0, 1, 2, 2, 3, 4]), Some((0, vec![known(2, 2), known(3, 1)])));
        assert_eq!(found(&[2, 3], &[0, 1, 2, 2, 3, 5]), None);
        assert_eq!(merged(vec![known(3, 2), known(1, 0), known(2, 1)]), [known(6, 1)]);
        assert_eq!(merged(vec![known(3, 2), known(4, 1)]), [known(3, 2), known(4, 1)]);
    }
}
