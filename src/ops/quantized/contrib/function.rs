//! QLinearLeakyRelu, QLinearSigmoid and QLinearSoftmax.

use num_traits::AsPrimitive;

use super::super::level::{Target, requantize};
use super::super::resolve_axis;
use super::operand::{constant_scale, dequantize, quantize};
use crate::error::ErrorCode;
use crate::ops::prelude::*;

/// The function of the dequantized values, which onnxruntime tabulates (`qlinear_lookup_table.cc`).
pub(super) fn expand_leaky_relu<'x>(x: &'x Expand) -> Result<Expr<'x>> {
    let alpha = ("alpha", x.float("alpha")?.into());
    Ok(quantize(x, x.make.op("LeakyRelu", [dequantize(x, 0)], [alpha]), 3))
}

pub(super) fn expand_sigmoid<'x>(x: &'x Expand) -> Result<Expr<'x>> {
    Ok(quantize(x, dequantize(x, 0).sigmoid(), 3))
}

/// The operator set since which Softmax normalizes one axis.
const SOFTMAX_ONE_AXIS: i64 = 13;

/// Probabilities times the number of whole steps in 1 (`qlinear_softmax.cc`).
pub(super) fn expand_softmax<'x>(x: &'x Expand) -> Result<Expr<'x>> {
    let (opset, rank) = (x.int("opset")?, x.shape(0)?.len());
    let axis = x.int_or("axis", if opset < SOFTMAX_ONE_AXIS { 1 } else { -1 })?;
    if opset < SOFTMAX_ONE_AXIS && resolve_axis(axis, rank)? + 1 != rank {
        unsupported!("several axes together");
    }
    if constant_scale(x, 1)?.is_some_and(|scale| scale < 0.0) {
        x.refuse(
            Error::unsupported(
                "a negative scale: onnxruntime subtracts the largest level, which is then the least element",
            )
            .code_is(ErrorCode::FAULTY_KERNEL),
        );
    }
    if let Some(scale) = constant_scale(x, 3)? {
        require_long(x, axis, scale)?;
    }
    let result = dequantize(x, 0).softmax(axis);
    let (Some(target), Some(scale)) = (Target::of_zero(x, 4, x.dtype(0)?)?, constant_scale(x, 3)?) else {
        unsupported!("a scale or a zero point of the result that is known only at run time");
    };
    Ok(requantize(result * (1.0 / scale).floor(), target))
}

/// Requires an axis that is long enough for onnxruntime: its largest exponential is the largest float32
/// divided by the length of the axis and by `e^5`, and its product with the steps in 1 must be finite.
fn require_long(x: &Expand, axis: i64, scale: f32) -> Result<()> {
    let shape = x.shape(0)?;
    let size = shape.at(resolve_axis(axis, shape.len())?)?;
    let least: i64 = (f64::from((1.0 / scale).floor()) / libm::exp(5.0)).ceil().as_();
    match size.known() {
        Some(known) if known < least => {
            let why = format!(
                "an axis of {known}: with this scale of the result onnxruntime overflows if the axis is shorter \
                 than {least}"
            );
            x.refuse(Error::unsupported(why).code_is(ErrorCode::FAULTY_KERNEL));
        }
        Some(_) => {}
        None => x.require(SizeCondition::at_least(size, least))?,
    }
    Ok(())
}
