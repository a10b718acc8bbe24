//! Remainders: ncnn has no layer for them before 2026-05. Remainders of floats are exact if quotients are
//! below 2^24.

use super::super::broadcast::{infer_first, lower_pair};
use super::fold::{Quotient, read_mod, require_signs};
use crate::lower::{AssumedFact, Formula, ScalarOrBlob, nudged_quotient};
use crate::ops::prelude::*;
use crate::tensor::try_zip_broadcast;

pub(super) fn infer_mod(call: &Call) -> Result<Vec<Fact>> {
    match read_mod(call)? {
        Quotient::Floor if call.dtype(0)?.is_float() && call.since() < 28 => {
            invalid!("fmod must be 1 for float types");
        }
        Quotient::Floor => {}
        Quotient::Trunc => require_signs(call)?,
    }
    match indices_from_the_end(call)? {
        Some(indices) => Ok(vec![Fact::elements(indices)]),
        None => infer_first(call),
    }
}

/// Returns the remainders of integers by free sizes, such as shifts that roll an axis: indices that
/// are counted from the end if they are negative. Requires that they lie within the axis.
fn indices_from_the_end(call: &Call) -> Result<Option<Array>> {
    let sizes = call.value(1).and_then(|value| value.elements.as_ref());
    let (Some(by), Some(sizes)) = (call.constant(0), sizes) else { return Ok(None) };
    if read_mod(call)? == Quotient::Trunc || !by.dtype().is_int() {
        return Ok(None);
    }
    let index = |by: &i64, size: &Dim| {
        if size.known().is_some() || !matches!(size.bounds(), (Some(1..), _)) {
            return Ok(Dim::Known(*by).modulo(size));
        }
        let (index, within) = match Dim::Known(*by) {
            by @ Dim::Known(..0) => (size + &by, size + &by),
            by => (by.clone(), size - &by - 1),
        };
        call.require(SizeCondition::at_least(&within, 0))?;
        Ok(index)
    };
    let indices = try_zip_broadcast(&by.load_listed()?.to_i64()?, &sizes.to_dims()?, index)?;
    Ok(Some(Array::new(by.dtype(), Elements::Dim(indices))))
}

/// Remainders are smaller than the divisor, and have its sign or the sign of the dividend.
pub(super) fn range_mod(_: &Call, inputs: &[Range]) -> Range {
    match inputs {
        [a, b] if b.excludes_zero() && a.is_finite() => {
            let most = b.abs().most;
            Range { least: if a.least >= 0.0 && b.least >= 0.0 { 0.0 } else { -most }, most }
        }
        _ => Range::ANY,
    }
}

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

pub(super) fn lower_mod(lower: &Lower) -> Result<()> {
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

fn int_remainder(lower: &Lower, a: ScalarOrBlob, b: ScalarOrBlob, quotient: Quotient) -> Result<BlobId> {
    if !lower.has_short_quotients() {
        let (_, rest) = lower.divide_integers(a, b)?;
        return match quotient {
            Quotient::Trunc => Ok(rest),
            Quotient::Floor => round_down(lower, rest, b, None),
        };
    }
    let whole = match quotient {
        Quotient::Trunc => nudged_quotient(a, b).trunc(),
        Quotient::Floor => {
            // Half a unit added to the dividend, with the divisor's sign, never reaches the next quotient and
            // compensates for rounding.
            let half: Formula = match b {
                ScalarOrBlob::Number(b) => 0.5_f32.copysign(b).into(),
                ScalarOrBlob::Blob(b) => lower.compute(b.greater(0.0) - 0.5)?.into(),
            };
            ((a + half) / b).floor()
        }
    };
    lower.compute(a - whole * b)
}

/// Emits the remainder of the magnitudes, corrected if the rounded quotient was off by one, with the sign of
/// the dividend.
fn float_remainder(
    lower: &Lower,
    a: ScalarOrBlob,
    b: ScalarOrBlob,
    quotient: Quotient,
    special: Special,
) -> Result<BlobId> {
    let a = lower.compute(a)?;
    let size = lower.compute(a.abs())?;
    let (mut step, mut infinite) = (lower.side(b.abs())?, None);
    if let ScalarOrBlob::Blob(by) = step
        && special.infinite
    {
        infinite = Some(lower.compute(by.greater(f32::MAX))?);
        step = lower.side(by.minimum(f32::MAX))?;
    }
    let rest = remainder_of_magnitudes(lower, size, step)?;
    let mut remainder = lower.compute(rest * (a.less(0.0) * -2.0 + 1.0))?;
    if let Some(infinite) = infinite {
        remainder = lower.compute(infinite.select(a, remainder))?;
    }
    if quotient == Quotient::Floor {
        remainder = round_down(lower, remainder, b, infinite)?;
    }
    match b {
        ScalarOrBlob::Blob(b) if special.nan => lower.keep_nan(b, remainder),
        _ => Ok(remainder),
    }
}

fn remainder_of_magnitudes(lower: &Lower, size: BlobId, step: ScalarOrBlob) -> Result<BlobId> {
    let whole = lower.compute((size / step).trunc())?;
    let rest = lower.minus_product(size.into(), whole, step)?;
    let rest = lower.compute(rest)?;
    // A negative remainder: one divisor is added.
    let rest = lower.compute(rest + rest.less(0.0) * step)?;
    // A remainder of at least the divisor: one divisor is subtracted.
    lower.compute(rest - !(step - rest).greater(0.0) * step)
}

/// Adds a divisor if the signs of remainder and divisor differ; `infinite` marks infinite divisors.
fn round_down(lower: &Lower, remainder: BlobId, b: ScalarOrBlob, infinite: Option<BlobId>) -> Result<BlobId> {
    let b = match b {
        ScalarOrBlob::Number(b) => {
            let opposite = if b < 0.0 { remainder.greater(0.0) } else { remainder.less(0.0) };
            return lower.compute(remainder + opposite * b);
        }
        ScalarOrBlob::Blob(b) => b,
    };
    let (below, above) = (lower.compute(remainder.less(0.0))?, lower.compute(remainder.greater(0.0))?);
    let (positive, negative) = (lower.compute(b.greater(0.0))?, lower.compute(b.less(0.0))?);
    let opposite = lower.compute(below * positive + above * negative)?;
    let Some(infinite) = infinite else {
        return lower.compute(remainder + opposite * b);
    };
    // Zero times infinity would be NaN; twice the largest float32 is infinite only at infinite divisors.
    let more = lower.compute(opposite * b.minimum(f32::MAX).maximum(f32::MIN))?;
    lower.compute(remainder + more + more * infinite * 2.0)
}
