//! QLinearAdd and QLinearMul.

use super::super::level::{Levels, Target, constant_int, from_levels, levels, round_levels};
use super::super::nearest::{Exception, First, Plane};
use super::operand::{add_zero, constant_scale, dequantize, quantize};
use crate::ops::prelude::*;

/// The operands of a node, their zero points, and the scales of the operands and of the result.
struct Pair<'x> {
    a: Levels<'x>,
    b: Levels<'x>,
    zeros: [i64; 2],
    scales: [f32; 3],
    target: Target,
}

/// Returns `None` if a scale or a zero point is computed at run time.
fn read_pair<'x>(x: &'x Expand) -> Result<Option<Pair<'x>>> {
    let (Some(a_zero), Some(b_zero), Some(target)) =
        (constant_int(x, 2)?, constant_int(x, 5)?, Target::of_zero(x, 7, x.dtype(0)?)?)
    else {
        return Ok(None);
    };
    let (Some(a_scale), Some(b_scale), Some(scale)) =
        (constant_scale(x, 1)?, constant_scale(x, 4)?, constant_scale(x, 6)?)
    else {
        return Ok(None);
    };
    // Products of wider values are not exact in float32, and have too many pairs to enumerate.
    if x.dtype(0)?.bits().max(x.dtype(3)?.bits()) > 8 {
        return Ok(None);
    }
    let (a, b) = (levels(x, 0, a_zero)?, levels(x, 3, b_zero)?);
    Ok(Some(Pair { a, b, zeros: [a_zero, b_zero], scales: [a_scale, b_scale, scale], target }))
}

/// `op_type` of the dequantized operands.
fn expand_dequantized<'x>(x: &'x Expand, op_type: &'static str) -> Expr<'x> {
    quantize(x, x.make.op(op_type, [dequantize(x, 0), dequantize(x, 3)], []), 6)
}

/// Sums of two products with ratios, and the zero point. `qladd_avx2.cpp` computes it in float32 with fused
/// multiply-add.
pub(super) fn expand_add<'x>(x: &'x Expand) -> Result<Expr<'x>> {
    let Some(pair) = read_pair(x)? else { return Ok(expand_dequantized(x, "Add")) };
    let [a_scale, b_scale, scale] = pair.scales;
    let (plane, exceptions) = Plane {
        ratios: [a_scale / scale, b_scale / scale],
        zeros: pair.zeros,
        bounds: [(pair.a.low, pair.a.high), (pair.b.low, pair.b.high)],
        target: pair.target,
    }
    .solve();
    let (a, b) = (pair.a.value * plane.ratios[0], pair.b.value * plane.ratios[1]);
    let sum = match plane.first {
        First::Products => a + b + plane.zero,
        First::A => a + plane.zero + b,
        First::B => b + plane.zero + a,
    };
    let target = pair.target.at_zero(0);
    let corrected = |values, exception| values + correction(pair.a.value, pair.b.value, exception);
    let values = exceptions.into_iter().fold(round_levels(sum, target), corrected);
    Ok(from_levels(values, target))
}

/// Returns the correction of one pair of levels: 0 for all other pairs.
fn correction<'x>(a: Expr<'x>, b: Expr<'x>, exception: Exception) -> Expr<'x> {
    let [at_a, at_b] = exception.at;
    (1.0 - ((a - at_a).abs() + (b - at_b).abs())).relu() * exception.by
}

/// Integer products times a ratio, plus the zero point (`qlmul.cpp`).
pub(super) fn expand_mul<'x>(x: &'x Expand) -> Result<Expr<'x>> {
    let Some(pair) = read_pair(x)? else { return Ok(expand_dequantized(x, "Mul")) };
    let [a_scale, b_scale, scale] = pair.scales;
    Ok(add_zero(pair.a.value * pair.b.value * (a_scale * b_scale / scale), pair.target))
}
