//! Lowering of arithmetic.

use num_traits::AsPrimitive;

use super::super::broadcast::{lower_bounded, lower_operands, lower_pair, refuse_nan};
use super::super::compare::over_zero_of;
use super::bitwise::bits;
use super::fold::read_bit_shift;
use crate::lower::{Formula, OverZero, ScalarOrBlob, is_power_of_two, nudged_quotient};
use crate::ncnn::layer::{Exp, binary_op};
use crate::ops::prelude::*;

/// 2^24: float32 represents integers up to this magnitude.
const INTEGERS: f32 = 16_777_216.0;

/// A shift by more bits than any type has.
const FAR: f32 = 1e10;

/// Emits one operation over operands, from the first to the last.
fn chain(lower: &Lower, op_type: i32, sides: &[ScalarOrBlob]) -> Result<BlobId> {
    let mut result = *sides.at(0)?;
    for side in sides.iter().skip(1) {
        result = lower.compute(result.with(op_type, *side))?.into();
    }
    lower.compute(result)
}

/// Refuses sums with integers above 2^24, which float32 would round.
fn refuse_far_sums(lower: &Lower) -> Result<()> {
    for index in 0..lower.input_count() {
        let Some(tensor) = lower.constant(index).filter(|tensor| tensor.dtype().is_int()) else { continue };
        tensor.for_each_f32(
            &mut |elements| match elements.iter().find(|element| element.abs() > INTEGERS) {
                Some(far) => unsupported!("a sum with the integer {far}: float32 rounds sums above 2^24"),
                None => Ok(()),
            },
        )?;
    }
    Ok(())
}

/// Lowers to one operation over all operands, wrapped to an integer type.
pub(super) fn lower_chain(lower: &Lower, op_type: i32) -> Result<()> {
    refuse_far_sums(lower)?;
    let sides = lower_operands(lower)?;
    let dtype = lower.dtype(0)?;
    compute_before_wrapping(lower, dtype);
    let chained = chain(lower, op_type, &sides)?;
    let wrapped = lower.wrap(chained, dtype)?;
    lower.set(0, wrapped)
}

/// Lowers to the largest or the least of all operands.
pub(super) fn lower_extreme(lower: &Lower, op_type: i32) -> Result<()> {
    refuse_nan(lower)?;
    let sides = lower_bounded(lower)?;
    let result = chain(lower, op_type, &sides)?;
    lower.set(0, result)
}

pub(super) fn lower_mean(lower: &Lower) -> Result<()> {
    let sides = lower_operands(lower)?;
    let sum = chain(lower, binary_op::ADD, &sides)?;
    let count = u16::try_from(lower.input_count())?;
    lower.set(0, sum * (1.0 / f32::from(count)))
}

pub(super) fn lower_mul(lower: &Lower) -> Result<()> {
    let (a, b) = lower_pair(lower)?;
    let dtype = lower.dtype(0)?;
    let product = multiply(lower, a, b, dtype)?;
    lower.set(0, product)
}

/// Lets the following layers compute in float32, if their result is wrapped: it is larger than an integer of
/// that type.
fn compute_before_wrapping(lower: &Lower, dtype: DType) {
    if dtype.is_narrow_int() {
        lower.compute_in_float32();
    }
}

/// Emits the product, wrapped to an integer type.
pub(super) fn multiply(lower: &Lower, a: ScalarOrBlob, b: ScalarOrBlob, dtype: DType) -> Result<BlobId> {
    compute_before_wrapping(lower, dtype);
    if !dtype.is_int() || dtype.bits() != 16 {
        return lower.wrap(a * b, dtype);
    }
    // A product of 32 bits is not exact in float32; one of 16 by 8 bits is. The upper half contributes only 8
    // bits.
    let a = lower.compute(a)?;
    let upper = lower.compute((a * (1.0 / 256.0)).floor())?;
    let rest = lower.compute(a - upper * 256.0)?;
    let upper = lower.wrap(upper * b, DType::U8)?;
    lower.wrap(upper * 256.0 + rest * b, dtype)
}

pub(super) fn lower_div(lower: &Lower) -> Result<()> {
    let (a, b) = lower_pair(lower)?;
    let dtype = lower.dtype(0)?;
    if !dtype.is_int() {
        let quotient = float_quotient(lower, a, b)?;
        return lower.set(0, quotient);
    }
    let quotient = if lower.has_short_quotients() {
        lower.compute(nudged_quotient(a, b).trunc())?
    } else {
        lower.divide_integers(a, b)?.0
    };
    // The smallest integer of a signed type divided by -1 wraps around.
    let wrapped = if dtype.is_unsigned() { quotient } else { lower.wrap(quotient, dtype)? };
    lower.set(0, wrapped)
}

fn float_quotient(lower: &Lower, a: ScalarOrBlob, b: ScalarOrBlob) -> Result<BlobId> {
    match b {
        // The vectorized division may differ in the last bit.
        ScalarOrBlob::Number(b) if is_power_of_two(b) => lower.compute(a * (1.0 / b)),
        // The file of parameters has no infinities.
        ScalarOrBlob::Number(b) if b == 0.0 => {
            let factor = lower.compute(b.recip())?;
            lower.compute(a * factor)
        }
        ScalarOrBlob::Number(_) if lower.feeds_discontinuity() => lower.exact_quotient(a, b),
        ScalarOrBlob::Number(_) => lower.compute(a / b),
        ScalarOrBlob::Blob(divisor) => {
            let over_zero = over_zero(lower);
            lower.quotient(a, divisor, 1, over_zero)
        }
    }
}

/// Returns the requirement of the readers of a quotient where its divisor is 0.
fn over_zero(lower: &Lower) -> OverZero {
    match (lower.node().output(0), lower.node().input(1)) {
        (Some(quotient), Some(divisor)) if lower.feeds_selection() && !lower.feeds("IsNaN") => {
            over_zero_of(lower.graph(), quotient, divisor)
        }
        _ => OverZero::Exact,
    }
}

pub(super) fn lower_bitwise_not(lower: &Lower) -> Result<()> {
    lower.compute_in_float32();
    let x = lower.blob(0)?;
    let dtype = lower.dtype(0)?;
    let last = if dtype.is_unsigned() && dtype.bits() <= 16 { 2_f32.powi(bits(dtype)?) - 1.0 } else { -1.0 };
    if dtype.is_unsigned() && dtype.bits() > 16 {
        unsupported!("float32 does not represent the inverted bits of {dtype}");
    }
    lower.set(0, last - x)
}

pub(super) fn lower_bit_shift(lower: &Lower) -> Result<()> {
    lower.compute_in_float32();
    let left = read_bit_shift(lower)?;
    let dtype = lower.dtype(0)?;
    let (x, by) = lower_pair(lower)?;
    let all: f32 = bits(dtype)?.as_();
    let direction = if left { 1.0 } else { -1.0 };
    // A shift by a negative amount, or by more bits than the type has, is one by all bits.
    let factor = match by {
        ScalarOrBlob::Number(by) => {
            let by = if by < 0.0 { all } else { by.min(all) };
            ScalarOrBlob::Number(libm::exp2f(by * direction))
        }
        ScalarOrBlob::Blob(by) => {
            let bounded = (by + by.less(0.0) * FAR).clip(0.0, all);
            lower.side(bounded.map(Exp { base: 2.0, scale: direction, ..Exp::default() }))?
        }
    };
    let shifted =
        if left { keep_bits(lower, x * factor, dtype)? } else { lower.compute((x * factor).floor())? };
    lower.set(0, shifted)
}

/// Wraps a number shifted to the left, which float32 represents exactly however large it is, to an integer
/// type.
fn keep_bits(lower: &Lower, x: Formula, dtype: DType) -> Result<BlobId> {
    let range = 2_f32.powi(bits(dtype)?);
    let x = lower.compute(x)?;
    let kept = lower.compute(x - (x * (1.0 / range)).floor() * range)?;
    if dtype.is_unsigned() {
        return Ok(kept);
    }
    lower.compute(kept - (kept * (2.0 / range)).floor() * range)
}
