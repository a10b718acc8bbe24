//! Mathematical functions of one operand.
//!
//! UnaryOp has the hyperbolic functions only since 2026-05; they are lowered to exponentials and a series
//! near 0.
//! Above 1e4 the vectorized sine, cosine and tangent lose digits.
//!
//! Spec: <https://onnx.ai/onnx/operators/onnx__Abs.html> and so on.

mod hyperbolic;

use super::broadcast::LOSES_NAN;
use crate::error::{Result, invalid, unsupported};
use crate::graph::{Graph, Node};
use crate::lower::{AssumedFact, Lower, OverZero, ScalarOrBlob};
use crate::ncnn::BlobId;
use crate::ncnn::layer::{Erf, Log, ReLU, binary_op, unary_op};
use crate::op::{Access, Attributes, Call, Fact, range, required_input};
use crate::ops::Row;
use crate::tensor::{Array, DType, Dim, Elements, Range, erf};

/// The exponent above which the vectorized exponential saturates.
const LARGEST_EXPONENT: f64 = 88.0;

/// Vectorized code reduces an angle with the digits of float32.
const FAR_ANGLES: &str = "magnitudes above 10000, stated by value";

pub(in crate::ops) const OPS: &[Row] = &[
    unary("Abs").lowers_to("UnaryOp"),
    unary("Acos").nan(except_zero).lowers_to("UnaryOp"),
    unary("Acosh").nan(except_one).lowers_to("UnaryOp, BinaryOp"),
    unary("Asin").nan(except_zero).lowers_to("UnaryOp"),
    unary("Asinh").lowers_to("UnaryOp, BinaryOp"),
    unary("Atan").lowers_to("UnaryOp").differs(LOSES_NAN),
    unary("Atanh").nan(except_zero).lowers_to("UnaryOp, BinaryOp"),
    unary("Ceil").jumps(|_, _| true).precise(|_, _| true).lowers_to("UnaryOp"),
    unary("Cos").takes_angles().lowers_to("UnaryOp").differs(FAR_ANGLES).states_differences(),
    unary("Cosh").lowers_to("UnaryOp, BinaryOp").differs(LOSES_NAN),
    unary("Erf").lowers_to("Erf"),
    unary("Exp").lowers_to("UnaryOp").differs(LOSES_NAN),
    unary("Floor").jumps(|_, _| true).precise(|_, _| true).lowers_to("UnaryOp"),
    Row::new("IsInf", Access::Elementwise, infer_is_inf)
        .fold(fold_is_inf)
        .lower(lower_is_inf)
        .lowers_to("Threshold"),
    Row::new("IsNaN", Access::Elementwise, infer_is_nan)
        .fold(fold_is_nan)
        .lower(lower_is_nan)
        .chooses()
        .lowers_to("Threshold"),
    unary("Log").nan(except_one).takes_energies().lowers_to("Log"),
    unary("Neg").keeps_magnitude().lowers_to("UnaryOp"),
    unary("Reciprocal").nan(except_one).lowers_to("UnaryOp"),
    unary("Round").jumps(|_, _| true).precise(|_, _| true).lowers_to("UnaryOp"),
    unary("Sign").jumps(|_, _| true).lowers_to("Threshold").differs(LOSES_NAN),
    unary("Sin").takes_angles().lowers_to("UnaryOp").differs(FAR_ANGLES).states_differences(),
    unary("Sinh").lowers_to("UnaryOp, BinaryOp"),
    unary("Sqrt").nan(except_one).takes_energies().lowers_to("UnaryOp"),
    unary("Tan").takes_angles().lowers_to("UnaryOp").differs(FAR_ANGLES).states_differences(),
];

const fn unary(name: &'static str) -> Row {
    Row::new(name, Access::Elementwise, infer_unary).fold(fold_unary).lower(lower_unary).range(range_unary)
}

/// The rule of functions that are NaN, or infinite, for some inputs but not for 0.
fn except_zero(_: &Graph, _: &Node) -> Option<(usize, f32)> {
    Some((0, 0.0))
}

/// The rule of functions that are NaN, or infinite, for some inputs but not for 1.
fn except_one(_: &Graph, _: &Node) -> Option<(usize, f32)> {
    Some((0, 1.0))
}

fn range_unary(call: &Call, inputs: &[Range]) -> Range {
    let x = range::first(call, inputs);
    match call.op_type() {
        "Abs" => x.magnitude(),
        "Ceil" => x.map(f64::ceil),
        "Cos" | "Erf" | "Sign" | "Sin" => Range::new(-1.0, 1.0),
        "Exp" => x.map(f64::exp),
        "Floor" => x.map(f64::floor),
        "Log" if x.least > 0.0 => x.map(f64::ln),
        "Neg" => x.negated(),
        "Reciprocal" if x.excludes_zero() => x.negated().map(|x| -1.0 / x),
        "Round" => x.map(f64::round_ties_even),
        "Sqrt" => x.map(|x| x.max(0.0).sqrt()),
        _ => Range::ANY,
    }
}

fn infer_unary(call: &Call) -> Result<Vec<Fact>> {
    Ok(vec![call.like(0, call.dtype(0)?)?])
}

fn fold_unary(attributes: &Attributes, inputs: &[Option<Array>]) -> Result<Vec<Array>> {
    let x = required_input(inputs, 0)?;
    if let Elements::I64(_) | Elements::Dim(_) = x.elements() {
        return Ok(vec![fold_integers(attributes.op_type(), x)?]);
    }
    let function: fn(f64) -> f64 = match attributes.op_type() {
        "Abs" => f64::abs,
        "Acos" => f64::acos,
        "Acosh" => f64::acosh,
        "Asin" => f64::asin,
        "Asinh" => f64::asinh,
        "Atan" => f64::atan,
        "Atanh" => f64::atanh,
        "Ceil" => f64::ceil,
        "Cos" => f64::cos,
        "Cosh" => f64::cosh,
        "Erf" => erf,
        "Exp" => f64::exp,
        "Floor" => f64::floor,
        "Log" => f64::ln,
        "Neg" => |x| -x,
        "Reciprocal" => f64::recip,
        "Round" => f64::round_ties_even,
        "Sign" => |x| if x == 0.0 { 0.0 } else { x.signum() },
        "Sin" => f64::sin,
        "Sinh" => f64::sinh,
        "Sqrt" => f64::sqrt,
        "Tan" => f64::tan,
        other => invalid!("{other} is not a function"),
    };
    Ok(vec![x.map(function)?])
}

fn fold_integers(op_type: &str, x: &Array) -> Result<Array> {
    let elements = match (op_type, x.elements()) {
        ("Abs", Elements::I64(a)) => Elements::I64(a.mapv(i64::wrapping_abs)),
        ("Neg", Elements::I64(a)) => Elements::I64(a.mapv(i64::wrapping_neg)),
        ("Sign", Elements::I64(a)) => Elements::I64(a.mapv(i64::signum)),
        ("Neg", Elements::Dim(a)) => {
            let negated: Result<Vec<Dim>> = a.iter().map(|d| Dim::Known(0).sub(d)).collect();
            Elements::Dim(ndarray::ArrayD::from_shape_vec(a.raw_dim(), negated?)?)
        }
        ("Sign", Elements::Dim(a)) if a.iter().all(|d| d.lower_bound().is_some_and(|n| n >= 1)) => {
            Elements::I64(ndarray::ArrayD::ones(a.raw_dim()))
        }
        ("Abs", Elements::Dim(a)) if a.iter().all(|d| d.lower_bound().is_some_and(|n| n >= 0)) => {
            Elements::Dim(a.clone())
        }
        _ => unsupported!("{op_type} of a {} known only at run time", x.dtype()),
    };
    Ok(Array::new(x.dtype(), elements))
}

fn lower_unary(lower: &mut Lower) -> Result<()> {
    let x = lower.blob(0)?;
    let dtype = lower.dtype(0)?;
    let op_type = match lower.op_type() {
        "Abs" => unary_op::ABS,
        "Acos" => unary_op::ACOS,
        "Asin" => unary_op::ASIN,
        "Atan" => unary_op::ATAN,
        "Ceil" => unary_op::CEIL,
        "Cos" => unary_op::COS,
        "Exp" => unary_op::EXP,
        "Floor" => unary_op::FLOOR,
        "Neg" => unary_op::NEG,
        "Reciprocal" => unary_op::RECIPROCAL,
        "Round" => unary_op::ROUND,
        "Sin" => unary_op::SIN,
        "Sqrt" => unary_op::SQRT,
        "Tan" => unary_op::TAN,
        other => {
            let y = match other {
                "Acosh" => hyperbolic::acosh(lower, x)?,
                "Asinh" => hyperbolic::asinh(lower, x)?,
                "Atanh" => hyperbolic::atanh(lower, x)?,
                "Cosh" => hyperbolic::cosh(lower, x)?,
                "Erf" => {
                    let x = lower.as_3d(x)?;
                    lower.map(Erf::default(), x)?
                }
                // UnaryOp LOG gives NaN at 0 if it is vectorized (`sse_mathfun.h`, log_ps).
                "Log" => {
                    let x = lower.as_3d(x)?;
                    lower.map(Log::default(), x)?
                }
                "Sign" => {
                    let above = lower.gt(x, 0.0)?;
                    let below = lower.lt(x, 0.0)?;
                    lower.binary(binary_op::SUB, above, below)?
                }
                "Sinh" => hyperbolic::sinh(lower, x)?,
                _ => invalid!("{other} is not a function"),
            };
            return lower.set(0, y);
        }
    };
    if matches!(op_type, unary_op::COS | unary_op::SIN | unary_op::TAN) {
        lower.assume(0, AssumedFact::SmallAngle);
    }
    let y = match op_type {
        unary_op::EXP if lower.range(0).most > LARGEST_EXPONENT => exponential(lower, x)?,
        // The vectorized arctangent of infinity is NaN.
        unary_op::ATAN if !lower.range(0).is_finite() => {
            let below = lower.binary_scalar(binary_op::MIN, x, f32::MAX)?;
            let finite = lower.binary_scalar(binary_op::MAX, below, f32::MIN)?;
            lower.unary(op_type, finite)?
        }
        unary_op::RECIPROCAL if !lower.may_divide_by(0) => {
            lower.quotient(ScalarOrBlob::Number(1.0), x, 0, OverZero::Exact)?
        }
        unary_op::SQRT if !lower.range(0).is_finite() => root(lower, x)?,
        _ => lower.unary(op_type, x)?,
    };
    // Only Abs and Neg are defined on integers; both wrap around at the smallest integer.
    let y = lower.wrap(y, dtype)?;
    lower.set(0, y)
}

/// Emits the square of the exponential of half of `x`: the vectorized exponential saturates at 2.4e38
/// (`sse_mathfun.h`, exp_ps), but the square overflows.
pub(super) fn exponential(lower: &mut Lower, x: BlobId) -> Result<BlobId> {
    let half = lower.binary_scalar(binary_op::MUL, x, 0.5)?;
    let root = lower.unary(unary_op::EXP, half)?;
    lower.unary(unary_op::SQUARE, root)
}

/// Emits the square root of the finite part, and infinity for an infinity, of which UnaryOp may give NaN: the
/// difference from the largest finite number is positive only there.
pub(super) fn root(lower: &mut Lower, x: BlobId) -> Result<BlobId> {
    lower.compute_in_float32();
    let finite = lower.binary_scalar(binary_op::MIN, x, f32::MAX)?;
    let root = lower.unary(unary_op::SQRT, finite)?;
    let beyond = lower.binary_scalar(binary_op::SUB, x, f32::MAX)?;
    let infinity = lower.map(ReLU::default(), beyond)?;
    lower.binary(binary_op::ADD, root, infinity)
}

fn infer_is_nan(call: &Call) -> Result<Vec<Fact>> {
    Ok(vec![call.like(0, DType::Bool)?])
}

fn fold_is_nan(_: &Attributes, inputs: &[Option<Array>]) -> Result<Vec<Array>> {
    Ok(vec![required_input(inputs, 0)?.test(f64::is_nan)?])
}

/// NaN is the magnitude that is not above -1.
fn lower_is_nan(lower: &mut Lower) -> Result<()> {
    let x = lower.blob(0)?;
    let size = lower.unary(unary_op::ABS, x)?;
    let number = lower.gt(size, -1.0)?;
    let nan = lower.logical_not(number)?;
    lower.set(0, nan)
}

/// The infinities that IsInf detects.
struct Infinities {
    negative: bool,
    positive: bool,
}

fn read_is_inf(attributes: &Attributes) -> Result<Infinities> {
    Ok(Infinities {
        negative: attributes.flag("detect_negative")?,
        positive: attributes.flag("detect_positive")?,
    })
}

fn infer_is_inf(call: &Call) -> Result<Vec<Fact>> {
    Ok(vec![call.like(0, DType::Bool)?])
}

fn fold_is_inf(attributes: &Attributes, inputs: &[Option<Array>]) -> Result<Vec<Array>> {
    let which = read_is_inf(attributes)?;
    let found = |x: f64| x.is_infinite() && if x > 0.0 { which.positive } else { which.negative };
    Ok(vec![required_input(inputs, 0)?.test(found)?])
}

fn lower_is_inf(lower: &mut Lower) -> Result<()> {
    let x = lower.blob(0)?;
    let infinite = match read_is_inf(lower)? {
        Infinities { negative: true, positive: true } => {
            let size = lower.unary(unary_op::ABS, x)?;
            lower.gt(size, f32::MAX)?
        }
        Infinities { negative: true, positive: false } => lower.lt(x, f32::MIN)?,
        Infinities { negative: false, positive: true } => lower.gt(x, f32::MAX)?,
        Infinities { negative: false, positive: false } => {
            // Neither is detected: the result is false.
            let none = lower.binary_scalar(binary_op::MIN, x, 0.0)?;
            lower.gt(none, 0.0)?
        }
    };
    lower.set(0, infinite)
}

#[cfg(test)]
mod tests {
    use super::*;

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
            assert_eq!(fold_integers(op_type, &x).unwrap(), list(DType::I8, &expected), "{op_type}");
        }
        let sizes = Array::from_dims(&[Dim::symbol("H")]);
        assert_eq!(fold_integers("Abs", &sizes).unwrap(), sizes);
    }
}
