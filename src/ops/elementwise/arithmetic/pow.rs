//! Powers. BinaryOp POW is `exp(y * log(x))`, which is NaN for every negative and zero base if it is
//! vectorized (`binaryop_functor.h`), so it is never used.

use super::super::broadcast::lower_pair;
use super::super::unary::root;
use super::lower::multiply;
use crate::lower::{AssumedFact, Formula, OverZero, ScalarOrBlob};
use crate::ncnn::layer::{Exp, Log};
use crate::ops::prelude::*;

/// The maximum constant exponent of small integers: each power takes several multiplications that wrap
/// around.
const MAX_WRAPPED_EXPONENT: i32 = 16;

/// The bits of an exponent: a power by 32 or more is beyond the integers of float32, unless the base is 0, 1
/// or -1.
const EXPONENT_BITS: usize = 5;

/// The bound of powers of which none is a factor of an integer of float32. Their squares are finite.
const BEYOND_EXACT: f32 = 33_554_432.0;

/// Logarithms are clipped to this magnitude: `0 * log(0)` must be 0.
const MAX_LOG: f32 = 1e30;

/// The rule of powers by one exponent, and of bases that are not negative.
pub(super) fn range_power(_: &Call, inputs: &[Range]) -> Range {
    let &[base, by] = inputs else { return Range::ANY };
    let exponent = (by.least == by.most).then_some(by.least);
    let power = |by: f64| move |x: f64| libm::pow(x, by);
    match exponent {
        Some(1.0) => base,
        Some(by) if by > 0.0 && by % 2.0 == 0.0 => base.abs().map(power(by)),
        Some(by) if by > 0.0 && base.least >= 0.0 => base.map(power(by)),
        _ if by.least >= 0.0 && base.least >= 0.0 => Range::NOT_NEGATIVE,
        _ => Range::ANY,
    }
}

pub(super) fn lower_pow(lower: &Lower) -> Result<()> {
    let (base, exponent) = lower_pair(lower)?;
    let dtype = lower.dtype(0)?;
    if let Some(exponents) = lower.constant(1)
        && !exponents.load_listed()?.all_numbers(f64::is_finite)
    {
        unsupported!("a constant exponent that is not finite");
    }
    if dtype.is_int() && !lower.dtype(1)?.is_int() && lower.constant(1).is_none() {
        lower.assume(1, AssumedFact::WholeExponent);
    }
    let power = match (base, exponent) {
        (_, ScalarOrBlob::Number(exponent)) => {
            let base = lower.compute(base)?;
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
            lower.compute(round_integers(exponent.map(Exp { base, ..Exp::default() }), dtype))?
        }
        (base, ScalarOrBlob::Blob(exponent)) => {
            let base = lower.compute(base)?;
            let power = general_power(lower, base, exponent)?;
            lower.compute(round_integers(power, dtype))?
        }
    };
    lower.set(0, power)
}

fn round_integers(power: impl Operand, dtype: DType) -> Formula {
    if dtype.is_int() { power.round() } else { power.into() }
}

fn float_power(lower: &Lower, base: BlobId, exponent: f32) -> Result<BlobId> {
    // UnaryOp may be NaN for an infinite root, and for the reciprocal of 0.
    let may_be_by_zero = exponent < 0.0 && !lower.may_divide_by(0);
    match exponent {
        1.0 => Ok(base),
        0.5 if !lower.range(0).is_finite() => root(lower, base),
        -1.0 if may_be_by_zero => lower.quotient(ScalarOrBlob::Number(1.0), base, 0, OverZero::Exact),
        _ if may_be_by_zero => lower.power(base, exponent, lower.range(0)),
        2.0 => lower.compute(base.square()),
        3.0 => lower.compute(base.square() * base),
        4.0 => lower.compute(base.square().square()),
        0.5 => lower.compute(base.sqrt()),
        // RSQRT is an estimate of twelve bits on x86 before 2026 (`unaryop_x86.cpp`).
        -0.5 => lower.compute(base.sqrt().reciprocal()),
        -1.0 => lower.compute(base.reciprocal()),
        -2.0 => lower.compute(base.square().reciprocal()),
        _ => lower.power(base, exponent, lower.range(0)),
    }
}

fn int_power(lower: &Lower, base: BlobId, exponent: f32, dtype: DType) -> Result<BlobId> {
    if exponent < 0.0 || exponent.fract() != 0.0 {
        unsupported!("{dtype} to the power of {exponent}");
    }
    if dtype.bits() > 16 {
        let power = float_power(lower, base, exponent)?;
        return lower.compute(power.round());
    }
    let times = (1..=MAX_WRAPPED_EXPONENT).find(|n| f64::from(*n) == f64::from(exponent));
    match times {
        Some(times) => {
            let mut power = base;
            for _ in 1..times {
                power = multiply(lower, power.into(), base.into(), dtype)?;
            }
            Ok(power)
        }
        None if exponent == 0.0 => lower.power(base, 0.0, lower.range(0)),
        None => unsupported!("{dtype} to the power of {exponent}"),
    }
}

/// Expands a power of integers whose operands both have several elements: a product of the squares that the
/// bits of the exponent choose, because `exp(y * log(x))` rounds integers above 2^18 to others.
pub(super) fn expand_int_pow(x: &Expand) -> Result<bool> {
    let (dtype, of) = (x.dtype(0)?, x.dtype(1)?);
    let is_number = |index: usize| x.constant(index).is_some_and(|tensor| tensor.len() == 1);
    if !dtype.is_int() || dtype.is_narrow_int() || !of.is_int() || is_number(0) || is_number(1) {
        return Ok(false);
    }
    let (base, exponent) = (x.operand_as(0, DType::F32), x.operand_as(1, DType::F32));
    let mut rest = exponent.abs();
    // Larger exponents matter only to bases of 0, 1 and -1, by their last bit.
    rest = rest.minimum(rest - halved(rest) * 2.0 + 30.0);
    let (mut square, mut power) = (base, None);
    for _ in 0..EXPONENT_BITS {
        let less = halved(rest);
        let factor = (square - 1.0) * (rest - less * 2.0) + 1.0;
        power = Some(power.map_or(factor, |power: Expr| power * factor));
        (square, rest) = ((square * square).minimum(BEYOND_EXACT), less);
    }
    let mut power = power.unwrap_or(base);
    if x.range(1).least < 0.0 {
        let is_fraction = exponent.less(0.0) & base.abs().greater(1.0);
        power = is_fraction.select(0.0, power);
    }
    x.output(0, power.cast(dtype));
    Ok(true)
}

fn halved(number: Expr<'_>) -> Expr<'_> {
    number.builder.op("Floor", [number * 0.5], [])
}

/// Emits `exp(y * log|x|)`, negative for negative `x` and odd `y`, NaN for negative `x` and fractional `y`.
fn general_power(lower: &Lower, base: BlobId, exponent: BlobId) -> Result<BlobId> {
    // An exponential multiplies the rounding error of the logarithm.
    lower.compute_in_float32();
    let log = base.abs().map(Log::default()).clip(-MAX_LOG, MAX_LOG);
    let power = lower.compute((log * exponent).map(Exp::default()))?;
    if lower.dtype(0)?.is_unsigned() {
        return Ok(power);
    }
    let negative = lower.compute(base.less(0.0))?;
    let odd = lower.compute(exponent - (exponent * 0.5).floor() * 2.0)?;
    let power = lower.compute(power * (negative * odd * -2.0 + 1.0))?;
    if lower.dtype(1)?.is_int() {
        return Ok(power);
    }
    let fractional = lower.compute((exponent - exponent.floor()).nonzero())?;
    lower.compute(power + (-(negative * fractional)).sqrt())
}
