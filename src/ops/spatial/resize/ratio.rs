//! Scales that are quotients of small integers.

use num_traits::AsPrimitive;

use crate::tensor::Dim;

/// The largest divisor.
const MAX_DIVISOR: i64 = 1 << 10;
/// The largest dividend.
const MAX_DIVIDEND: f32 = 1e9;
/// The largest size for which the rounding of a product is checked.
const MAX_TRIED: i64 = 1 << 14;

/// A scale that turns each `from` elements into `to`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Ratio {
    pub to: i64,
    pub from: i64,
}

impl Ratio {
    /// Returns the quotient of the least integers that float32 rounds to `scale`, if sizes times `scale` in
    /// float32 are rounded down as their products with the quotient.
    pub fn of(scale: f32) -> Option<Ratio> {
        let ratio = |from: i64| {
            let divisor: f32 = from.as_();
            let to = (scale * divisor).round();
            let is_scale = (1.0..=MAX_DIVIDEND).contains(&to) && (to / divisor).to_bits() == scale.to_bits();
            is_scale.then(|| Ratio { to: to.as_(), from })
        };
        let ratio = (1..=MAX_DIVISOR).find_map(ratio)?;
        let is_exact = |size: i64| {
            let size_f: f32 = size.as_();
            let product: i64 = (size_f * scale).floor().as_();
            product == ratio.output_of(size)
        };
        (1..=MAX_TRIED).all(is_exact).then_some(ratio)
    }

    /// Returns the output size for an input size.
    pub fn output_of(self, size: i64) -> i64 {
        size.saturating_mul(self.to).div_euclid(self.from)
    }

    /// Returns the output size for a free input size.
    pub fn output(self, size: &Dim) -> Dim {
        (size * self.to).floor_div(self.from)
    }

    /// Returns the number of blocks of `from` elements that cover an axis.
    pub fn blocks_of(self, size: i64) -> i64 {
        size.saturating_add(self.from - 1).div_euclid(self.from)
    }

    /// Returns the number of blocks that cover an axis of free size.
    pub fn blocks(self, size: &Dim) -> Dim {
        size.ceil_div(self.from)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scales_are_quotients_of_the_least_integers() {
        for (scale, to, from) in
            [(2.5, 5, 2), (0.75, 3, 4), (1.0 / 3.0, 1, 3), (1.2, 6, 5), (3.0, 3, 1), (0.7, 7, 10)]
        {
            assert_eq!(Ratio::of(scale), Some(Ratio { to, from }), "{scale}");
        }
        assert_eq!(Ratio::of(std::f32::consts::PI), None);
        assert_eq!(Ratio::of(1e-6), None);
    }
}
