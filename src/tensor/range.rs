//! The interval of the elements of a value.

use super::{DType, Tensor};
use crate::common::limits;

/// Bounds of the elements that are numbers; NaN is not excluded. Elements may be infinite if a bound is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Range {
    pub least: f64,
    pub most: f64,
}

impl Range {
    /// Any float.
    pub const ANY: Range = Range { least: f64::NEG_INFINITY, most: f64::INFINITY };
    /// Any float that is not negative.
    pub const NOT_NEGATIVE: Range = Range { least: 0.0, most: f64::INFINITY };
    /// From 0 to 1.
    pub const UNIT: Range = Range { least: 0.0, most: 1.0 };

    /// The integers between which float32 represents all.
    pub const EXACT_INTEGERS: Range = Range { least: -16_777_216.0, most: 16_777_216.0 };

    /// Positions on axes, and differences of them. An axis has fewer elements than float32 counts, so the sum
    /// of a position and a small offset is exact.
    pub const POSITIONS: Range = Range { least: -16_711_680.0, most: 16_711_680.0 };

    /// Creates a range of float32. Bounds beyond its largest number are infinite, and those closer to 0 than
    /// its least normal number are 0, to which the runtime flushes them. NaN for a bound, such as the sum of
    /// two infinities, excludes nothing.
    pub fn new(least: f64, most: f64) -> Range {
        let (largest, normal) = (f64::from(f32::MAX), f64::from(f32::MIN_POSITIVE));
        let least = match least {
            least if least.is_nan() || least < -largest => f64::NEG_INFINITY,
            least if (0.0..normal).contains(&least) => 0.0,
            least => least,
        };
        let most = match most {
            most if most.is_nan() || most > largest => f64::INFINITY,
            most if (0.0..normal).contains(&-most) => 0.0,
            most => most,
        };
        Range { least, most }
    }

    /// Returns the range of an element type.
    pub fn of(dtype: DType) -> Range {
        match dtype.int_range() {
            _ if dtype == DType::Bool => Range::UNIT,
            // Powers of 2.
            _ if dtype == DType::F8E8M0 => Range::NOT_NEGATIVE,
            Some((least, most)) => {
                use num_traits::AsPrimitive;
                Range::new(least.as_(), most.as_())
            }
            None => Range::ANY,
        }
    }

    /// Returns the range of a constant, or of its type if it is long or has NaN.
    pub fn of_tensor(tensor: &Tensor) -> Range {
        let looked_at =
            Some(tensor).filter(|tensor| tensor.len() <= limits::LOOKED_AT && !tensor.is_deferred());
        let Some(array) = looked_at.and_then(|tensor| tensor.load_listed().ok()) else {
            return Range::of(tensor.dtype());
        };
        let mut range = Range { least: f64::INFINITY, most: f64::NEG_INFINITY };
        let are_numbers = array.all_numbers(|x| {
            range = Range { least: range.least.min(x), most: range.most.max(x) };
            !x.is_nan()
        });
        if !are_numbers {
            return Range::of(tensor.dtype());
        }
        Range::new(range.least, range.most)
    }

    /// Returns the smallest range that contains both.
    pub fn union(self, other: Range) -> Range {
        Range { least: self.least.min(other.least), most: self.most.max(other.most) }
    }

    /// Returns the range of the larger of two elements.
    pub fn maximum(self, other: Range) -> Range {
        Range { least: self.least.max(other.least), most: self.most.max(other.most) }
    }

    /// Returns the range of the smaller of two elements.
    pub fn minimum(self, other: Range) -> Range {
        Range { least: self.least.min(other.least), most: self.most.min(other.most) }
    }

    /// Returns the range of a function that does not decrease.
    pub fn map(self, rising: impl Fn(f64) -> f64) -> Range {
        Range::new(rising(self.least), rising(self.most))
    }

    /// Returns the range of the negated elements.
    pub fn negated(self) -> Range {
        Range { least: -self.most, most: -self.least }
    }

    /// Returns the range of the magnitudes.
    pub fn abs(self) -> Range {
        let negated = self.negated();
        Range { least: self.least.max(negated.least).max(0.0), most: self.most.max(negated.most) }
    }

    /// Returns the range of sums.
    pub fn plus(self, other: Range) -> Range {
        Range::new(self.least + other.least, self.most + other.most)
    }

    /// Returns the range of the mean of elements, which is computed from their sum: that may overflow.
    pub fn averaged(self, sum: Range) -> Range {
        if sum.is_finite() { self } else { self.union(sum) }
    }

    /// Returns the range of products.
    pub fn times(self, other: Range) -> Range {
        let corners = [
            self.least * other.least,
            self.least * other.most,
            self.most * other.least,
            self.most * other.most,
        ];
        if corners.iter().any(|corner| corner.is_nan()) {
            return Range::ANY;
        }
        Range::new(
            corners.iter().copied().fold(f64::INFINITY, f64::min),
            corners.iter().copied().fold(f64::NEG_INFINITY, f64::max),
        )
    }

    /// Returns whether another range lies in this one.
    pub fn contains(self, other: Range) -> bool {
        self.least <= other.least && other.most <= self.most
    }

    /// Returns whether no element is infinite.
    pub fn is_finite(self) -> bool {
        self.least.is_finite() && self.most.is_finite()
    }

    /// Returns whether all elements are the same number.
    pub fn is_one_number(self) -> bool {
        self.is_finite() && self.least == self.most
    }

    /// Returns whether no element is 0.
    pub fn excludes_zero(self) -> bool {
        self.least > 0.0 || self.most < 0.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn range() -> impl Strategy<Value = (Range, f64)> {
        let end = prop_oneof![Just(f64::INFINITY), Just(f64::NEG_INFINITY), Just(0.0), -1e3..1e3];
        (end.clone(), end, 0.0..=1.0).prop_map(|(a, b, part)| {
            let range = Range { least: a.min(b), most: a.max(b) };
            let inside: f64 = range.least.max(-1e30) * (1.0 - part) + range.most.min(1e30) * part;
            (range, inside.clamp(range.least, range.most))
        })
    }

    proptest! {
        #[test]
        fn results_lie_in_their_range((a, x) in range(), (b, y) in range()) {
            for (range, result) in [
                (a.plus(b), x + y),
                (a.times(b), x * y),
                (a.maximum(b), x.max(y)),
                (a.minimum(b), x.min(y)),
                (a.union(b), x),
                (a.union(b).averaged(a.plus(b)), (x + y) / 2.0),
                (a.abs(), x.abs()),
                (a.negated(), -x),
                (a.map(libm::exp), libm::exp(x)),
            ] {
                prop_assert!(result.is_nan() || range.least <= result && result <= range.most, "{range:?} {result}");
            }
        }
    }

    #[test]
    fn bounds_beyond_float32_are_infinite() {
        assert!(!Range::new(0.0, 1e39).is_finite());
        assert!(Range::new(-3e38, 3e38).is_finite());
        assert!(!Range::new(-100.0, 1.0).map(libm::exp).excludes_zero());
        assert_eq!(Range::of(DType::U8), Range::new(0.0, 255.0));
    }
}
