//! Float32 constants with which separate products and sums round every value, and every pair of values, as
//! onnxruntime's kernels do.
//!
//! The two computations differ only in the last bits of values about halfway between two steps, so constants
//! next to the exact ones give the results of the kernel. The candidates are few enough to try on all values.

use num_traits::AsPrimitive;

use super::level::Target;

/// The number of neighbours of a float that are tried on either side.
const NEIGHBOURS: i32 = 24;

/// The maximum number of levels that are enumerated: the levels of 16 bits.
const MAX_LEVELS: i64 = 1 << 16;

/// The number of candidates for each of two ratios.
const RATIOS: usize = 9;

/// The maximum number of corrected pairs. Ratios of few digits have many sums exactly halfway between two
/// steps; the ratios of networks have about one.
const MAX_EXCEPTIONS: usize = 8;

/// The distance from halfway between two steps within which a sum is examined. It exceeds by far the last
/// bits and the change of the constants.
const NEAR: f64 = 1e-3;

fn round_within(value: f32, low: i64, high: i64) -> i64 {
    AsPrimitive::<i64>::as_(value.round_ties_even()).clamp(low, high)
}

/// The quotient `(level * from) / to`, which one product replaces.
pub(super) struct Line {
    /// `from` and `to`.
    pub scales: [f32; 2],
    /// The bounds of the levels.
    pub bounds: (i64, i64),
    pub target: Target,
}

impl Line {
    /// Returns a factor that rounds every level as the quotient does, if there is one.
    pub fn solve(&self) -> Option<f32> {
        let [from, to] = self.scales;
        if self.bounds.1.saturating_sub(self.bounds.0) > MAX_LEVELS {
            return None;
        }
        let Target { zero, low, high, .. } = self.target;
        let round = |value: f32| round_within(value, low - zero, high - zero);
        let fits = |factor: &f32| {
            (self.bounds.0..=self.bounds.1).all(|level| {
                let level: f32 = level.as_();
                round(level * factor) == round((level * from) / to)
            })
        };
        neighbours(from / to).find(fits)
    }
}

/// The sum of two bytes in the scale of the result, `ratio_a * a + (ratio_b * b + rest)`, with fused
/// multiply-add.
pub(super) struct Plane {
    /// The scales of both operands over the scale of the result.
    pub ratios: [f32; 2],
    pub zeros: [i64; 2],
    /// The bounds of the levels of both operands.
    pub bounds: [(i64, i64); 2],
    pub target: Target,
}

/// The constants of a sum of separate products.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Solution {
    pub ratios: [f32; 2],
    pub zero: f32,
    pub first: First,
}

/// A pair of levels whose value needs a correction.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Exception {
    /// The levels of both operands.
    pub at: [i64; 2],
    /// The correction.
    pub by: i64,
}

/// The two terms that are added first, of two products and the zero point.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum First {
    /// Both products.
    Products,
    /// The first product and the zero point.
    A,
    /// The second product and the zero point.
    B,
}

impl Solution {
    fn sum(&self, at: [i64; 2]) -> f32 {
        let [a, b]: [f32; 2] = at.map(AsPrimitive::as_);
        let [a, b] = [a * self.ratios[0], b * self.ratios[1]];
        match self.first {
            First::Products => (a + b) + self.zero,
            First::A => (a + self.zero) + b,
            First::B => (b + self.zero) + a,
        }
    }
}

impl Plane {
    /// Returns the constants with the fewest exceptions, mostly none.
    pub fn solve(&self) -> (Solution, Vec<Exception>) {
        let zero: f32 = self.target.zero.as_();
        let expected = self.undecided();
        // The zero point changes by fractions of the last bit of the largest value, the ratios by their last
        // bits.
        let unit = f32::EPSILON * 32.0;
        let mut best = (usize::MAX, Solution { ratios: self.ratios, zero, first: First::Products });
        for step in alternating(NEIGHBOURS) {
            let zero = zero + AsPrimitive::<f32>::as_(step) * unit;
            for first in [First::Products, First::A, First::B] {
                for ratios in pairs_near(self.ratios) {
                    let candidate = Solution { ratios, zero, first };
                    let misses = self.misses(candidate, &expected, best.0);
                    if misses < best.0 {
                        best = (misses, candidate);
                    }
                    if misses == 0 {
                        return (candidate, Vec::new());
                    }
                }
            }
        }
        let exception =
            |(at, value): &([i64; 2], i64)| Exception { at: *at, by: value - self.round(best.1.sum(*at)) };
        let exceptions = expected.iter().map(exception).filter(|exception| exception.by != 0);
        (best.1, exceptions.take(MAX_EXCEPTIONS).collect())
    }

    /// Returns the value of the kernel for each pair whose sum is about halfway between two steps. Last bits
    /// do not affect the others.
    fn undecided(&self) -> Vec<([i64; 2], i64)> {
        let [(a_low, a_high), (b_low, b_high)] = self.bounds;
        let [ratio_a, ratio_b]: [f64; 2] = self.ratios.map(f64::from);
        let mut pairs = Vec::new();
        for at in (a_low..=a_high).flat_map(|a| (b_low..=b_high).map(move |b| [a, b])) {
            let [a, b]: [f64; 2] = at.map(AsPrimitive::as_);
            let sum = a * ratio_a + b * ratio_b;
            if ((sum - sum.floor()) - 0.5).abs() < NEAR {
                pairs.push((at, self.value(at)));
            }
        }
        pairs
    }

    fn round(&self, value: f32) -> i64 {
        round_within(value, self.target.low, self.target.high)
    }

    /// Returns the value of the kernel.
    fn value(&self, [a, b]: [i64; 2]) -> i64 {
        let [ratio_a, ratio_b] = self.ratios;
        let [zero_a, zero_b]: [f32; 2] = self.zeros.map(AsPrimitive::as_);
        let zero: f32 = self.target.zero.as_();
        // The compiler fuses one of these products with the sum.
        let rest = zero - libm::fmaf(ratio_a, zero_a, ratio_b * zero_b);
        let (a, b): (f32, f32) = ((a + self.zeros[0]).as_(), (b + self.zeros[1]).as_());
        self.round(libm::fmaf(a, ratio_a, libm::fmaf(b, ratio_b, rest)))
    }

    /// Counts the pairs for which a solution differs from the kernel, up to `most`.
    fn misses(&self, solution: Solution, expected: &[([i64; 2], i64)], most: usize) -> usize {
        let differs = |(at, value): &&([i64; 2], i64)| self.round(solution.sum(*at)) != *value;
        expected.iter().filter(differs).take(most).count()
    }
}

/// Returns 0, 1, -1, 2, -2 and so on.
fn alternating(count: i32) -> impl Iterator<Item = i32> {
    (0..=2 * count).map(|index| if index % 2 == 0 { -(index / 2) } else { index / 2 + 1 })
}

/// Returns the pairs of two floats and their neighbours.
fn pairs_near([a, b]: [f32; 2]) -> impl Iterator<Item = [f32; 2]> {
    neighbours(a).take(RATIOS).flat_map(move |a| neighbours(b).take(RATIOS).map(move |b| [a, b]))
}

/// Returns a positive float and its neighbours, nearest first.
fn neighbours(number: f32) -> impl Iterator<Item = f32> {
    let bits: i64 = number.to_bits().into();
    alternating(NEIGHBOURS).filter_map(move |step| {
        let near = u32::try_from(bits + i64::from(step)).ok().map(f32::from_bits);
        near.filter(|near| near.is_normal())
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tensor::DType;

    #[test]
    fn a_product_replaces_a_quotient() {
        let target = Target::new(DType::U8, 3).unwrap();
        for (from, to) in [(0.02, 0.03), (0.017_3, 0.017_9), (0.25, 0.5)] {
            let line = Line { scales: [from, to], bounds: (-128, 127), target };
            assert!(line.solve().is_some(), "{from} {to}");
        }
    }

    #[test]
    fn separate_sums_replace_fused_ones() {
        let target = Target::new(DType::U8, 114).unwrap();
        let mut seed = 1_u32;
        let mut draw = || {
            seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            let drawn: f32 = (seed >> 8).as_();
            drawn / 11_000_000.0 + 0.02
        };
        let mut ratios = vec![[0.031, 1.219], [0.904, 0.782], [0.5, 0.5], [1.0, 1.0]];
        ratios.extend((0..40).map(|_| [draw(), draw()]));
        for ratios in ratios {
            let plane = Plane { ratios, zeros: [121, 130], bounds: [(-121, 134), (-130, 125)], target };
            let (solution, exceptions) = plane.solve();
            assert!(exceptions.len() < MAX_EXCEPTIONS, "{ratios:?}: {exceptions:?}");
            for at in (-121..=134).flat_map(|a| (-130..=125).map(move |b| [a, b])) {
                let by = exceptions.iter().find(|e| e.at == at).map_or(0, |e| e.by);
                assert_eq!(plane.round(solution.sum(at)) + by, plane.value(at), "{ratios:?} {at:?}");
            }
        }
    }
}
