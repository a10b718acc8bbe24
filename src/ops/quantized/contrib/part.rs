//! QLinearConcat and QLinearWhere, whose parts are requantized to the scale of the result.

use super::super::level::{Target, constant_int, levels, requantize};
use super::super::nearest::Line;
use super::operand::{constant_scale, dequantize, quantize};
use crate::ops::prelude::*;

/// The first part of QLinearConcat. Each part is followed by its scale and zero point.
const FIRST_PART: usize = 2;

/// Requantizes each part by the function that onnxruntime tabulates (`qlinear_concat.cc`).
pub(super) fn expand_concat<'x>(x: &'x Expand) -> Result<Expr<'x>> {
    let parts = (FIRST_PART..x.input_count()).step_by(3).map(|part| requantized_part(x, part, 0));
    let parts = parts.collect::<Result<Vec<_>>>()?;
    Ok(x.make.concat(&parts, x.int("axis")?))
}

/// Indices of the inputs of QLinearWhere.
mod choice {
    pub const X: usize = 1;
    pub const Y: usize = 4;
    pub const SCALE: usize = 7;
}

/// Requantizes both operands by the function that onnxruntime tabulates (`qlinear_where.cc`).
pub(super) fn expand_where<'x>(x: &'x Expand) -> Result<Expr<'x>> {
    let a = requantized_part(x, choice::X, choice::SCALE)?;
    let b = requantized_part(x, choice::Y, choice::SCALE)?;
    Ok(x.operand(0).select(a, b))
}

/// Returns input `part` requantized to the scale at input `scale`.
fn requantized_part<'x>(x: &'x Expand, part: usize, scale: usize) -> Result<Expr<'x>> {
    if let Some(target) = Target::of_zero(x, scale + 1, x.dtype(scale + 1)?)?
        && let Some(scaled) = scaled_part(x, part, scale, target)?
    {
        return Ok(scaled);
    }
    Ok(quantize(x, dequantize(x, part), scale))
}

/// Returns the requantized part if one product gives all its values.
fn scaled_part<'x>(x: &'x Expand, part: usize, scale: usize, target: Target) -> Result<Option<Expr<'x>>> {
    let (Some(scale), Some(part_scale), Some(zero)) =
        (constant_scale(x, scale)?, constant_scale(x, part + 1)?, constant_int(x, part + 2)?)
    else {
        return Ok(None);
    };
    if scale == part_scale && zero == target.zero {
        return Ok(Some(x.operand(part)));
    }
    let levels = levels(x, part, zero)?;
    let line = Line { scales: [part_scale, scale], bounds: (levels.low, levels.high), target };
    Ok(line.solve().map(|ratio| requantize(levels.value * ratio, target)))
}
