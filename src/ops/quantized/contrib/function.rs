//! QLinearLeakyRelu, QLinearSigmoid and QLinearSoftmax.

use super::super::level::{Target, finalize, number, read_bounds};
use super::super::resolve_axis;
use super::{constant_scale, dequantised, quantised};
use crate::error::{Result, unsupported};
use crate::graph::Attribute;
use crate::op::{Call, Fact, required};
use crate::pass::expand::Expand;

pub(super) fn infer_function(call: &Call) -> Result<Vec<Fact>> {
    call.float("alpha")?;
    Ok(vec![call.like(0, call.dtype(0)?)?])
}

/// A table of all values (`qlinear_lookup_table.cc`).
pub(super) fn expand_leaky_relu(x: &mut Expand) -> Result<bool> {
    let alpha = ("alpha", Attribute::Float(x.float_or("alpha", 0.01)?));
    let number = dequantised(x, 0)?;
    let result = x.op("LeakyRelu", &[number], &[alpha])?;
    quantised(x, result, 3)
}

pub(super) fn expand_sigmoid(x: &mut Expand) -> Result<bool> {
    let number = dequantised(x, 0)?;
    let result = x.op("Sigmoid", &[number], &[])?;
    quantised(x, result, 3)
}

/// The operator set from which Softmax is along one axis.
const SOFTMAX_ONE_AXIS: i64 = 13;

pub(super) fn infer_softmax(call: &Call) -> Result<Vec<Fact>> {
    read_bounds(call)?;
    let opset = required(call.int("opset")?, "opset")?;
    let rank = call.shape(0)?.len();
    let axis = call.int_or("axis", if opset < SOFTMAX_ONE_AXIS { 1 } else { -1 })?;
    if opset < SOFTMAX_ONE_AXIS && resolve_axis(axis, rank)? + 1 != rank {
        unsupported!("several axes together");
    }
    Ok(vec![call.like(0, call.dtype(0)?)?])
}

/// Probabilities times the whole part of the steps in 1 (`qlinear_softmax.cc`).
pub(super) fn expand_softmax(x: &mut Expand) -> Result<bool> {
    let opset = required(x.int("opset")?, "opset")?;
    let axis = x.int_or("axis", if opset < SOFTMAX_ONE_AXIS { 1 } else { -1 })?;
    let input = dequantised(x, 0)?;
    let result = x.op("Softmax", &[input], &[("axis", Attribute::Int(axis))])?;
    let (Some(target), Some(scale)) = (Target::of_output(x, 4)?, constant_scale(x, 3)?) else {
        return quantised(x, result, 3);
    };
    let steps = number(x, (1.0 / scale).floor())?;
    let scaled = x.op("Mul", &[result, steps], &[])?;
    let result = finalize(x, scaled, target)?;
    x.output(0, result)?;
    Ok(true)
}
