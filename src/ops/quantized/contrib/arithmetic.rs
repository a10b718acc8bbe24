//! QLinearAdd and QLinearMul.

use super::super::level::{
    Levels, Target, constant_int, levels, name_levels, number, read_bounds, round, whole,
};
use super::super::nearest::{Exception, First, Plane};
use super::{base, constant_scale, dequantised, finalize_values, quantised};
use crate::error::Result;
use crate::op::{Call, Fact};
use crate::pass::expand::{Expand, Operand};
use crate::tensor::broadcast_shapes;

pub(super) fn infer_binary(call: &Call) -> Result<Vec<Fact>> {
    read_bounds(call)?;
    Ok(vec![Fact::new(call.dtype(0)?, broadcast_shapes(call.shape(0)?, call.shape(3)?)?)])
}

/// Two operands of a node, with their steps, and the step of the result; none where these are computed at run time.
struct Pair {
    a: Levels,
    b: Levels,
    zeros: [i64; 2],
    scales: [f32; 3],
    target: Target,
}

fn read_pair(x: &mut Expand) -> Result<Option<Pair>> {
    let (Some(a_zero), Some(b_zero)) = (constant_int(x, 2)?, constant_int(x, 5)?) else { return Ok(None) };
    let Some(target) = Target::of_output(x, 7)? else { return Ok(None) };
    let (Some(a_scale), Some(b_scale), Some(scale)) =
        (constant_scale(x, 1)?, constant_scale(x, 4)?, constant_scale(x, 6)?)
    else {
        return Ok(None);
    };
    // Products of longer ones are not exact in float32, and their pairs are too many to try.
    if x.dtype(0)?.bits().max(x.dtype(3)?.bits()) > 8 {
        return Ok(None);
    }
    let (a, b) = (levels(x, 0, a_zero)?, levels(x, 3, b_zero)?);
    Ok(Some(Pair { a, b, zeros: [a_zero, b_zero], scales: [a_scale, b_scale, scale], target }))
}

/// Sums of integers times two ratios, and the zero point (`qladd_avx2.cpp`): fused products in float32.
pub(super) fn expand_add(x: &mut Expand) -> Result<bool> {
    let Some(pair) = read_pair(x)? else {
        let (a, b) = (dequantised(x, 0)?, dequantised(x, 3)?);
        let sum = x.op("Add", &[a, b], &[])?;
        return quantised(x, sum, 6);
    };
    let base = base(x, pair.target);
    let [a_scale, b_scale, scale] = pair.scales;
    let (plane, exceptions) = Plane {
        ratios: [a_scale / scale, b_scale / scale],
        zeros: pair.zeros.map(|zero| zero + base),
        bounds: [(pair.a.low, pair.a.high), (pair.b.low, pair.b.high)],
        target: moved_target(pair.target, base),
    }
    .solve();
    let mut terms = Vec::new();
    for (levels, ratio) in [(pair.a, plane.ratios[0]), (pair.b, plane.ratios[1])] {
        let ratio = number(x, ratio)?;
        terms.push(x.op("Mul", &[levels.operand, ratio], &[])?);
    }
    terms.push(number(x, plane.zero)?);
    match plane.first {
        First::Products => {}
        First::A => terms.swap(1, 2),
        First::B => terms.rotate_left(1),
    }
    let mut moved = terms.remove(0);
    for term in terms {
        moved = x.op("Add", &[moved, term], &[])?;
    }
    let mut values = round(x, moved, pair.target.at_zero(-base))?;
    for exception in exceptions {
        let by = excepted(x, [pair.a.operand, pair.b.operand], exception)?;
        values = x.op("Add", &[values, by], &[])?;
    }
    let result = name_levels(x, values, pair.target.at_zero(-base))?;
    x.output(0, result)?;
    Ok(true)
}

/// What is added to the values of one pair: 0 elsewhere.
fn excepted(x: &mut Expand, operands: [Operand; 2], exception: Exception) -> Result<Operand> {
    let mut distances = Vec::new();
    for (operand, at) in operands.into_iter().zip(exception.at) {
        let at = whole(x, at)?;
        let difference = x.op("Sub", &[operand, at], &[])?;
        distances.push(x.op("Abs", &[difference], &[])?);
    }
    let distance = x.op("Add", &distances, &[])?;
    let one = whole(x, 1)?;
    let near = x.op("Sub", &[one, distance], &[])?;
    let near = x.op("Relu", &[near], &[])?;
    let by = whole(x, exception.by)?;
    x.op("Mul", &[near, by], &[])
}

fn moved_target(target: Target, base: i64) -> Target {
    Target { zero: target.zero + base, low: target.low + base, high: target.high + base, ..target }
}

/// Whole products times a ratio, and the zero point (`qlmul.cpp`).
pub(super) fn expand_mul(x: &mut Expand) -> Result<bool> {
    let Some(pair) = read_pair(x)? else {
        let (a, b) = (dequantised(x, 0)?, dequantised(x, 3)?);
        let product = x.op("Mul", &[a, b], &[])?;
        return quantised(x, product, 6);
    };
    let [a_scale, b_scale, scale] = pair.scales;
    let product = x.op("Mul", &[pair.a.operand, pair.b.operand], &[])?;
    let ratio = number(x, a_scale * b_scale / scale)?;
    let scaled = x.op("Mul", &[product, ratio], &[])?;
    let base = base(x, pair.target);
    let zero = whole(x, pair.target.zero + base)?;
    let moved = x.op("Add", &[scaled, zero], &[])?;
    let result = finalize_values(x, moved, pair.target)?;
    x.output(0, result)?;
    Ok(true)
}
