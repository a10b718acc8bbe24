//! Remainders: ncnn has no layer for them before 2026-05. Those of floats are exact if quotients are below
//! 2^24.

use super::super::broadcast::lower_pair;
use super::{Quotient, read_mod};
use crate::error::Result;
use crate::lower::{AssumedFact, Lower, ScalarOrBlob};
use crate::ncnn::BlobId;
use crate::ncnn::layer::{binary_op, unary_op};

/// The values that divisors may have.
#[derive(Clone, Copy)]
struct Special {
    infinite: bool,
    nan: bool,
}

fn special_divisors(lower: &Lower) -> Result<Special> {
    let Some(divisor) = lower.constant(1) else { return Ok(Special { infinite: true, nan: true }) };
    let divisors = divisor.load_listed()?.float_list()?;
    Ok(Special {
        infinite: divisors.iter().any(|x| x.is_infinite()),
        nan: divisors.iter().any(|x| x.is_nan()),
    })
}

pub(super) fn lower_mod(lower: &mut Lower) -> Result<()> {
    lower.compute_in_float32();
    let quotient = read_mod(lower)?;
    let (a, b) = lower_pair(lower)?;
    let remainder = if lower.dtype(0)?.is_int() {
        int_remainder(lower, a, b, quotient)?
    } else {
        lower.assume(0, AssumedFact::ExactQuotient);
        let special = special_divisors(lower)?;
        float_remainder(lower, a, b, quotient, special)?
    };
    lower.set(0, remainder)
}

fn int_remainder(lower: &mut Lower, a: ScalarOrBlob, b: ScalarOrBlob, quotient: Quotient) -> Result<BlobId> {
    if !lower.has_short_quotients() {
        let (_, rest) = lower.divide_integers(a, b)?;
        return match quotient {
            Quotient::Trunc => Ok(rest),
            Quotient::Floor => round_down(lower, rest, b, None),
        };
    }
    let ratio = match quotient {
        Quotient::Trunc => lower.nudged_quotient(a, b)?,
        Quotient::Floor => {
            // Half a unit added to the dividend, with the divisor's sign, never reaches the next quotient and
            // compensates for rounding.
            let half = match b {
                ScalarOrBlob::Number(b) => ScalarOrBlob::Number(0.5_f32.copysign(b)),
                ScalarOrBlob::Blob(b) => {
                    let positive = lower.gt(b, 0.0)?;
                    ScalarOrBlob::Blob(lower.binary_scalar(binary_op::SUB, positive, 0.5)?)
                }
            };
            let raised = lower.combine(binary_op::ADD, a, half)?;
            lower.combine(binary_op::DIV, ScalarOrBlob::Blob(raised), b)?
        }
    };
    let rounding = if quotient == Quotient::Trunc { unary_op::TRUNC } else { unary_op::FLOOR };
    let whole = lower.unary(rounding, ratio)?;
    let multiple = lower.combine(binary_op::MUL, ScalarOrBlob::Blob(whole), b)?;
    lower.combine(binary_op::SUB, a, ScalarOrBlob::Blob(multiple))
}

/// Emits the remainder of the magnitudes, corrected if the rounded quotient was off by one, with the sign of
/// the dividend.
fn float_remainder(
    lower: &mut Lower,
    a: ScalarOrBlob,
    b: ScalarOrBlob,
    quotient: Quotient,
    special: Special,
) -> Result<BlobId> {
    let a = lower.side_blob(a)?;
    let size = lower.unary(unary_op::ABS, a)?;
    let (step, infinite) = match b {
        ScalarOrBlob::Number(b) => (ScalarOrBlob::Number(b.abs()), None),
        ScalarOrBlob::Blob(b) => {
            let step = lower.unary(unary_op::ABS, b)?;
            if special.infinite {
                let infinite = lower.gt(step, f32::MAX)?;
                (ScalarOrBlob::Blob(lower.binary_scalar(binary_op::MIN, step, f32::MAX)?), Some(infinite))
            } else {
                (ScalarOrBlob::Blob(step), None)
            }
        }
    };
    let rest = remainder_of_magnitudes(lower, size, step)?;
    let below = lower.lt(a, 0.0)?;
    let minus_two = lower.binary_scalar(binary_op::MUL, below, -2.0)?;
    let sign = lower.binary_scalar(binary_op::ADD, minus_two, 1.0)?;
    let mut remainder = lower.binary(binary_op::MUL, rest, sign)?;
    if let Some(infinite) = infinite {
        remainder = lower.choose(infinite, a, remainder)?;
    }
    if quotient == Quotient::Floor {
        remainder = round_down(lower, remainder, b, infinite)?;
    }
    match b {
        ScalarOrBlob::Blob(b) if special.nan => lower.keep_nan(b, remainder),
        _ => Ok(remainder),
    }
}

fn remainder_of_magnitudes(lower: &mut Lower, size: BlobId, step: ScalarOrBlob) -> Result<BlobId> {
    let ratio = lower.combine(binary_op::DIV, ScalarOrBlob::Blob(size), step)?;
    let whole = lower.unary(unary_op::TRUNC, ratio)?;
    let rest = lower.minus_product(ScalarOrBlob::Blob(size), whole, step)?;
    let rest = lower.side_blob(rest)?;
    // A negative remainder: one divisor is added.
    let negative = lower.lt(rest, 0.0)?;
    let up = lower.combine(binary_op::MUL, ScalarOrBlob::Blob(negative), step)?;
    let rest = lower.binary(binary_op::ADD, rest, up)?;
    // A remainder of at least the divisor: one divisor is subtracted.
    let room = lower.combine(binary_op::SUB, step, ScalarOrBlob::Blob(rest))?;
    let fits = lower.gt(room, 0.0)?;
    let too_large = lower.logical_not(fits)?;
    let down = lower.combine(binary_op::MUL, ScalarOrBlob::Blob(too_large), step)?;
    lower.binary(binary_op::SUB, rest, down)
}

/// Adds a divisor if the signs of remainder and divisor differ; `infinite` marks infinite divisors.
fn round_down(
    lower: &mut Lower,
    remainder: BlobId,
    b: ScalarOrBlob,
    infinite: Option<BlobId>,
) -> Result<BlobId> {
    let b = match b {
        ScalarOrBlob::Number(b) => {
            let opposite = if b < 0.0 { lower.gt(remainder, 0.0)? } else { lower.lt(remainder, 0.0)? };
            let more = lower.binary_scalar(binary_op::MUL, opposite, b)?;
            return lower.binary(binary_op::ADD, remainder, more);
        }
        ScalarOrBlob::Blob(b) => b,
    };
    let (below, above) = (lower.lt(remainder, 0.0)?, lower.gt(remainder, 0.0)?);
    let (positive, negative) = (lower.gt(b, 0.0)?, lower.lt(b, 0.0)?);
    let below = lower.binary(binary_op::MUL, below, positive)?;
    let above = lower.binary(binary_op::MUL, above, negative)?;
    let opposite = lower.binary(binary_op::ADD, below, above)?;
    let Some(infinite) = infinite else {
        let more = lower.binary(binary_op::MUL, opposite, b)?;
        return lower.binary(binary_op::ADD, remainder, more);
    };
    // Zero times infinity would be NaN; twice the largest float32 is infinite only at infinite divisors.
    let bounded = lower.binary_scalar(binary_op::MIN, b, f32::MAX)?;
    let bounded = lower.binary_scalar(binary_op::MAX, bounded, f32::MIN)?;
    let more = lower.binary(binary_op::MUL, opposite, bounded)?;
    let rounded = lower.binary(binary_op::ADD, remainder, more)?;
    let largest = lower.binary(binary_op::MUL, more, infinite)?;
    let beyond = lower.binary_scalar(binary_op::MUL, largest, 2.0)?;
    lower.binary(binary_op::ADD, rounded, beyond)
}
