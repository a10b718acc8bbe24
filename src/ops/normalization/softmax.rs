//! Softmax, LogSoftmax and Hardmax. Before version 13 all axes from `axis` on are flattened.
//!
//! Spec: <https://onnx.ai/onnx/operators/onnx__Softmax.html>, `onnx__LogSoftmax.html`, `onnx__Hardmax.html`.

use crate::lower::{isolate, line_form, ramp};
use crate::ncnn::layer::{Softmax, reduction_op};
use crate::op::range;
use crate::ops::prelude::*;

pub(in crate::ops) const OPS: &[Row] = &[
    Row::new("Hardmax", Access::Any, infer_softmax)
        .lower(lower_hardmax)
        .lowers_to("Reduction, Threshold: the index of the first maximum")
        .limits("an axis of free size"),
    Row::new("LogSoftmax", Access::Lanes { since: 13, default: Some(-1) }, infer_softmax)
        .lower(lower_log_softmax)
        .lowers_to("Reduction, BinaryOp, UnaryOp"),
    Row::new("Softmax", Access::Lanes { since: 13, default: Some(-1) }, infer_softmax)
        .lower(lower_softmax)
        .range(range::unit)
        .lowers_to("Softmax")
        .differs("rows with inf or NaN"),
];

fn infer_softmax(call: &Call) -> Result<Vec<Fact>> {
    let axis = call.int("axis")?;
    if let Ok(shape) = call.shape(0) {
        // Before version 13 the axis may be the rank.
        let before = call.since() < 13 && usize::try_from(axis).is_ok_and(|axis| axis == shape.len());
        let scalar = shape.is_empty() && matches!(axis, -1..=0);
        if !before && !scalar {
            resolve_axis(axis, shape.len())?;
        }
    }
    Ok(vec![Fact { shape: call.input(0)?.shape.clone(), ..Fact::unranked(call.dtype(0)?) }])
}

/// Returns the input in a form of at most three axes in which the normalized axis is an axis: Softmax ignores
/// a fourth before 2024-08.
fn lower_input(lower: &Lower) -> Result<(BlobId, usize)> {
    let shape = lower.shape(0)?.to_vec();
    let axis = lower.int("axis")?;
    let rank = shape.len();
    let (first, after) = if lower.since() < 13 {
        let axis = if axis < 0 { resolve_axis(axis, rank)? } else { usize::try_from(axis)? };
        (axis.min(rank), rank)
    } else if rank == 0 {
        (0, 0)
    } else {
        let axis = resolve_axis(axis, rank)?;
        (axis, axis + 1)
    };
    if after == first + 1 {
        let held = lower.blob(0)?;
        let form = lower.form(held);
        if form.len() <= 3
            && let Some(found) = isolate(&form, &shape, &[first])
            && let [axis] = found.as_slice()
        {
            return Ok((held, *axis));
        }
    }
    let outer = Dim::product(shape.iter().take(first));
    let size = Dim::product(shape.iter().take(after).skip(first));
    let inner = Dim::product(shape.iter().skip(after));
    let mut form = vec![size];
    if !inner.is(1) {
        form.push(inner);
    }
    let axis = usize::from(!outer.is(1));
    if axis == 1 {
        form.insert(0, outer);
    }
    Ok((lower.blob_as(0, &form)?, axis))
}

fn lower_softmax(lower: &Lower) -> Result<()> {
    let (x, axis) = lower_input(lower)?;
    if !lower.feeds_choice() {
        let y = normalize(lower, x, axis)?;
        return lower.set(0, y);
    }
    lower.compute_in_float32();
    // If all elements along the axis are -inf the result is NaN. For a reader that drops those elements 0 is
    // right too, and cannot spread.
    let finite = lower.compute(x.larger(f32::MIN))?;
    let y = normalize(lower, finite, axis)?;
    let undefined = lower.reduce(reduction_op::MIN, x.below(f32::MIN), &[axis])?;
    lower.set(0, y * !undefined)
}

/// Emits a Softmax. That of a single element is 1, where the layer gives 0.999_999_94; that of an infinity is
/// NaN.
fn normalize(lower: &Lower, x: BlobId, axis: usize) -> Result<BlobId> {
    let is_single = lower.form(x).get(axis).is_some_and(|size| size.is(1));
    let softmax = Softmax { axis: i32::try_from(axis)?, fixbug0: 1 };
    lower.compute(if is_single { x * 0.0 + 1.0 } else { x.map(softmax) })
}

fn lower_log_softmax(lower: &Lower) -> Result<()> {
    let (x, axis) = lower_input(lower)?;
    let max = lower.reduce(reduction_op::MAX, x, &[axis])?;
    let below = lower.compute(x - max)?;
    let sum = lower.reduce(reduction_op::LOG_SUM_EXP, below, &[axis])?;
    lower.set(0, below - sum)
}

/// Emits 1 at the first maximum, otherwise 0.
fn lower_hardmax(lower: &Lower) -> Result<()> {
    let (mut x, axis) = lower_input(lower)?;
    if lower.may_be_infinite(0)? {
        // Reduction starts from the least finite number.
        x = lower.compute(x.larger(f32::MIN))?;
    }
    let form = lower.form(x);
    let Some(size) = form.get(axis).and_then(Dim::known) else {
        unsupported!("an axis of free size");
    };
    let places = ramp(&Dim::Known(size))?;
    let max = lower.reduce(reduction_op::MAX, x, &[axis])?;
    // 1 for elements below the maximum.
    let below = lower.compute((max - x).above(0.0))?;
    // The index of the element, or one beyond all indices.
    let places = lower.memory_data(&places, &line_form(&Dim::Known(size), axis, form.len()))?;
    let size: f32 = num_traits::AsPrimitive::as_(size);
    let candidates = lower.compute((below * size).larger(places))?;
    let first = lower.reduce(reduction_op::MIN, candidates, &[axis])?;
    lower.set(0, -(candidates - first).above(0.5) + 1.0)
}
