//! Powers. BinaryOp POW is `exp(y * log(x))`, which is NaN for every negative and zero base if it is
//! vectorized (`binaryop_functor.h`), so it is never used.

use super::super::broadcast::lower_pair;
use super::super::unary::root;
use super::lower::multiply;
use crate::error::{Result, unsupported};
use crate::lower::{Lower, OverZero, ScalarOrBlob};
use crate::ncnn::BlobId;
use crate::ncnn::layer::{Clip, Exp, Log, binary_op, unary_op};
use crate::tensor::DType;

/// The maximum constant exponent of small integers: each power takes several multiplications that wrap
/// around.
const MAX_WRAPPED_EXPONENT: i32 = 16;

/// Logarithms are clipped to this magnitude: `0 * log(0)` must be 0.
const MAX_LOG: f32 = 1e30;

pub(super) fn lower_pow(lower: &mut Lower) -> Result<()> {
    let (base, exponent) = lower_pair(lower)?;
    let dtype = lower.dtype(0)?;
    let power = match (base, exponent) {
        (_, ScalarOrBlob::Number(exponent)) => {
            let base = lower.side_blob(base)?;
            if dtype.is_int() {
                int_power(lower, base, exponent, dtype)?
            } else {
                float_power(lower, base, exponent)?
            }
        }
        _ if dtype.is_narrow_int() => {
            unsupported!("powers of {dtype} with exponents computed at run time");
        }
        // As the base of Exp, -1 means e.
        (ScalarOrBlob::Number(base), ScalarOrBlob::Blob(exponent)) if base != -1.0 => {
            let power = lower.map_3d(Exp { base, ..Exp::default() }, exponent)?;
            round_integers(lower, power, dtype)?
        }
        (base, ScalarOrBlob::Blob(exponent)) => {
            let base = lower.side_blob(base)?;
            let power = general_power(lower, base, exponent)?;
            round_integers(lower, power, dtype)?
        }
    };
    lower.set(0, power)
}

fn round_integers(lower: &mut Lower, power: BlobId, dtype: DType) -> Result<BlobId> {
    if dtype.is_int() { lower.unary(unary_op::ROUND, power) } else { Ok(power) }
}

fn float_power(lower: &mut Lower, base: BlobId, exponent: f32) -> Result<BlobId> {
    let square = |lower: &mut Lower, x| lower.unary(unary_op::SQUARE, x);
    // UnaryOp may be NaN for an infinite root, and for the reciprocal of 0.
    let divides = exponent < 0.0 && !lower.may_divide_by(0);
    let is_infinite_root = exponent == 0.5 && !lower.range(0).is_finite();
    if exponent == 1.0 {
        Ok(base)
    } else if is_infinite_root {
        root(lower, base)
    } else if divides && exponent == -1.0 {
        lower.quotient(ScalarOrBlob::Number(1.0), base, 0, OverZero::Exact)
    } else if divides {
        lower.power(base, exponent, lower.range(0))
    } else if exponent == 2.0 {
        square(lower, base)
    } else if exponent == 3.0 {
        let squared = square(lower, base)?;
        lower.binary(binary_op::MUL, squared, base)
    } else if exponent == 4.0 {
        let squared = square(lower, base)?;
        square(lower, squared)
    } else if exponent == 0.5 {
        lower.unary(unary_op::SQRT, base)
    } else if exponent == -0.5 {
        // RSQRT is an estimate of twelve bits on x86 before 2026 (`unaryop_x86.cpp`).
        let root = lower.unary(unary_op::SQRT, base)?;
        lower.unary(unary_op::RECIPROCAL, root)
    } else if exponent == -1.0 {
        lower.unary(unary_op::RECIPROCAL, base)
    } else if exponent == -2.0 {
        let squared = square(lower, base)?;
        lower.unary(unary_op::RECIPROCAL, squared)
    } else {
        lower.power(base, exponent, lower.range(0))
    }
}

fn int_power(lower: &mut Lower, base: BlobId, exponent: f32, dtype: DType) -> Result<BlobId> {
    if exponent < 0.0 || exponent.fract() != 0.0 {
        unsupported!("{dtype} to the power of {exponent}");
    }
    if dtype.bits() > 16 {
        let power = float_power(lower, base, exponent)?;
        return lower.unary(unary_op::ROUND, power);
    }
    let times = (1..=MAX_WRAPPED_EXPONENT).find(|n| f64::from(*n) == f64::from(exponent));
    match times {
        Some(times) => {
            let mut power = base;
            for _ in 1..times {
                power = multiply(lower, ScalarOrBlob::Blob(power), ScalarOrBlob::Blob(base), dtype)?;
            }
            Ok(power)
        }
        None if exponent == 0.0 => lower.power(base, 0.0, lower.range(0)),
        None => unsupported!("{dtype} to the power of {exponent}"),
    }
}

/// Emits `exp(y * log|x|)`, negative for negative `x` and odd `y`, NaN for negative `x` and fractional `y`.
fn general_power(lower: &mut Lower, base: BlobId, exponent: BlobId) -> Result<BlobId> {
    // An exponential multiplies the rounding error of the logarithm.
    lower.compute_in_float32();
    let size = lower.unary(unary_op::ABS, base)?;
    let log = lower.map_3d(Log::default(), size)?;
    let log = lower.map(Clip { min: -MAX_LOG, max: MAX_LOG }, log)?;
    let power = lower.binary(binary_op::MUL, log, exponent)?;
    let power = lower.map_3d(Exp::default(), power)?;
    if lower.dtype(0)?.is_unsigned() {
        return Ok(power);
    }
    let negative = lower.lt(base, 0.0)?;
    let half = lower.binary_scalar(binary_op::MUL, exponent, 0.5)?;
    let half = lower.unary(unary_op::FLOOR, half)?;
    let even = lower.binary_scalar(binary_op::MUL, half, 2.0)?;
    let odd = lower.binary(binary_op::SUB, exponent, even)?;
    let turned = lower.binary(binary_op::MUL, negative, odd)?;
    let turned = lower.binary_scalar(binary_op::MUL, turned, -2.0)?;
    let sign = lower.binary_scalar(binary_op::ADD, turned, 1.0)?;
    let power = lower.binary(binary_op::MUL, power, sign)?;
    if lower.dtype(1)?.is_int() {
        return Ok(power);
    }
    let whole = lower.unary(unary_op::FLOOR, exponent)?;
    let fraction = lower.binary(binary_op::SUB, exponent, whole)?;
    let fractional = lower.nonzero(fraction)?;
    let undefined = lower.binary(binary_op::MUL, negative, fractional)?;
    let undefined = lower.unary(unary_op::NEG, undefined)?;
    let undefined = lower.unary(unary_op::SQRT, undefined)?;
    lower.binary(binary_op::ADD, power, undefined)
}
