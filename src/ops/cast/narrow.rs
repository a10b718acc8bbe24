//! Rounding to few binary digits in arithmetic of single precision.

use crate::error::Result;
use crate::lower::Lower;
use crate::ncnn::BlobId;
use crate::ncnn::layer::{binary_op, unary_op};
use crate::tensor::Steps;

/// Digits of a single.
const DIGITS: i32 = 24;

/// The number of a small float that each element becomes: one of all digits, or below those a multiple of the least one. NaN stays; what
/// is too large becomes the largest, or, where it does not saturate, an infinity or NaN.
pub(super) fn round_to(lower: &mut Lower, x: BlobId, steps: Steps, saturate: bool) -> Result<BlobId> {
    let bound = if saturate { steps.largest } else { steps.largest * 4.0 };
    let bounded = clip(lower, x, bound)?;
    let of_digits = lower.round_digits(bounded, steps.digits)?;
    // A number with so large a one that the last digit of the sum is the least step.
    let magic = 1.5 * 2_f32.powi(DIGITS - 1) * steps.least;
    let small = clip(lower, bounded, steps.normal)?;
    let raised = lower.binary_scalar(binary_op::ADD, small, magic)?;
    let small = lower.binary_scalar(binary_op::SUB, raised, magic)?;
    let magnitude = lower.unary(unary_op::ABS, bounded)?;
    let is_normal = lower.above(magnitude, steps.normal)?;
    let rounded = choose(lower, is_normal, of_digits, small)?;
    let rounded = if saturate { rounded } else { overflow(lower, rounded, steps)? };
    keep_nan(lower, x, rounded)
}

/// The nearest of few numbers and their negatives, ties to the one at an even place: the steps that are taken add up. NaN becomes 0.
pub(super) fn count_steps(lower: &mut Lower, x: BlobId, magnitudes: &[f32]) -> Result<BlobId> {
    let size = lower.unary(unary_op::ABS, x)?;
    let mut sum = None;
    for (place, (low, high)) in magnitudes.iter().zip(magnitudes.iter().skip(1)).enumerate() {
        let middle = f32::midpoint(*low, *high);
        // Threshold takes what is above it: from an odd place, the middle too.
        let threshold = if place % 2 == 0 { middle } else { middle.next_down() };
        let taken = lower.above(size, threshold)?;
        let step = lower.binary_scalar(binary_op::MUL, taken, high - low)?;
        sum = Some(match sum {
            Some(sum) => lower.binary(binary_op::ADD, sum, step)?,
            None => step,
        });
    }
    let Some(sum) = sum else { return Ok(size) };
    let (positive, negative) = (lower.above(x, 0.0)?, lower.below(x, 0.0)?);
    let sign = lower.binary(binary_op::SUB, positive, negative)?;
    lower.binary(binary_op::MUL, sum, sign)
}

fn clip(lower: &mut Lower, x: BlobId, bound: f32) -> Result<BlobId> {
    let below = lower.binary_scalar(binary_op::MIN, x, bound)?;
    lower.binary_scalar(binary_op::MAX, below, -bound)
}

/// `yes` where `truth` is 1, `no` where it is 0; both are finite.
fn choose(lower: &mut Lower, truth: BlobId, yes: BlobId, no: BlobId) -> Result<BlobId> {
    let yes = lower.binary(binary_op::MUL, yes, truth)?;
    let untruth = lower.complement(truth)?;
    let no = lower.binary(binary_op::MUL, no, untruth)?;
    lower.binary(binary_op::ADD, yes, no)
}

/// An infinity, or NaN where the type has none, in place of what is larger than the largest number.
fn overflow(lower: &mut Lower, x: BlobId, steps: Steps) -> Result<BlobId> {
    let magnitude = lower.unary(unary_op::ABS, x)?;
    let is_over = lower.above(magnitude, steps.largest)?;
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

/// `y`, and NaN where `x` is it: minima and maxima may lose it.
fn keep_nan(lower: &mut Lower, x: BlobId, y: BlobId) -> Result<BlobId> {
    let magnitude = lower.unary(unary_op::ABS, x)?;
    let is_number = lower.above(magnitude, -1.0)?;
    let is_nan = lower.complement(is_number)?;
    let large = lower.binary_scalar(binary_op::MUL, is_nan, f32::MAX)?;
    let infinite = lower.binary_scalar(binary_op::MUL, large, f32::MAX)?;
    let nothing = lower.binary_scalar(binary_op::MUL, infinite, 0.0)?;
    lower.binary(binary_op::ADD, y, nothing)
}
