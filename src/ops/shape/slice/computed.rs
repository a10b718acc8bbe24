//! Slice with bounds computed at run time: a Gather along each axis, of indices that begin at the start. The
//! number of elements is the distance of the bounds, if both are sums of one computed element and sizes; else
//! the declared shape of the output gives it.

use num_traits::AsPrimitive;

use super::{read_spans, span};
use crate::op::{ElementSum, distinct_axes};
use crate::ops::prelude::*;

/// The part of an axis that a slice keeps.
pub(super) struct Part {
    pub axis: usize,
    step: i64,
    pub count: Dim,
    /// The scalar or list of one element that is the free number of elements.
    count_value: Option<ValueId>,
}

/// Returns the axes that the node slices.
fn sliced_axes(call: &Call) -> Result<Vec<usize>> {
    let rank = call.shape(0)?.len();
    let starts = call.shape(1)?;
    let [Dim::Known(count)] = starts else { unsupported!("starts of shape {}", display_shape(starts)) };
    for list in 2..5 {
        call.check_shape(list, starts)?;
    }
    distinct_axes(&if call.has_input(3) { call.axes(3)? } else { (0..*count).collect() }, rank)
}

/// Returns the parts of a slice whose bounds are computed at run time.
///
/// # Errors
///
/// The error `why` if the number of elements of a part is neither known nor declared.
pub(super) fn computed_parts(call: &Call, why: Error) -> Result<Vec<Part>> {
    let constant = |index: usize| !call.has_input(index) || call.constant(index).is_some();
    if call.since() == 1 || !constant(3) || !constant(4) || call.shape(1).is_err() || call.shape(2).is_err() {
        return Err(why);
    }
    let axes = sliced_axes(call)?;
    let steps = if call.has_input(4) { call.int_list(4)? } else { vec![1; axes.len()] };
    let mut parts = Vec::new();
    for (index, (axis, step)) in axes.into_iter().zip(steps).enumerate() {
        let size = call.shape(0)?.at(axis)?;
        let bound = |input| call.node().input(input).map(|id| ElementSum::of(call.graph(), id, index));
        let (Some(start), Some(end)) = (bound(1), bound(2)) else { return Err(why) };
        let mut part = Part { axis, step, count: Dim::ZERO, count_value: None };
        if start.computed.is_none() && end.computed.is_none() {
            part.count = span(size, (&start.size, &end.size), step, call)?.count;
        } else if let Some(count) = start.distance(&end).filter(|count| step == 1 && is_positive(count)) {
            let last = size.known().zip(count.known()).map(|(size, count)| size - count);
            let is_within = |last: i64| Range { least: 0.0, most: last.as_() }.contains(call.range(1));
            if !last.is_some_and(is_within) {
                call.replace_by_sizes(1);
            }
            part.count_value = start.distance_value(&end);
            part.count = count;
        } else if end.computed.is_none() && takes_one(&end.size, size, step) {
            let last: f64 = size.known().unwrap_or(0).as_();
            if !(Range { least: -last, most: last - 1.0 }).contains(call.range(1)) {
                call.replace_by_sizes(1);
            }
            part.count = Dim::ONE;
        } else {
            check_declared(call, &sliced_axes(call)?)?;
            let Some(declared) = declared_size(call, axis) else { return Err(why) };
            for (input, bound) in [(1, start), (2, end)] {
                if bound.computed.is_some() {
                    call.replace_by_sizes(input);
                }
            }
            part.count = declared;
        }
        if let (Some(from), Some(to)) = (size.known(), part.count.known())
            && to > from
        {
            invalid!("a slice of {to} elements of an axis of {from}");
        }
        parts.push(part);
    }
    Ok(parts)
}

/// Refuses a declared shape that no slice along these axes gives.
fn check_declared(call: &Call, axes: &[usize]) -> Result<()> {
    let Ok(declared) = call.output_shape(0) else { return Ok(()) };
    for (axis, (from, to)) in call.shape(0)?.iter().zip(declared).enumerate() {
        let (Some(from), Some(to)) = (from.known(), to.known()) else { continue };
        if to > from || (to != from && !axes.contains(&axis)) {
            invalid!(
                "the declared shape has {to} of {from} elements along axis {axis}, in a slice of {axes:?}"
            );
        }
    }
    Ok(())
}

/// Returns whether a slice from any index of an axis to its end takes one element: its step is not less than
/// the axis.
fn takes_one(end: &Dim, size: &Dim, step: i64) -> bool {
    let [Some(end), Some(size)] = [end, size].map(Dim::known) else { return false };
    step >= size && end >= size
}

fn is_positive(count: &Dim) -> bool {
    matches!(count.bounds(), (Some(1..), _))
}

/// Returns the declared size of an axis of the output, which has elements.
fn declared_size(call: &Call, axis: usize) -> Option<Dim> {
    let shape = call.output_shape(0).ok()?;
    let fits = shape.len() == call.shape(0).ok()?.len();
    shape.get(axis).filter(|size| fits && size.known().is_some_and(|size| size > 0)).cloned()
}

/// Returns the start counted from the front, clamped to an axis of `size` elements.
fn clamped_start(start: Expr, size: i64) -> Expr {
    let start = start + start.less(0).cast(DType::I64) * size;
    start.maximum(0).minimum(size - 1)
}

pub(super) fn expand_slice(x: &Expand) -> Result<bool> {
    if x.since() == 1 {
        return Ok(false);
    }
    let Err(why) = read_spans(x) else { return Ok(false) };
    let parts = computed_parts(x, why)?;
    let starts = x.operand_as(1, DType::I64);
    let mut data = x.operand(0);
    for (index, Part { axis, step, count, count_value }) in (0..).zip(parts) {
        let size = x.shape(0)?.at(axis)?.clone();
        if step == 1 && count == size {
            continue;
        }
        let Some(size) = size.known() else {
            unsupported!("bounds that are computed at run time, along an axis of size {size}");
        };
        let offsets = match (count.known(), count_value) {
            (Some(count), _) => {
                let offsets: Vec<i64> = (0..count).map(|n| n.saturating_mul(step)).collect();
                x.make.ints(&offsets)
            }
            (None, Some(count)) => {
                let count = x.make.value(count).scalar().cast(DType::I64);
                x.make.range(x.make.int(0), count)
            }
            _ => unsupported!("a slice of {count} elements from a start that is computed at run time"),
        };
        let start = clamped_start(starts.gather(x.make.ints(&[index]), 0), size);
        data = data.gather(offsets + start, axis);
    }
    x.output(0, data);
    Ok(true)
}
