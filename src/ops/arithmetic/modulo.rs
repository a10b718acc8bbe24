//! Remainders in ncnn, which has none of its own before 2026-05.

use super::super::broadcast::lower_pair;
use super::{Quotient, read_mod};
use crate::error::{Result, unsupported};
use crate::lower::{Lower, Side};
use crate::ncnn::BlobId;
use crate::ncnn::layer::{binary_op, unary_op};

pub(super) fn lower_mod(lower: &mut Lower) -> Result<()> {
    let quotient = read_mod(lower)?;
    if quotient == Quotient::Floor && !lower.dtype(0)?.is_int() {
        let divisor = lower.required_constant(1)?.load()?;
        if !divisor.float_list()?.iter().all(|x| x.is_finite()) {
            unsupported!(
                "an infinite divisor where quotients are rounded down: infinity times zero is NaN in ncnn"
            );
        }
    }
    let (a, b) = lower_pair(lower)?;
    let remainder = if lower.dtype(0)?.is_int() {
        int_remainder(lower, a, b, quotient)?
    } else {
        float_remainder(lower, a, b, quotient)?
    };
    lower.set(0, remainder)
}

fn int_remainder(lower: &mut Lower, a: Side, b: Side, quotient: Quotient) -> Result<BlobId> {
    let ratio = match quotient {
        Quotient::Trunc => lower.nudged_quotient(a, b)?,
        Quotient::Floor => {
            // Half of one more in the dividend, with the divisor's sign, reaches the next quotient never and makes up for rounding.
            let half = match b {
                Side::Number(b) => Side::Number(0.5_f32.copysign(b)),
                Side::Blob(b) => {
                    let positive = lower.above(b, 0.0)?;
                    Side::Blob(lower.binary_scalar(binary_op::SUB, positive, 0.5)?)
                }
            };
            let raised = lower.combine(binary_op::ADD, a, half)?;
            lower.combine(binary_op::DIV, Side::Blob(raised), b)?
        }
    };
    let rounding = if quotient == Quotient::Trunc { unary_op::TRUNC } else { unary_op::FLOOR };
    let whole = lower.unary(rounding, ratio)?;
    let multiple = lower.combine(binary_op::MUL, Side::Blob(whole), b)?;
    lower.combine(binary_op::SUB, a, Side::Blob(multiple))
}

/// The remainder of magnitudes, put right where the rounded quotient was one off, then the sign.
fn float_remainder(lower: &mut Lower, a: Side, b: Side, quotient: Quotient) -> Result<BlobId> {
    let a = lower.side_blob(a)?;
    let size = lower.unary(unary_op::ABS, a)?;
    let step = match b {
        Side::Number(b) => Side::Number(b.abs()),
        Side::Blob(b) => Side::Blob(lower.unary(unary_op::ABS, b)?),
    };
    let ratio = lower.combine(binary_op::DIV, Side::Blob(size), step)?;
    let whole = lower.unary(unary_op::TRUNC, ratio)?;
    let multiple = lower.combine(binary_op::MUL, Side::Blob(whole), step)?;
    let rest = lower.combine(binary_op::SUB, Side::Blob(size), Side::Blob(multiple))?;
    // Below 0: one step up.
    let negative = lower.below(rest, 0.0)?;
    let up = lower.combine(binary_op::MUL, Side::Blob(negative), step)?;
    let rest = lower.binary(binary_op::ADD, rest, up)?;
    // A whole step and more: one step down.
    let room = lower.combine(binary_op::SUB, step, Side::Blob(rest))?;
    let fits = lower.above(room, 0.0)?;
    let too_large = lower.complement(fits)?;
    let down = lower.combine(binary_op::MUL, Side::Blob(too_large), step)?;
    let rest = lower.binary(binary_op::SUB, rest, down)?;
    let below = lower.below(a, 0.0)?;
    let minus_two = lower.binary_scalar(binary_op::MUL, below, -2.0)?;
    let sign = lower.binary_scalar(binary_op::ADD, minus_two, 1.0)?;
    let remainder = lower.binary(binary_op::MUL, rest, sign)?;
    if quotient == Quotient::Trunc {
        return Ok(remainder);
    }
    // Where the signs of remainder and divisor differ, one more divisor.
    let opposite = lower.combine(binary_op::MUL, Side::Blob(remainder), b)?;
    let opposite = lower.below(opposite, 0.0)?;
    let more = lower.combine(binary_op::MUL, Side::Blob(opposite), b)?;
    lower.binary(binary_op::ADD, remainder, more)
}
