//! Operands and results between levels and real numbers.

use super::super::level::{Target, requantize};
use crate::ops::prelude::*;

/// Returns the scale at input `index` if it is one constant.
pub(super) fn constant_scale(x: &Call, index: usize) -> Result<Option<f32>> {
    let Some(constant) = x.constant(index) else { return Ok(None) };
    Ok(match constant.load_listed()?.float_list()?.as_slice() {
        [scale] if scale.is_normal() => Some(*scale),
        _ => None,
    })
}

/// Returns the dequantized input `index`; its scale and zero point are the next two inputs.
pub(super) fn dequantize<'x>(x: &'x Expand, index: usize) -> Expr<'x> {
    x.make.op("DequantizeLinear", [index, index + 1, index + 2].map(|index| x.operand(index)), [])
}

/// Returns the quantized value; its scale and zero point are the inputs from `scale` on.
pub(super) fn quantize<'x>(x: &'x Expand, value: Expr<'x>, scale: usize) -> Expr<'x> {
    x.make.op("QuantizeLinear", [value, x.operand(scale), x.operand(scale + 1)], [])
}

/// Returns `scaled` plus the zero point. The sum is rounded: half goes to even values, not to even levels.
pub(super) fn add_zero<'x>(scaled: Expr<'x>, target: Target) -> Expr<'x> {
    requantize(scaled + target.zero, target.at_zero(0))
}
