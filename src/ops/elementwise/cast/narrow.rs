//! Rounding to few binary digits in float32 arithmetic.

use crate::error::Result;
use crate::lower::Lower;
use crate::ncnn::BlobId;
use crate::ncnn::layer::{binary_op, unary_op};
use crate::tensor::{Narrowing, Power, Steps};

/// The number of binary digits of float32.
const DIGITS: i32 = 24;

/// Rounds each element to a float with few digits: a multiple of the least step below the range of full
/// digits. NaN stays; magnitudes beyond the largest become the largest or, without saturation, an infinity or
/// NaN.
pub(super) fn round_to(lower: &mut Lower, x: BlobId, steps: Steps, saturate: bool) -> Result<BlobId> {
    let bound = if saturate { steps.largest } else { steps.largest * 4.0 };
    let bounded = clip(lower, x, bound)?;
    let of_digits = lower.round_digits(bounded, steps.digits)?;
    // Adding and subtracting a constant whose last digit is the least step rounds to that step.
    let magic = 1.5 * 2_f32.powi(DIGITS - 1) * steps.least;
    let small = clip(lower, bounded, steps.normal)?;
    let raised = lower.binary_scalar(binary_op::ADD, small, magic)?;
    let small = lower.binary_scalar(binary_op::SUB, raised, magic)?;
    let magnitude = lower.unary(unary_op::ABS, bounded)?;
    let is_normal = lower.gt(magnitude, steps.normal)?;
    let rounded = lower.choose(is_normal, of_digits, small)?;
    let rounded = if saturate { rounded } else { overflow(lower, rounded, steps)? };
    lower.keep_nan(x, rounded)
}

/// Rounds to the nearest of a few magnitudes, ties to the one at an even index: the result is the sum of the
/// steps passed. NaN becomes 0.
pub(super) fn count_steps(lower: &mut Lower, x: BlobId, magnitudes: &[f32]) -> Result<BlobId> {
    let size = lower.unary(unary_op::ABS, x)?;
    let mut sum = None;
    for (place, (low, high)) in magnitudes.iter().zip(magnitudes.iter().skip(1)).enumerate() {
        let middle = f32::midpoint(*low, *high);
        // Threshold passes elements above its limit: from an odd index, also the tie.
        let threshold = if place % 2 == 0 { middle } else { middle.next_down() };
        let taken = lower.gt(size, threshold)?;
        let step = lower.binary_scalar(binary_op::MUL, taken, high - low)?;
        sum = Some(match sum {
            Some(sum) => lower.binary(binary_op::ADD, sum, step)?,
            None => step,
        });
    }
    let Some(sum) = sum else { return Ok(size) };
    let (positive, negative) = (lower.gt(x, 0.0)?, lower.lt(x, 0.0)?);
    let sign = lower.binary(binary_op::SUB, positive, negative)?;
    lower.binary(binary_op::MUL, sum, sign)
}

fn clip(lower: &mut Lower, x: BlobId, bound: f32) -> Result<BlobId> {
    let below = lower.binary_scalar(binary_op::MIN, x, bound)?;
    lower.binary_scalar(binary_op::MAX, below, -bound)
}

/// Rounds each element to a power of two, or NaN. The least one, 2^-127, is subnormal, which ncnn flushes;
/// 2^-126 takes its place.
pub(super) fn round_to_power(lower: &mut Lower, x: BlobId, narrowing: Narrowing) -> Result<BlobId> {
    let bounded = lower.binary_scalar(binary_op::MIN, x, f32::MAX)?;
    let bounded = lower.binary_scalar(binary_op::MAX, bounded, 0.0)?;
    // Neither may the splitting product overflow, nor a difference be subnormal.
    let is_large = lower.gt(bounded, 2_f32.powi(50))?;
    let is_small = lower.logical_not(is_large)?;
    let factor = one_or_other(lower, is_large, 2_f32.powi(-27), is_small, 2_f32.powi(50))?;
    let scaled = lower.binary(binary_op::MUL, bounded, factor)?;
    // To the nearest; ties to the power above, whose only digit is at an even index.
    let mut power = lower.round_digits(scaled, 1)?;
    let rest = lower.binary(binary_op::SUB, scaled, power)?;
    let (is_off, step) = match narrowing.power {
        Power::Nearest => (None, 0.0),
        Power::Up => (Some(lower.gt(rest, 0.0)?), 1.0),
        Power::Down => (Some(lower.lt(rest, 0.0)?), -0.5),
    };
    if let Some(is_off) = is_off {
        let taken = lower.binary_scalar(binary_op::MUL, is_off, step)?;
        let taken = lower.binary(binary_op::MUL, power, taken)?;
        power = lower.binary(binary_op::ADD, power, taken)?;
    }
    let back = one_or_other(lower, is_large, 2_f32.powi(27), is_small, 2_f32.powi(-50))?;
    let power = lower.binary(binary_op::MUL, power, back)?;
    let largest = 2_f32.powi(127);
    let result = lower.binary_scalar(binary_op::MIN, power, largest)?;
    let result = lower.binary_scalar(binary_op::MAX, result, f32::MIN_POSITIVE)?;
    if narrowing.saturate {
        return lower.keep_nan(x, result);
    }
    // Elements that are not positive, or beyond the largest.
    let is_positive = lower.gt(x, 0.0)?;
    let is_infinite = lower.gt(x, f32::MAX)?;
    let is_over = lower.gt(power, largest)?;
    let is_nan = lower.logical_not(is_positive)?;
    let is_nan = lower.binary(binary_op::ADD, is_nan, is_infinite)?;
    let is_nan = lower.binary(binary_op::ADD, is_nan, is_over)?;
    lower.set_nan(is_nan, result)
}

/// Selects `x` where the first condition is 1, and the other value where its condition is 1.
fn one_or_other(lower: &mut Lower, one: BlobId, x: f32, other: BlobId, y: f32) -> Result<BlobId> {
    let one = lower.binary_scalar(binary_op::MUL, one, x)?;
    let other = lower.binary_scalar(binary_op::MUL, other, y)?;
    lower.binary(binary_op::ADD, one, other)
}

/// Replaces magnitudes beyond the largest by an infinity, or by NaN for a type without infinities.
fn overflow(lower: &mut Lower, x: BlobId, steps: Steps) -> Result<BlobId> {
    let magnitude = lower.unary(unary_op::ABS, x)?;
    let is_over = lower.gt(magnitude, steps.largest)?;
    let factor = lower.binary_scalar(binary_op::MUL, is_over, f32::MAX)?;
    let factor = lower.binary_scalar(binary_op::ADD, factor, 1.0)?;
    let infinite = lower.binary(binary_op::MUL, x, factor)?;
    if steps.has_infinity {
        return Ok(infinite);
    }
    // Zero times infinity is NaN.
    let nothing = lower.binary_scalar(binary_op::MUL, infinite, 0.0)?;
    lower.binary(binary_op::ADD, x, nothing)
}
