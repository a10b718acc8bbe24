//! Softmax, LogSoftmax and Hardmax. Before version 13 all axes from `axis` on are flattened.
//!
//! Spec: <https://onnx.ai/onnx/operators/onnx__Softmax.html>, `onnx__LogSoftmax.html`, `onnx__Hardmax.html`.

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

/// Returns the input and the normalized axis.
fn read_lanes<'l>(lower: &'l Lower) -> Result<(Nd<'l>, usize)> {
    let (x, axis) = (lower.input(0), lower.int("axis")?);
    let rank = x.shape().len();
    let (x, axis) = if lower.since() < 13 {
        let first = if axis < 0 { resolve_axis(axis, rank)? } else { usize::try_from(axis)? };
        (x.flatten(first), 1)
    } else if rank == 0 {
        (x.reshape(shape![1]), 0)
    } else {
        (x, resolve_axis(axis, rank)?)
    };
    Ok((x.with_lanes(axis), axis))
}

fn lower_softmax(lower: &Lower) -> Result<()> {
    let (x, axis) = read_lanes(lower)?;
    if !lower.feeds_selection() {
        return lower.give(0, normalize(x, axis));
    }
    lower.compute_in_float32();
    // If all elements along the axis are -inf the result is NaN. For a reader that drops these elements 0 is
    // right too, and cannot spread.
    let y = normalize(x.compute(|x| x.maximum(f32::MIN)), axis);
    let undefined = x.compute(|x| x.less(f32::MIN)).reduce(reduction_op::MIN, &[axis]);
    lower.give(0, y.compute_with(undefined, |y, undefined| y * !undefined))
}

/// Returns a softmax. For a single element it is 1, where the layer gives 0.999_999_94; for an infinity
/// it is NaN.
fn normalize(x: Nd, axis: usize) -> Nd {
    if x.size(axis).is(1) {
        return x * 0.0 + 1.0;
    }
    x.map_along(axis, |axis| Softmax { axis, fixbug0: 1 })
}

fn lower_log_softmax(lower: &Lower) -> Result<()> {
    let (x, axis) = read_lanes(lower)?;
    let below = x - x.reduce(reduction_op::MAX, &[axis]);
    lower.give(0, below - below.reduce(reduction_op::LOG_SUM_EXP, &[axis]))
}

/// Emits 1 at the first maximum, otherwise 0.
fn lower_hardmax(lower: &Lower) -> Result<()> {
    let (mut x, axis) = read_lanes(lower)?;
    let size = x.size(axis);
    let Some(count) = size.known() else { unsupported!("an axis of free size") };
    if lower.may_be_infinite(0)? {
        // Reduction starts from the least finite number.
        x = x.compute(|x| x.maximum(f32::MIN));
    }
    let max = x.reduce(reduction_op::MAX, &[axis]);
    // 1 for elements below the maximum.
    let below = max.compute_with(x, |max, x| (max - x).greater(0.0));
    // The index of the element, or one beyond all indices.
    let beyond: f32 = num_traits::AsPrimitive::as_(count);
    let candidates = below.compute_along(axis, &size, |below, index| (below * beyond).maximum(index));
    let first = candidates.reduce(reduction_op::MIN, &[axis]);
    lower.give(0, candidates.compute_with(first, |index, first| -(index - first).greater(0.5) + 1.0))
}
