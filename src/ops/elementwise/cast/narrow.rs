//! Rounding to few binary digits in float32 arithmetic.

use crate::lower::Formula;
use crate::ops::prelude::*;
use crate::tensor::{Narrowing, Power, Steps};

/// The number of binary digits of float32.
const DIGITS: i32 = 24;

/// Rounds each element to a float with few digits: a multiple of the least step below the range of full
/// digits. NaN stays; magnitudes beyond the largest become the largest or, without saturation, an infinity or
/// NaN.
pub(super) fn round_to(lower: &Lower, x: BlobId, steps: Steps, saturate: bool) -> Result<BlobId> {
    let bound = if saturate { steps.largest } else { steps.largest * 4.0 };
    let bounded = lower.compute(clip(x, bound))?;
    let of_digits = lower.round_digits(bounded, steps.digits)?;
    // Adding and subtracting a constant whose last digit is the least step rounds to that step.
    let magic = 1.5 * 2_f32.powi(DIGITS - 1) * steps.least;
    let small = lower.compute(clip(bounded, steps.normal) + magic - magic)?;
    let is_normal = lower.compute(bounded.abs().greater(steps.normal))?;
    let rounded = lower.compute(is_normal.select(of_digits, small))?;
    let rounded = if saturate { rounded } else { overflow(lower, rounded, steps)? };
    lower.keep_nan(x, rounded)
}

/// Rounds to the nearest of a few magnitudes, ties to the one at an even index: the result is the sum of the
/// steps passed. NaN becomes 0.
pub(super) fn count_steps(lower: &Lower, x: BlobId, magnitudes: &[f32]) -> Result<BlobId> {
    let size = lower.compute(x.abs())?;
    let steps = magnitudes.iter().zip(magnitudes.iter().skip(1)).enumerate().map(|(index, (low, high))| {
        let middle = f32::midpoint(*low, *high);
        // Threshold passes elements above its limit: from an odd index, also the tie.
        let threshold = if index % 2 == 0 { middle } else { middle.next_down() };
        size.greater(threshold) * (high - low)
    });
    let Some(sum) = steps.reduce(|sum, step| sum + step) else { return Ok(size) };
    lower.compute(sum * (x.greater(0.0) - x.less(0.0)))
}

fn clip(x: BlobId, bound: f32) -> Formula {
    x.minimum(bound).maximum(-bound)
}

/// Rounds each element to a power of two, or NaN. The least one, 2^-127, is subnormal, which ncnn flushes;
/// 2^-126 replaces it.
pub(super) fn round_to_power(lower: &Lower, x: BlobId, narrowing: Narrowing) -> Result<BlobId> {
    lower.compute_in_float32();
    let bounded = lower.compute(x.minimum(f32::MAX).maximum(0.0))?;
    // Neither may the splitting product overflow, nor a difference be subnormal.
    let is_large = lower.compute(bounded.greater(2_f32.powi(50)))?;
    let is_small = lower.compute(!is_large)?;
    let factor = is_large * 2_f32.powi(-27) + is_small * 2_f32.powi(50);
    let scaled = lower.compute(bounded * factor)?;
    // To the nearest; ties to the power above, whose only digit is at an even index.
    let mut power = lower.round_digits(scaled, 1)?;
    let rest = lower.compute(scaled - power)?;
    let taken = match narrowing.power {
        Power::Nearest => None,
        Power::Up => Some(rest.greater(0.0) * 1.0),
        Power::Down => Some(rest.less(0.0) * -0.5),
    };
    if let Some(taken) = taken {
        power = lower.compute(power + power * taken)?;
    }
    let back = is_large * 2_f32.powi(27) + is_small * 2_f32.powi(-50);
    let power = lower.compute(power * back)?;
    let largest = 2_f32.powi(127);
    let result = lower.compute(power.minimum(largest).maximum(f32::MIN_POSITIVE))?;
    if narrowing.saturate {
        return lower.keep_nan(x, result);
    }
    // Elements that are not positive, or beyond the largest.
    let is_positive = lower.compute(x.greater(0.0))?;
    let is_infinite = lower.compute(x.greater(f32::MAX))?;
    let is_over = lower.compute(power.greater(largest))?;
    let is_nan = lower.compute(!is_positive + is_infinite + is_over)?;
    lower.set_nan(is_nan, result)
}

/// Replaces magnitudes beyond the largest by an infinity, or by NaN for a type without infinities.
fn overflow(lower: &Lower, x: BlobId, steps: Steps) -> Result<BlobId> {
    let infinite = x * (x.abs().greater(steps.largest) * f32::MAX + 1.0);
    // Zero times infinity is NaN.
    lower.compute(if steps.has_infinity { infinite } else { x + infinite * 0.0 })
}
