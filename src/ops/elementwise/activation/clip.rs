//! Clip: bounds are attributes before operator set 11, then inputs.
//!
//! Spec: <https://onnx.ai/onnx/operators/onnx__Clip.html>.

use super::super::broadcast::{Kernel, fold_arithmetic};
use crate::lower::{Formula, ScalarOrBlob};
use crate::ncnn::layer::ReLU;
use crate::ops::prelude::*;

/// Bounds from attributes; since operator set 11 they are inputs 1 and 2.
struct Bounds {
    min: Option<f32>,
    max: Option<f32>,
}

fn read_bounds(call: &Call) -> Result<Bounds> {
    if call.since() >= 11 {
        return Ok(Bounds { min: None, max: None });
    }
    Ok(Bounds { min: call.optional_float("min")?, max: call.optional_float("max")? })
}

pub(super) fn infer_clip(call: &Call) -> Result<Vec<Fact>> {
    for index in 1..call.input_count() {
        let shape = call.value(index).and_then(|value| value.shape.as_deref()).unwrap_or_default();
        if Dim::product(shape).known().is_some_and(|count| count != 1) {
            invalid!("a bound has more than one element");
        }
    }
    infer_same(call)
}

pub(super) fn range_clip(call: &Call, inputs: &[Range]) -> Range {
    let bound = |number: Option<f32>, index: usize| match number {
        Some(number) => Some(Range::new(number.into(), number.into())),
        None => inputs.get(index).copied().filter(|_| call.has_input(index)),
    };
    let Ok(bounds) = read_bounds(call) else { return Range::ANY };
    let x = inputs.first().copied().unwrap_or(Range::ANY);
    let raised = bound(bounds.min, 1).map_or(x, |min| x.maximum(min));
    bound(bounds.max, 2).map_or(raised, |max| raised.minimum(max))
}

/// The larger of two elements, which is a number unless both are NaN.
pub(in crate::ops) const AT_LEAST: Kernel<f64, i64, Dim> =
    Kernel { float: f64::max, int: |x, y| Ok(x.max(y)), dim: |x, y| Ok(x.maximum(y)) };
/// The smaller of two elements, which is a number unless both are NaN.
pub(in crate::ops) const AT_MOST: Kernel<f64, i64, Dim> =
    Kernel { float: f64::min, int: |x, y| Ok(x.min(y)), dim: |x, y| Ok(x.minimum(y)) };

pub(super) fn fold_clip(call: &Call) -> Result<Vec<Array>> {
    let bounds = read_bounds(call)?;
    let mut clipped = call.array(0)?.clone();
    for (kernel, number, index) in [(&AT_LEAST, bounds.min, 1), (&AT_MOST, bounds.max, 2)] {
        let bound = match (number, call.optional_array(index)?) {
            (Some(number), _) => Array::f32(ndarray::ArrayD::from_elem(ndarray::IxDyn(&[]), number)),
            (None, Some(bound)) => bound.reshape(&[])?,
            (None, None) => continue,
        };
        clipped = fold_arithmetic(&clipped, &bound.cast(clipped.dtype())?, kernel)?;
    }
    Ok(vec![clipped])
}

pub(super) fn lower_clip(lower: &Lower) -> Result<()> {
    let bounds = read_bounds(lower)?;
    let mut shapes = vec![(0, lower.shape(0)?.to_vec())];
    shapes.extend((1..=2).filter(|index| lower.has_input(*index)).map(|index| (index, Vec::new())));
    let sides = lower.broadcast(&shapes)?;
    let bound = |number: Option<f32>, index: usize| {
        let side = shapes.iter().position(|(input, _)| *input == index);
        number.map(ScalarOrBlob::Number).or(side.and_then(|side| sides.get(side).copied()))
    };
    let (x, min, max) = (*sides.at(0)?, bound(bounds.min, 1), bound(bounds.max, 2));
    let range = lower.range(0);
    let is_least =
        |bound: &ScalarOrBlob| matches!(bound, ScalarOrBlob::Number(n) if f64::from(*n) <= range.least);
    let is_most =
        |bound: &ScalarOrBlob| matches!(bound, ScalarOrBlob::Number(n) if f64::from(*n) >= range.most);
    if min.as_ref().is_none_or(is_least) && max.as_ref().is_none_or(is_most) {
        return lower.give(0, lower.input(0));
    }
    lower.set(0, clamp(x, min, max))
}

/// Returns `min(max(x, min), max)`.
fn clamp(x: ScalarOrBlob, min: Option<ScalarOrBlob>, max: Option<ScalarOrBlob>) -> Formula {
    // The ends of a type with infinities clip only infinities.
    let raises = |side: &ScalarOrBlob| !matches!(side, ScalarOrBlob::Number(n) if *n <= f32::MIN);
    let lowers = |side: &ScalarOrBlob| !matches!(side, ScalarOrBlob::Number(n) if *n >= f32::MAX);
    match (min.filter(raises), max.filter(lowers)) {
        (Some(ScalarOrBlob::Number(min)), Some(ScalarOrBlob::Number(max))) => x.clip(min, max),
        (Some(ScalarOrBlob::Number(0.0)), None) => x.map(ReLU::default()),
        (min, max) => {
            let raised = min.map_or(x.into(), |min| x.maximum(min));
            match max {
                Some(max) => raised.minimum(max),
                None => raised,
            }
        }
    }
}
