//! Booleans and integers in float32, computed exactly.
//!
//! ncnn is built with `-ffast-math`: a vectorized division may differ in the last bit, and gives NaN for a
//! zero or infinite divisor; the result of comparisons and minima with NaN depends on the order. Addition,
//! multiplication, minimum, maximum and Threshold are exact, also on infinities.

use super::elements::INTEGERS;
use super::{Formula, Lower, Operand, ScalarOrBlob};
use crate::error::{At, Result};
use crate::ncnn::BlobId;
use crate::ncnn::layer::Power;
use crate::tensor::{Array, DType, Range, Tensor};

/// A quotient of integers times this factor is not below the next integer, whatever the rounding of the
/// division: quotients of integers below 2^20 are further from it than this.
const NUDGE: f32 = 1.0 + 1.0 / 4_194_304.0;

/// A quotient times this factor is not above the exact one, whatever the rounding of the division.
const DECREASE: f32 = 1.0 - 1.0 / 1_048_576.0;

/// The factor that splits off 12 of 24 digits: `x * s - (x * s - x)`.
const SPLITTER: f32 = 4097.0;

/// 2^114: the largest magnitude that is split; beyond, the product overflows.
const SPLIT: f32 = 2.076_918_7e34;

/// 2^127: no half of a finite number reaches it, and its double overflows to infinity.
pub(crate) const HALF_OF_INFINITY: f32 = 1.701_411_8e38;

impl Lower<'_> {
    /// Lets the following layers of the node compute in float32 on runtimes of half precision.
    pub fn compute_in_float32(&self) {
        self.state_mut().float32 = true;
    }

    /// Lets the following layers of the node compute in the precision of its outputs, although the node reads
    /// integers beyond half precision: these layers do not.
    pub fn compute_as_outputs(&self) {
        let mut outputs = self.call.node().outputs.iter().flatten();
        let is_precise = outputs.any(|id| self.state().precise_values.contains(*id));
        self.state_mut().float32 = is_precise;
    }

    /// Returns the blob with at most three axes.
    pub fn as_3d(&self, x: BlobId) -> Result<BlobId> {
        match self.form(x).as_slice() {
            [c, d, h, w] => {
                let form = [c.clone(), d * h, w.clone()];
                self.reshape(x, &form)
            }
            _ => Ok(x),
        }
    }

    /// Emits a power of numbers in `range`. Power is not vectorized, so it is right for 0 and infinity too.
    /// It adds its shift to its bottom: -0, whose odd negative powers are negative, stays only with a shift
    /// of -0.
    pub fn power(&self, x: BlobId, power: f32, range: Range) -> Result<BlobId> {
        let is_odd = power % 2.0 == 1.0 || power % 2.0 == -1.0;
        let shift = if is_odd && power < 0.0 && range.least < 0.0 { -0.0 } else { 0.0 };
        self.map(Power { power, shift, ..Power::default() }, x)
    }

    /// Emits half of `x`, with infinities replaced by 2^127: a product of an infinity with 0 would be NaN. Of
    /// sums with a single weight of 1, the double is the element, infinities included.
    pub fn bounded_half(&self, x: BlobId) -> Result<BlobId> {
        // The bound is infinite in half precision.
        self.compute_in_float32();
        self.compute((x * 0.5).clip(-HALF_OF_INFINITY, HALF_OF_INFINITY))
    }

    /// Emits `y`, and NaN where `x` is NaN: minima and maxima may drop it.
    pub fn keep_nan(&self, x: BlobId, y: BlobId) -> Result<BlobId> {
        let is_nan = self.compute(!x.abs().greater(-1.0))?;
        self.set_nan(is_nan, y)
    }

    /// Emits `y`, and NaN where `truth` is 1.
    pub fn set_nan(&self, truth: BlobId, y: BlobId) -> Result<BlobId> {
        let nothing = self.nan_where(truth)?;
        self.compute(y + nothing)
    }

    /// Emits NaN where `truth` is 1, otherwise 0.
    pub fn nan_where(&self, truth: BlobId) -> Result<BlobId> {
        self.compute_in_float32();
        // Zero times infinity is NaN.
        self.compute(truth * f32::MAX * f32::MAX * 0.0)
    }

    /// Emits +inf where a condition, input `index` as a blob, is 1 and -inf where it is 0, and the negation:
    /// once for all readers of the condition.
    pub fn infinities(&self, index: usize, condition: BlobId) -> Result<[BlobId; 2]> {
        if let Some(tensor) = self.constant(index) {
            let limits = |limit: f32| {
                let shape = tensor.shape().to_vec();
                let limits = Tensor::deferred(DType::F32, shape, vec![tensor.clone()], move |inputs| {
                    let truth = inputs.at(0)?.to_f32()?;
                    Ok(Array::f32(truth.mapv(|c| if c == 0.0 { -limit } else { limit })))
                });
                self.memory_data(&limits?, &self.form(condition))
            };
            return Ok([limits(f32::INFINITY)?, limits(f32::NEG_INFINITY)?]);
        }
        if let Some(made) = self.state().infinities.get(&condition) {
            return Ok(*made);
        }
        // The factors are infinite in half precision, and their product in float32.
        let pass = self.compute((condition - 0.5) * f32::MAX * f32::MAX)?;
        let made = [pass, self.compute(-pass)?];
        self.state_mut().infinities.insert(condition, made);
        Ok(made)
    }

    /// Wraps the result of integer arithmetic to a type of 8 or 16 bits. Wider types are assumed not to
    /// overflow: float32 represents integers up to 2^24 exactly.
    pub fn wrap(&self, x: impl Into<Formula>, dtype: DType) -> Result<BlobId> {
        let x = self.compute(x)?;
        if !dtype.is_narrow_int() {
            return Ok(x);
        }
        self.compute_in_float32();
        let range = 2_f32.powi(i32::try_from(dtype.bits())?);
        let shifted = if dtype.is_unsigned() { x.into() } else { x + range / 2.0 };
        self.compute(x - (shifted * (1.0 / range)).floor() * range)
    }

    /// Emits the correctly rounded quotient: the approximate one, plus the quotient of the remainder `a - q *
    /// b`. The factors are split into parts whose products are exact (T. J. Dekker, Numerische Mathematik 18,
    /// 1971).
    pub fn exact_quotient(&self, a: ScalarOrBlob, b: ScalarOrBlob) -> Result<BlobId> {
        self.compute_in_float32();
        let quotient = self.compute(a / b)?;
        // Above this every quotient is an integer, and infinities cannot be split.
        let bounded = self.compute(quotient.clip(-INTEGERS, INTEGERS))?;
        let rest = self.minus_product(a, bounded, b)?;
        self.compute(quotient + (rest / b).clip(-2.0, 2.0))
    }

    /// Emits `a - x * y`, exact if that is small.
    pub fn minus_product(&self, a: ScalarOrBlob, x: BlobId, y: ScalarOrBlob) -> Result<ScalarOrBlob> {
        self.compute_in_float32();
        let (upper, lower) = self.halves(ScalarOrBlob::Blob(x))?;
        let (y_upper, y_lower) = self.halves(y)?;
        let mut rest = a;
        for (x, y) in [(upper, y_upper), (lower, y_upper), (upper, y_lower), (lower, y_lower)] {
            if y != ScalarOrBlob::Number(0.0) {
                rest = self.side(rest - x * y)?;
            }
        }
        Ok(rest)
    }

    /// Rounds to `digits` binary digits, ties to even (Veltkamp's splitting: T. J. Dekker, Numerische
    /// Mathematik 18, 1971), for magnitudes up to `2^(103 + digits)`.
    pub fn round_digits(&self, x: BlobId, digits: u8) -> Result<BlobId> {
        self.compute_in_float32();
        let splitter = 2_f32.powi(24 - i32::from(digits)) + 1.0;
        let scaled = self.compute(x * splitter)?;
        self.compute(scaled - (scaled - x))
    }

    /// Splits a number into a sum of two with half as many digits; above [`SPLIT`] the first is the number.
    fn halves(&self, x: ScalarOrBlob) -> Result<(ScalarOrBlob, ScalarOrBlob)> {
        let x = match x {
            ScalarOrBlob::Number(x) => {
                let bounded = x.clamp(-SPLIT, SPLIT);
                let scaled = bounded * SPLITTER;
                let upper = scaled - (scaled - bounded);
                return Ok((ScalarOrBlob::Number(upper), ScalarOrBlob::Number(x - upper)));
            }
            ScalarOrBlob::Blob(x) => x,
        };
        let bounded = self.compute(x.clip(-SPLIT, SPLIT))?;
        let upper = self.round_digits(bounded, 12)?;
        let lower = self.compute(x - upper)?;
        Ok((ScalarOrBlob::Blob(upper), ScalarOrBlob::Blob(lower)))
    }

    /// Returns whether the dividends, input 0, are below 2^20: a nudged quotient is exact.
    pub fn has_short_quotients(&self) -> bool {
        self.range(0).abs().most < 1_048_576.0
    }

    /// Emits the quotient of integers up to 2^24 in magnitude, truncated, and the remainder; both are exact.
    ///
    /// Quotients of float32 are decreased by more than the error of a division, so `q * b` does not exceed
    /// `a`, and is exact. The second quotient, of the remainder, misses at most one.
    pub fn divide_integers(&self, a: ScalarOrBlob, b: ScalarOrBlob) -> Result<(BlobId, BlobId)> {
        self.compute_in_float32();
        if let ScalarOrBlob::Number(by) = b
            && is_power_of_two(by)
        {
            let quotient = self.compute((a * (1.0 / by)).trunc())?;
            return Ok((quotient, self.compute(a - quotient * b)?));
        }
        let first = self.compute((a / b * DECREASE).trunc())?;
        let rest = self.compute(a - first * b)?;
        let second = self.compute((rest / b * DECREASE).trunc())?;
        let rest = self.compute(rest - second * b)?;
        let quotient = self.compute(first + second)?;
        // 1 where the remainder is not smaller than the divisor, with the sign of their quotient.
        let missed = self.compute((rest.abs() - b.abs()).greater(-0.5))?;
        let missed = self.compute((rest / b * 2.0).clip(-1.0, 1.0) * missed)?;
        Ok((self.compute(quotient + missed)?, self.compute(rest - missed * b)?))
    }
}

/// Returns the float32 quotient of integers, increased by less than any remainder: truncated, it is exact for
/// dividends below 2^20.
pub(crate) fn nudged_quotient(a: ScalarOrBlob, b: ScalarOrBlob) -> Formula {
    a / b * NUDGE
}

/// Returns whether products with the reciprocal are exact quotients.
pub(crate) fn is_power_of_two(x: f32) -> bool {
    let digits = x.to_bits() << (32 - f32::MANTISSA_DIGITS + 1);
    digits == 0 && (1.0 / x).is_normal()
}
