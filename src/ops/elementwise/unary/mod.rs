//! Mathematical functions of one operand.
//!
//! UnaryOp has the hyperbolic functions only since 2026-05; they are lowered to exponentials and a series
//! near 0.
//! Above 1e4 the vectorized sine, cosine and tangent lose digits.
//!
//! Spec: <https://onnx.ai/onnx/operators/onnx__Abs.html> and so on.

mod hyperbolic;

use ndarray::ArrayD;

use super::broadcast::LOSES_NAN;
use crate::lower::{AssumedFact, Formula, LowerNode, OverZero, ScalarOrBlob};
use crate::ncnn::layer::{Erf, Log, ReLU, UnaryOp, unary_op};
use crate::op::{Fold, infer_test, range};
use crate::ops::prelude::*;
use crate::tensor::erf;

/// The exponent above which the vectorized exponential saturates.
const LARGEST_EXPONENT: f64 = 88.0;

/// Vectorized code reduces an angle with the digits of float32.
const FAR_ANGLES: &str = "magnitudes above 10000 (10^7 with fused multiply-adds), stated by value";

pub(in crate::ops) const OPS: &[Row] = &[
    unary(
        "Abs",
        |call| fold_signed(call, f64::abs, i64::wrapping_abs, magnitudes),
        |l| layer(l, unary_op::ABS),
    )
    .range(|call, x| range::first(call, x).abs())
    .lowers_to("UnaryOp"),
    unary("Acos", |call| fold(call, libm::acos), |l| layer(l, unary_op::ACOS))
        .nan(except_zero)
        .lowers_to("UnaryOp"),
    unary("Acosh", |call| fold(call, libm::acosh), |l| lower(l, hyperbolic::acosh))
        .nan(except_one)
        .lowers_to("UnaryOp, BinaryOp"),
    unary("Asin", |call| fold(call, libm::asin), |l| layer(l, unary_op::ASIN))
        .nan(except_zero)
        .lowers_to("UnaryOp"),
    unary("Asinh", |call| fold(call, libm::asinh), |l| lower(l, hyperbolic::asinh))
        .lowers_to("UnaryOp, BinaryOp"),
    unary("Atan", |call| fold(call, libm::atan), |l| lower(l, arctangent))
        .lowers_to("UnaryOp")
        .differs(LOSES_NAN),
    unary("Atanh", |call| fold(call, libm::atanh), |l| lower(l, hyperbolic::atanh))
        .nan(except_zero)
        .lowers_to("UnaryOp, BinaryOp"),
    unary("Ceil", |call| fold(call, f64::ceil), |l| layer(l, unary_op::CEIL))
        .range(|call, x| range::first(call, x).map(f64::ceil))
        .discontinuous(|_, _| true)
        .precise(|_, _| true)
        .lowers_to("UnaryOp"),
    angle("Cos", |call| fold(call, libm::cos), |l| layer(l, unary_op::COS)).range(range_unit),
    unary("Cosh", |call| fold(call, libm::cosh), |l| lower(l, hyperbolic::cosh))
        .lowers_to("UnaryOp, BinaryOp")
        .differs(LOSES_NAN),
    unary("Erf", |call| fold(call, erf), |l| lower(l, error_function)).range(range_unit).lowers_to("Erf"),
    unary("Exp", |call| fold(call, libm::exp), |l| lower(l, bounded_exponential))
        .range(|call, x| range::first(call, x).map(libm::exp))
        .lowers_to("UnaryOp")
        .differs(LOSES_NAN),
    unary("Floor", |call| fold(call, f64::floor), |l| layer(l, unary_op::FLOOR))
        .range(|call, x| range::first(call, x).map(f64::floor))
        .discontinuous(|_, _| true)
        .precise(|_, _| true)
        .lowers_to("UnaryOp"),
    Row::new("IsInf", Access::Elementwise, infer_test)
        .fold(fold_is_inf)
        .lower(lower_is_inf)
        .lowers_to("Threshold"),
    Row::new("IsNaN", Access::Elementwise, infer_test)
        .fold(|call| Ok(vec![call.array(0)?.test(f64::is_nan)?]))
        .lower(lower_is_nan)
        .lowers_to("Threshold"),
    unary("Log", |call| fold(call, libm::log), |l| lower(l, logarithm))
        .range(range_log)
        .nan(except_one)
        .lowers_to("Log"),
    unary("Neg", |call| fold_signed(call, |x| -x, i64::wrapping_neg, negatives), |l| layer(l, unary_op::NEG))
        .range(|call, x| range::first(call, x).negated())
        .keeps_magnitude()
        .lowers_to("UnaryOp"),
    unary("Reciprocal", |call| fold(call, f64::recip), |l| lower(l, reciprocal))
        .range(range_reciprocal)
        .nan(except_one)
        .lowers_to("UnaryOp"),
    unary("Round", |call| fold(call, f64::round_ties_even), |l| layer(l, unary_op::ROUND))
        .range(|call, x| range::first(call, x).map(f64::round_ties_even))
        .discontinuous(|_, _| true)
        .precise(|_, _| true)
        .lowers_to("UnaryOp"),
    unary("Sign", |call| fold_signed(call, signum, i64::signum, signs), |l| lower(l, sign))
        .range(range_unit)
        .discontinuous(|_, _| true)
        .lowers_to("Threshold")
        .differs(LOSES_NAN),
    angle("Sin", |call| fold(call, libm::sin), |l| layer(l, unary_op::SIN)).range(range_unit),
    unary("Sinh", |call| fold(call, libm::sinh), |l| lower(l, hyperbolic::sinh))
        .lowers_to("UnaryOp, BinaryOp"),
    unary("Sqrt", |call| fold(call, f64::sqrt), |l| lower(l, bounded_root))
        .range(|call, x| range::first(call, x).map(|x| x.max(0.0).sqrt()))
        .nan(except_one)
        .lowers_to("UnaryOp"),
    angle("Tan", |call| fold(call, libm::tan), |l| layer(l, unary_op::TAN)),
];

const fn unary(name: &'static str, fold: Fold, lower: LowerNode) -> Row {
    Row::new(name, Access::Elementwise, infer_same).fold(fold).lower(lower)
}

/// A function of angles.
const fn angle(name: &'static str, fold: Fold, lower: LowerNode) -> Row {
    unary(name, fold, lower).lowers_to("UnaryOp").states(FAR_ANGLES)
}

/// The rule of functions that are NaN, or infinite, for some inputs but not for 0.
fn except_zero(_: &Graph, _: &Node) -> Option<(usize, f32)> {
    Some((0, 0.0))
}

/// The rule of functions that are NaN, or infinite, for some inputs but not for 1.
fn except_one(_: &Graph, _: &Node) -> Option<(usize, f32)> {
    Some((0, 1.0))
}

fn range_unit(_: &Call, _: &[Range]) -> Range {
    Range::new(-1.0, 1.0)
}

fn range_log(call: &Call, inputs: &[Range]) -> Range {
    let x = range::first(call, inputs);
    if x.least > 0.0 { x.map(libm::log) } else { Range::ANY }
}

fn range_reciprocal(call: &Call, inputs: &[Range]) -> Range {
    let x = range::first(call, inputs);
    if x.excludes_zero() { x.negated().map(|x| -1.0 / x) } else { Range::ANY }
}

/// Evaluates a function of floats.
fn fold(call: &Call, function: fn(f64) -> f64) -> Result<Vec<Array>> {
    let x = call.array(0)?;
    match x.elements() {
        Elements::I64(_) | Elements::Dim(_) => Err(only_at_run_time(call, x)),
        _ => Ok(vec![x.map(function)?]),
    }
}

/// Evaluates a function of floats, integers, and sizes for which it is known.
fn fold_signed(
    call: &Call,
    float: fn(f64) -> f64,
    int: fn(i64) -> i64,
    sizes: fn(&ArrayD<Dim>) -> Option<Elements>,
) -> Result<Vec<Array>> {
    let x = call.array(0)?;
    let elements = match x.elements() {
        Elements::I64(a) => Some(Elements::I64(a.mapv(int))),
        Elements::Dim(a) => sizes(a),
        _ => return Ok(vec![x.map(float)?]),
    };
    let elements = elements.ok_or_else(|| only_at_run_time(call, x))?;
    Ok(vec![Array::new(x.dtype(), elements)])
}

fn only_at_run_time(call: &Call, x: &Array) -> Error {
    Error::unsupported(format!("{} of a {} known only at run time", call.op_type(), x.dtype()))
}

fn signum(x: f64) -> f64 {
    if x == 0.0 { 0.0 } else { x.signum() }
}

fn magnitudes(sizes: &ArrayD<Dim>) -> Option<Elements> {
    are_at_least(sizes, 0).then(|| Elements::Dim(sizes.clone()))
}

fn negatives(sizes: &ArrayD<Dim>) -> Option<Elements> {
    Some(Elements::Dim(sizes.map(|size| -size)))
}

fn signs(sizes: &ArrayD<Dim>) -> Option<Elements> {
    are_at_least(sizes, 1).then(|| Elements::I64(ArrayD::ones(sizes.raw_dim())))
}

fn are_at_least(sizes: &ArrayD<Dim>, least: i64) -> bool {
    sizes.iter().all(|size| size.lower_bound().is_some_and(|bound| bound >= least))
}

/// Lowers to a UnaryOp. Of these functions only Abs and Neg are defined on integers; both wrap around at the
/// smallest integer.
fn layer(lower: &Lower, op_type: i32) -> Result<()> {
    let (x, dtype) = (lower.blob(0)?, lower.dtype(0)?);
    if matches!(op_type, unary_op::COS | unary_op::SIN | unary_op::TAN) {
        lower.assume(0, AssumedFact::SmallAngle);
    }
    let y = lower.wrap(x.map(UnaryOp { op_type }), dtype)?;
    lower.set(0, y)
}

/// Lowers to the layers that `emit` emits for the input.
fn lower(lower: &Lower, emit: fn(&Lower, BlobId) -> Result<BlobId>) -> Result<()> {
    let x = lower.blob(0)?;
    let y = emit(lower, x)?;
    lower.set(0, y)
}

fn error_function(lower: &Lower, x: BlobId) -> Result<BlobId> {
    let x = lower.as_3d(x)?;
    lower.map(Erf::default(), x)
}

/// UnaryOp LOG gives NaN at 0 if it is vectorized (`sse_mathfun.h`, log_ps).
fn logarithm(lower: &Lower, x: BlobId) -> Result<BlobId> {
    let x = lower.as_3d(x)?;
    lower.map(Log::default(), x)
}

fn sign(lower: &Lower, x: BlobId) -> Result<BlobId> {
    lower.compute(x.greater(0.0) - x.less(0.0))
}

/// The vectorized arctangent of infinity is NaN.
fn arctangent(lower: &Lower, x: BlobId) -> Result<BlobId> {
    let finite = if lower.range(0).is_finite() { x.into() } else { x.minimum(f32::MAX).maximum(f32::MIN) };
    lower.compute(finite.atan())
}

fn reciprocal(lower: &Lower, x: BlobId) -> Result<BlobId> {
    match lower.may_divide_by(0) {
        true => lower.compute(x.reciprocal()),
        false => lower.quotient(ScalarOrBlob::Number(1.0), x, 0, OverZero::Exact),
    }
}

fn bounded_exponential(lower: &Lower, x: BlobId) -> Result<BlobId> {
    let is_large = lower.range(0).most > LARGEST_EXPONENT;
    lower.compute(if is_large { exponential(x) } else { x.exp() })
}

fn bounded_root(lower: &Lower, x: BlobId) -> Result<BlobId> {
    if lower.range(0).is_finite() { lower.compute(x.sqrt()) } else { root(lower, x) }
}

/// Returns the square of the exponential of half of `x`: the vectorized exponential saturates at 2.4e38
/// (`sse_mathfun.h`, exp_ps), but the square overflows.
pub(super) fn exponential(x: impl Operand) -> Formula {
    (x.into() * 0.5).exp().square()
}

/// Emits the square root of the finite part, and infinity for an infinity, of which UnaryOp may give NaN: the
/// difference from the largest finite number is positive only there.
pub(super) fn root(lower: &Lower, x: BlobId) -> Result<BlobId> {
    lower.compute_in_float32();
    lower.compute(x.minimum(f32::MAX).sqrt() + (x - f32::MAX).map(ReLU::default()))
}

/// NaN is the magnitude that is not above -1.
fn lower_is_nan(lower: &Lower) -> Result<()> {
    let x = lower.blob(0)?;
    lower.set(0, !x.abs().greater(-1.0))
}

/// The infinities that IsInf detects.
struct Infinities {
    negative: bool,
    positive: bool,
}

fn read_is_inf(call: &Call) -> Result<Infinities> {
    Ok(Infinities { negative: call.flag("detect_negative")?, positive: call.flag("detect_positive")? })
}

fn fold_is_inf(call: &Call) -> Result<Vec<Array>> {
    let which = read_is_inf(call)?;
    let found = |x: f64| x.is_infinite() && if x > 0.0 { which.positive } else { which.negative };
    Ok(vec![call.array(0)?.test(found)?])
}

fn lower_is_inf(lower: &Lower) -> Result<()> {
    let x = lower.blob(0)?;
    let infinite = match read_is_inf(lower)? {
        Infinities { negative: true, positive: true } => x.abs().greater(f32::MAX),
        Infinities { negative: true, positive: false } => x.less(f32::MIN),
        Infinities { negative: false, positive: true } => x.greater(f32::MAX),
        // Neither is detected: the result is false.
        Infinities { negative: false, positive: false } => x.minimum(0.0).greater(0.0),
    };
    lower.set(0, infinite)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tensor::DType;

    fn folded(op_type: &str, x: &Array) -> Array {
        let op = &OPS.iter().find(|row| row.op.schema.name == op_type).unwrap().op;
        let node = Node { op_type: op_type.into(), version: 13, ..Node::default() };
        op.evaluate(&node, vec![Some(x.clone())]).unwrap().remove(0)
    }

    #[test]
    fn integers_are_exact() {
        let list = |dtype, list: &[i64]| {
            let elements = ndarray::ArrayD::from_shape_vec(vec![list.len()], list.to_vec()).unwrap();
            Array::new(dtype, Elements::I64(elements))
        };
        let x = list(DType::I8, &[-128, -1, 0, 127]);
        for (op_type, expected) in
            [("Abs", [-128, 1, 0, 127]), ("Neg", [-128, 1, 0, -127]), ("Sign", [-1, -1, 0, 1])]
        {
            assert_eq!(folded(op_type, &x), list(DType::I8, &expected), "{op_type}");
        }
        let sizes = Array::from_dims(&[Dim::symbol("H")]);
        assert_eq!(folded("Abs", &sizes), sizes);
    }
}
