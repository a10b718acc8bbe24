//! QLinearAdd and QLinearMul.

use super::super::level::{
    Levels, Target, constant_int, from_levels, int_scalar, levels, round_levels, scalar,
};
use super::super::nearest::{Exception, First, Plane};
use super::{add_zero, constant_scale, dequantize, quantize};
use crate::error::Result;
use crate::op::{Call, Fact};
use crate::pass::expand::{Expand, Operand};

pub(super) fn infer_binary(call: &Call) -> Result<Vec<Fact>> {
    Ok(vec![Fact::new(call.dtype(0)?, call.broadcast_shapes(call.shape(0)?, call.shape(3)?)?)])
}

/// The operands of a node, their zero points, and the scales of the operands and of the result.
struct Pair {
    a: Levels,
    b: Levels,
    zeros: [i64; 2],
    scales: [f32; 3],
    target: Target,
}

/// Returns `None` if a scale or a zero point is computed at run time.
fn read_pair(x: &Expand) -> Result<Option<Pair>> {
    let (Some(a_zero), Some(b_zero), Some(target)) =
        (constant_int(x, 2)?, constant_int(x, 5)?, Target::of_output(x, 7)?)
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
fn expand_dequantized(x: &Expand, op_type: &'static str) -> Result<bool> {
    let (a, b) = (dequantize(x, 0)?, dequantize(x, 3)?);
    let result = x.raw_op(op_type, &[a, b], &[])?;
    quantize(x, result, 6)
}

/// Sums of two products with ratios, and the zero point. `qladd_avx2.cpp` computes it in float32 with fused
/// multiply-add.
pub(super) fn expand_add(x: &Expand) -> Result<bool> {
    let Some(pair) = read_pair(x)? else { return expand_dequantized(x, "Add") };
    let [a_scale, b_scale, scale] = pair.scales;
    let (plane, exceptions) = Plane {
        ratios: [a_scale / scale, b_scale / scale],
        zeros: pair.zeros,
        bounds: [(pair.a.low, pair.a.high), (pair.b.low, pair.b.high)],
        target: pair.target,
    }
    .solve();
    let mut terms = Vec::new();
    for (levels, ratio) in [(pair.a, plane.ratios[0]), (pair.b, plane.ratios[1])] {
        let ratio = scalar(x, ratio)?;
        terms.push(x.raw_op("Mul", &[levels.operand, ratio], &[])?);
    }
    terms.push(scalar(x, plane.zero)?);
    match plane.first {
        First::Products => {}
        First::A => terms.swap(1, 2),
        First::B => terms.rotate_left(1),
    }
    let mut sum = terms.remove(0);
    for term in terms {
        sum = x.raw_op("Add", &[sum, term], &[])?;
    }
    let target = pair.target.at_zero(0);
    let mut values = round_levels(x, sum, target)?;
    for exception in exceptions {
        let by = correction(x, [pair.a.operand, pair.b.operand], exception)?;
        values = x.raw_op("Add", &[values, by], &[])?;
    }
    let result = from_levels(x, values, target)?;
    x.raw_output(0, result)?;
    Ok(true)
}

/// Emits the correction of one pair of levels: 0 for all other pairs.
fn correction(x: &Expand, operands: [Operand; 2], exception: Exception) -> Result<Operand> {
    let mut distances = Vec::new();
    for (operand, at) in operands.into_iter().zip(exception.at) {
        let at = int_scalar(x, at)?;
        let difference = x.raw_op("Sub", &[operand, at], &[])?;
        distances.push(x.raw_op("Abs", &[difference], &[])?);
    }
    let distance = x.raw_op("Add", &distances, &[])?;
    let one = int_scalar(x, 1)?;
    let near = x.raw_op("Sub", &[one, distance], &[])?;
    let near = x.raw_op("Relu", &[near], &[])?;
    let by = int_scalar(x, exception.by)?;
    x.raw_op("Mul", &[near, by], &[])
}

/// Integer products times a ratio, plus the zero point (`qlmul.cpp`).
pub(super) fn expand_mul(x: &Expand) -> Result<bool> {
    let Some(pair) = read_pair(x)? else { return expand_dequantized(x, "Mul") };
    let [a_scale, b_scale, scale] = pair.scales;
    let product = x.raw_op("Mul", &[pair.a.operand, pair.b.operand], &[])?;
    let ratio = scalar(x, a_scale * b_scale / scale)?;
    let scaled = x.raw_op("Mul", &[product, ratio], &[])?;
    add_zero(x, scaled, pair.target)
}
