//! Hyperbolic functions: exponentials and logarithms, which cancel near 0, and series there.

use crate::error::Result;
use crate::lower::Lower;
use crate::ncnn::BlobId;
use crate::ncnn::layer::{Log, binary_op, unary_op};

/// An odd function near 0: the sum of `coefficients[n] * x^(2n + 1)`, exact to float32 below its limit.
struct Series {
    limit: f32,
    coefficients: [f32; 5],
}

const SINH: Series =
    Series { limit: 0.5, coefficients: [1.0, 1.0 / 6.0, 1.0 / 120.0, 1.0 / 5040.0, 1.0 / 362_880.0] };
const ASINH: Series =
    Series { limit: 0.25, coefficients: [1.0, -1.0 / 6.0, 3.0 / 40.0, -5.0 / 112.0, 35.0 / 1152.0] };
const ATANH: Series = Series { limit: 0.25, coefficients: [1.0, 1.0 / 3.0, 1.0 / 5.0, 1.0 / 7.0, 1.0 / 9.0] };

/// The bound above which a square may overflow float32.
const SQUARE_LIMIT: f32 = 1e18;

/// Emits the series for magnitudes below the limit, `beyond` for others. All operands are magnitudes; the
/// sign is restored later.
fn joined(lower: &mut Lower, size: BlobId, series: &Series, beyond: BlobId) -> Result<BlobId> {
    let small = lower.binary_scalar(binary_op::MIN, size, series.limit)?;
    let square = lower.unary(unary_op::SQUARE, small)?;
    let mut sum = None;
    for coefficient in series.coefficients.iter().rev() {
        sum = Some(match sum {
            None => lower.binary_scalar(binary_op::MUL, square, *coefficient)?,
            Some(sum) if coefficient == &1.0 => lower.binary_scalar(binary_op::ADD, sum, 1.0)?,
            Some(sum) => {
                let raised = lower.binary_scalar(binary_op::ADD, sum, *coefficient)?;
                lower.binary(binary_op::MUL, raised, square)?
            }
        });
    }
    let series_value = match sum {
        Some(sum) => lower.binary(binary_op::MUL, sum, small)?,
        None => small,
    };
    let large = lower.gt(size, series.limit)?;
    let difference = lower.binary(binary_op::SUB, beyond, series_value)?;
    let difference = lower.binary(binary_op::MUL, difference, large)?;
    lower.binary(binary_op::ADD, series_value, difference)
}

/// Emits a magnitude with the sign of `x`.
fn signed(lower: &mut Lower, x: BlobId, size: BlobId) -> Result<BlobId> {
    let negative = lower.lt(x, 0.0)?;
    let turned = lower.binary_scalar(binary_op::MUL, negative, -2.0)?;
    let sign = lower.binary_scalar(binary_op::ADD, turned, 1.0)?;
    lower.binary(binary_op::MUL, size, sign)
}

/// Emits `exp(x) / 2` and `exp(-x) / 2`, halved in the exponent so that the first does not overflow early.
fn half_exponentials(lower: &mut Lower, x: BlobId) -> Result<(BlobId, BlobId)> {
    let rising = lower.binary_scalar(binary_op::SUB, x, std::f32::consts::LN_2)?;
    let rising = super::exponential(lower, rising)?;
    let falling = lower.unary(unary_op::NEG, x)?;
    let falling = lower.binary_scalar(binary_op::SUB, falling, std::f32::consts::LN_2)?;
    let falling = super::exponential(lower, falling)?;
    Ok((rising, falling))
}

pub(super) fn cosh(lower: &mut Lower, x: BlobId) -> Result<BlobId> {
    let (rising, falling) = half_exponentials(lower, x)?;
    lower.binary(binary_op::ADD, rising, falling)
}

pub(super) fn sinh(lower: &mut Lower, x: BlobId) -> Result<BlobId> {
    let x = lower.as_3d(x)?;
    let size = lower.unary(unary_op::ABS, x)?;
    let (rising, falling) = half_exponentials(lower, size)?;
    let beyond = lower.binary(binary_op::SUB, rising, falling)?;
    let joined = joined(lower, size, &SINH, beyond)?;
    signed(lower, x, joined)
}

pub(super) fn asinh(lower: &mut Lower, x: BlobId) -> Result<BlobId> {
    let x = lower.as_3d(x)?;
    let size = lower.unary(unary_op::ABS, x)?;
    let joined = asinh_of_size(lower, size)?;
    signed(lower, x, joined)
}

/// Emits `log(x + sqrt(x^2 + 1))` for nonnegative `x`; above the limit of squares by another logarithm.
fn asinh_of_size(lower: &mut Lower, size: BlobId) -> Result<BlobId> {
    let bounded = lower.binary_scalar(binary_op::MIN, size, SQUARE_LIMIT)?;
    let square = lower.unary(unary_op::SQUARE, bounded)?;
    let square = lower.binary_scalar(binary_op::ADD, square, 1.0)?;
    let root = lower.unary(unary_op::SQRT, square)?;
    let sum = lower.binary(binary_op::ADD, bounded, root)?;
    let log = lower.map(Log::default(), sum)?;
    let excess = lower.binary_scalar(binary_op::MUL, size, 1.0 / SQUARE_LIMIT)?;
    let excess = lower.binary_scalar(binary_op::MAX, excess, 1.0)?;
    let excess = lower.map(Log::default(), excess)?;
    let beyond = lower.binary(binary_op::ADD, log, excess)?;
    joined(lower, size, &ASINH, beyond)
}

/// Emits `asinh(sqrt(x - 1) * sqrt(x + 1))`; the root of a negative number gives NaN outside of the domain.
pub(super) fn acosh(lower: &mut Lower, x: BlobId) -> Result<BlobId> {
    let x = lower.as_3d(x)?;
    let less = lower.binary_scalar(binary_op::SUB, x, 1.0)?;
    let inside = lower.binary_scalar(binary_op::MAX, less, 0.0)?;
    let inside = lower.unary(unary_op::SQRT, inside)?;
    let more = lower.binary_scalar(binary_op::ADD, x, 1.0)?;
    let more = lower.unary(unary_op::SQRT, more)?;
    let size = lower.binary(binary_op::MUL, inside, more)?;
    let value = asinh_of_size(lower, size)?;
    let outside = lower.binary_scalar(binary_op::MIN, less, 0.0)?;
    let outside = lower.unary(unary_op::SQRT, outside)?;
    lower.binary(binary_op::ADD, value, outside)
}

/// Emits `(log(1 + x) - log(1 - x)) / 2`: infinite at 1, NaN beyond.
pub(super) fn atanh(lower: &mut Lower, x: BlobId) -> Result<BlobId> {
    let x = lower.as_3d(x)?;
    let size = lower.unary(unary_op::ABS, x)?;
    let rising = lower.map(Log { shift: 1.0, ..Log::default() }, size)?;
    let falling = lower.map(Log { scale: -1.0, shift: 1.0, ..Log::default() }, size)?;
    let both = lower.binary(binary_op::SUB, rising, falling)?;
    let beyond = lower.binary_scalar(binary_op::MUL, both, 0.5)?;
    let joined = joined(lower, size, &ATANH, beyond)?;
    signed(lower, x, joined)
}
