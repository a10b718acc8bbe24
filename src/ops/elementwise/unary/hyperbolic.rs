//! Hyperbolic functions: exponentials and logarithms, which cancel near 0, and series there.

use std::f32::consts::LN_2;

use super::exponential;
use crate::lower::Formula;
use crate::ncnn::layer::Log;
use crate::ops::prelude::*;

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
fn joined(lower: &Lower, size: BlobId, series: &Series, beyond: BlobId) -> Result<BlobId> {
    let small = lower.compute(size.minimum(series.limit))?;
    let square = lower.compute(small.square())?;
    let mut sum: Option<Formula> = None;
    for coefficient in series.coefficients.iter().rev() {
        sum = Some(match sum {
            None => square * *coefficient,
            Some(sum) if coefficient == &1.0 => sum + 1.0,
            Some(sum) => (sum + *coefficient) * square,
        });
    }
    let near = lower.compute(sum.map_or(small.into(), |sum| sum * small))?;
    let large = lower.compute(size.greater(series.limit))?;
    lower.compute(near + (beyond - near) * large)
}

/// Returns a magnitude with the sign of `x`.
fn signed(x: BlobId, size: BlobId) -> Formula {
    size * (x.less(0.0) * -2.0 + 1.0)
}

/// Returns `exp(x) / 2` and `exp(-x) / 2`, halved in the exponent so that the first does not overflow early.
fn half_exponentials(x: BlobId) -> (Formula, Formula) {
    (exponential(x - LN_2), exponential(-x - LN_2))
}

pub(super) fn cosh(lower: &Lower, x: BlobId) -> Result<BlobId> {
    let (rising, falling) = half_exponentials(x);
    lower.compute(rising + falling)
}

pub(super) fn sinh(lower: &Lower, x: BlobId) -> Result<BlobId> {
    let x = lower.as_3d(x)?;
    let size = lower.compute(x.abs())?;
    let (rising, falling) = half_exponentials(size);
    let beyond = lower.compute(rising - falling)?;
    let joined = joined(lower, size, &SINH, beyond)?;
    lower.compute(signed(x, joined))
}

pub(super) fn asinh(lower: &Lower, x: BlobId) -> Result<BlobId> {
    let x = lower.as_3d(x)?;
    let size = lower.compute(x.abs())?;
    let joined = asinh_of_size(lower, size)?;
    lower.compute(signed(x, joined))
}

/// Emits `log(x + sqrt(x^2 + 1))` for nonnegative `x`; above the limit of squares by another logarithm.
fn asinh_of_size(lower: &Lower, size: BlobId) -> Result<BlobId> {
    let bounded = lower.compute(size.minimum(SQUARE_LIMIT))?;
    let log = (bounded + (bounded.square() + 1.0).sqrt()).map(Log::default());
    let excess = (size * (1.0 / SQUARE_LIMIT)).maximum(1.0).map(Log::default());
    let beyond = lower.compute(log + excess)?;
    joined(lower, size, &ASINH, beyond)
}

/// Emits `asinh(sqrt(x - 1) * sqrt(x + 1))`; the root of a negative number gives NaN outside of the domain.
pub(super) fn acosh(lower: &Lower, x: BlobId) -> Result<BlobId> {
    let x = lower.as_3d(x)?;
    let less = lower.compute(x - 1.0)?;
    let size = lower.compute(less.maximum(0.0).sqrt() * (x + 1.0).sqrt())?;
    let value = asinh_of_size(lower, size)?;
    lower.compute(value + less.minimum(0.0).sqrt())
}

/// Emits `(log(1 + x) - log(1 - x)) / 2`: infinite at 1, NaN beyond.
pub(super) fn atanh(lower: &Lower, x: BlobId) -> Result<BlobId> {
    let x = lower.as_3d(x)?;
    let size = lower.compute(x.abs())?;
    let rising = size.map(Log { shift: 1.0, ..Log::default() });
    let falling = size.map(Log { scale: -1.0, shift: 1.0, ..Log::default() });
    let beyond = lower.compute((rising - falling) * 0.5)?;
    let joined = joined(lower, size, &ATANH, beyond)?;
    lower.compute(signed(x, joined))
}
