//! Quotients of floats.
//!
//! A vectorized division on x86 multiplies by an estimate of the reciprocal, so it is NaN for a divisor that
//! is zero or infinite. An infinite divisor is replaced by the largest finite number, whose reciprocal counts
//! as 0. A zero is replaced by 1 or, if it is negative, -1, and the quotient is multiplied by infinity. The
//! layers for that are vectorized, and take about as long as two further divisions.

use super::{Lower, Operand, ScalarOrBlob};
use crate::error::Result;
use crate::ncnn::BlobId;
use crate::ncnn::layer::binary_op;
use crate::op::element_count;
use crate::tensor::Range;

/// The number of divisors up to which a layer of exact reciprocals, which is not vectorized, takes less time
/// than the layers that avoid it.
const FEW_DIVISORS: u64 = 1 << 9;

/// The square of the exponential of this number is infinite in float32.
const FAR: f32 = 88.0;

/// The quotient at elements at which the divisor is 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OverZero {
    /// An infinity, or NaN for 0 / 0.
    Exact,
    /// An infinity, or 0 for 0 / 0: a reader may drop such elements, which must not be NaN then.
    NeverNan,
    /// Any number: each reader drops these elements.
    Dropped,
}

impl Lower<'_> {
    /// Returns whether a layer may divide by input `index`: no element is zero or infinite.
    pub fn may_divide_by(&self, index: usize) -> bool {
        is_plain(self.range(index))
    }

    /// Emits the quotients by the elements of input `index`, also by those that are zero or infinite; `by` is
    /// their blob.
    pub fn quotient(&self, a: ScalarOrBlob, by: BlobId, index: usize, over_zero: OverZero) -> Result<BlobId> {
        let range = self.range(index);
        if is_plain(range) {
            return self.ratio(a, by);
        }
        let is_few = element_count(&self.form(by)).is_some_and(|count| count <= FEW_DIVISORS);
        if is_few && over_zero == OverZero::Exact && !self.feeds_discontinuity() {
            let factor = self.power(by, -1.0, range)?;
            return if a == ScalarOrBlob::Number(1.0) { Ok(factor) } else { self.compute(a * factor) };
        }
        let finite = if range.is_finite() { by } else { self.compute(by.clip(f32::MIN, f32::MAX))? };
        if range.excludes_zero() {
            // Clip gives a number for NaN.
            self.need_finite(index);
            return self.ratio(a, finite);
        }
        // NaN counts as zero here, and so stays NaN.
        let zero = self.compute(!by.nonzero())?;
        let is_signed = range.least < 0.0 && over_zero != OverZero::Dropped;
        let side = if is_signed { self.sign_of_zero(by, zero)? } else { zero };
        let divisor = self.compute(finite + side)?;
        let ratio = self.ratio(a, divisor)?;
        match over_zero {
            OverZero::Dropped => Ok(ratio),
            OverZero::Exact => self.compute(ratio * (zero * FAR).exp().square()),
            OverZero::NeverNan => {
                // The factor is infinite in half precision, and its product with 0 NaN.
                self.compute_in_float32();
                self.compute(ratio + ratio * zero * f32::MAX * f32::MAX)
            }
        }
    }

    /// Emits the quotients by numbers that are neither zero nor infinite.
    fn ratio(&self, a: ScalarOrBlob, by: BlobId) -> Result<BlobId> {
        if self.feeds_discontinuity() {
            return self.exact_quotient(a, ScalarOrBlob::Blob(by));
        }
        self.compute(a / by)
    }

    /// Emits 1 or -1, the sign of `x`, where `x` is zero, and 0 elsewhere. Only one of the vectorized
    /// functions reads the sign of a zero: the arctangent of two arguments, which is 0 or pi for `0 / x`
    /// (`sse_mathfun.h`, atan2_ps).
    fn sign_of_zero(&self, x: BlobId, zero: BlobId) -> Result<BlobId> {
        self.compute(zero * x.with(binary_op::RATAN2, 0.0).cos())
    }
}

fn is_plain(range: Range) -> bool {
    range.excludes_zero() && range.is_finite()
}
