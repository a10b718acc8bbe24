//! Numbers for which float arithmetic rounds every byte, and every pair of bytes, as onnxruntime's kernels do.
//!
//! There are so few that all are tried. Where two ways of computing differ, they differ in the last bits of a value in the middle
//! between two steps, and a neighbour of the number moves that.

use num_traits::AsPrimitive;

use super::level::Target;

/// How many neighbours of a number are tried on either side.
const NEIGHBOURS: i32 = 24;

/// Most levels that are all tried: those of 16 bits.
const MAX_LEVELS: i64 = 1 << 16;

/// How many numbers are tried for each of two ratios.
const RATIOS: usize = 9;

/// Most pairs that are given other values. Ratios of few digits have many sums exactly in the middle between two steps; those of
/// networks have about one.
const MAX_EXCEPTIONS: usize = 8;

/// How near to the middle between two steps a sum is looked at: last bits are far smaller, and so is what the numbers are moved by.
const NEAR: f64 = 1e-3;

/// One product for the quotient `(level * from) / to`.
pub(super) struct Line {
    /// The steps from which and to which.
    pub scales: [f32; 2],
    /// The bounds of the levels.
    pub bounds: (i64, i64),
    pub target: Target,
}

impl Line {
    /// The factor that gives all levels of the target, where there is one.
    pub fn solve(&self) -> Option<f32> {
        let [from, to] = self.scales;
        if self.bounds.1.saturating_sub(self.bounds.0) > MAX_LEVELS {
            return None;
        }
        let (low, high) = (self.target.low - self.target.zero, self.target.high - self.target.zero);
        let held =
            |number: f32| -> i64 { AsPrimitive::<i64>::as_(number.round_ties_even()).clamp(low, high) };
        let fits = |factor: &f32| {
            (self.bounds.0..=self.bounds.1).all(|level| {
                let level: f32 = level.as_();
                held(level * factor) == held((level * from) / to)
            })
        };
        neighbours(from / to).find(fits)
    }
}

/// A sum of two bytes in steps of the result: `ratio_a * a + (ratio_b * b + rest)`, both products fused with their sums.
pub(super) struct Plane {
    /// The steps of both over that of the result.
    pub ratios: [f32; 2],
    pub zeros: [i64; 2],
    /// The bounds of the levels of both.
    pub bounds: [(i64, i64); 2],
    pub target: Target,
}

/// What levels are multiplied with, and what is added to the sum.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Solution {
    pub ratios: [f32; 2],
    pub zero: f32,
    /// What the zero point is added to.
    pub first: First,
}

/// A pair for which the value is another one.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Exception {
    /// The levels of both.
    pub at: [i64; 2],
    /// What is added to the value.
    pub by: i64,
}

/// The order in which two products and the zero point are added up.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum First {
    /// Both products first.
    Products,
    /// The first product and the zero point first.
    A,
    /// The second product and the zero point first.
    B,
}

impl Solution {
    fn sum(&self, a: f32, b: f32) -> f32 {
        let [a, b] = [a * self.ratios[0], b * self.ratios[1]];
        match self.first {
            First::Products => (a + b) + self.zero,
            First::A => (a + self.zero) + b,
            First::B => (b + self.zero) + a,
        }
    }
}

impl Plane {
    /// What gives the values of the kernel for all pairs but some exceptions; mostly there are none.
    pub fn solve(&self) -> (Solution, Vec<Exception>) {
        let zero: f32 = self.target.zero.as_();
        let wanted = self.undecided();
        // The zero point is moved by parts of the last bit of the largest value, the ratios by their own last bits.
        let unit = f32::EPSILON * 32.0;
        let mut best = (usize::MAX, Solution { ratios: self.ratios, zero, first: First::Products });
        for step in alternating(NEIGHBOURS) {
            let zero = zero + AsPrimitive::<f32>::as_(step) * unit;
            for first in [First::Products, First::A, First::B] {
                for ratios in pairs_near(self.ratios) {
                    let tried = Solution { ratios, zero, first };
                    let misses = self.misses(tried, &wanted, best.0);
                    if misses < best.0 {
                        best = (misses, tried);
                    }
                    if misses == 0 {
                        return (tried, Vec::new());
                    }
                }
            }
        }
        let exception = |(at, value): &([i64; 2], i64)| {
            let [a, b]: [f32; 2] = at.map(AsPrimitive::as_);
            Exception { at: *at, by: value - self.held(best.1.sum(a, b)) }
        };
        let exceptions = wanted.iter().map(exception).filter(|exception| exception.by != 0);
        (best.1, exceptions.take(MAX_EXCEPTIONS).collect())
    }

    /// The value of the kernel for each pair whose sum is near the middle between two steps. Elsewhere no last bit decides.
    fn undecided(&self) -> Vec<([i64; 2], i64)> {
        let [(a_low, a_high), (b_low, b_high)] = self.bounds;
        let [ratio_a, ratio_b]: [f64; 2] = self.ratios.map(f64::from);
        let mut pairs = Vec::new();
        for a in a_low..=a_high {
            for b in b_low..=b_high {
                let (a_number, b_number): (f64, f64) = (a.as_(), b.as_());
                let sum = a_number * ratio_a + b_number * ratio_b;
                if ((sum - sum.floor()) - 0.5).abs() < NEAR {
                    pairs.push(([a, b], self.value(a, b)));
                }
            }
        }
        pairs
    }

    fn held(&self, number: f32) -> i64 {
        AsPrimitive::<i64>::as_(number.round_ties_even()).clamp(self.target.low, self.target.high)
    }

    /// What the kernel gives.
    fn value(&self, a: i64, b: i64) -> i64 {
        let [ratio_a, ratio_b] = self.ratios;
        let [zero_a, zero_b]: [f32; 2] = self.zeros.map(AsPrimitive::as_);
        let zero: f32 = self.target.zero.as_();
        // The compiler fuses one of these products with the sum.
        let rest = zero - ratio_a.mul_add(zero_a, ratio_b * zero_b);
        let (a, b): (f32, f32) = ((a + self.zeros[0]).as_(), (b + self.zeros[1]).as_());
        self.held(a.mul_add(ratio_a, b.mul_add(ratio_b, rest)))
    }

    /// For how many pairs separate products and sums give another value, counted up to a number.
    fn misses(&self, solution: Solution, wanted: &[([i64; 2], i64)], most: usize) -> usize {
        let differs = |(at, value): &&([i64; 2], i64)| {
            let [a, b]: [f32; 2] = at.map(AsPrimitive::as_);
            self.held(solution.sum(a, b)) != *value
        };
        wanted.iter().filter(differs).take(most).count()
    }
}

/// 0, 1, -1, 2, -2 and so on.
fn alternating(count: i32) -> impl Iterator<Item = i32> {
    (0..=2 * count).map(|index| if index % 2 == 0 { -(index / 2) } else { index / 2 + 1 })
}

/// Two numbers and those next to them.
fn pairs_near(numbers: [f32; 2]) -> impl Iterator<Item = [f32; 2]> {
    let [a, b] = numbers;
    neighbours(a).take(RATIOS).flat_map(move |a| neighbours(b).take(RATIOS).map(move |b| [a, b]))
}

/// A positive number and those next to it, nearest first.
fn neighbours(number: f32) -> impl Iterator<Item = f32> {
    let bits: i64 = number.to_bits().into();
    alternating(NEIGHBOURS).filter_map(move |step| {
        let moved = u32::try_from(bits + i64::from(step)).ok().map(f32::from_bits);
        moved.filter(|moved| moved.is_normal())
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tensor::DType;

    #[test]
    fn one_product_gives_what_a_quotient_gives() {
        let target = Target::new(DType::U8, 3).unwrap();
        for (from, to) in [(0.02, 0.03), (0.017_3, 0.017_9), (0.25, 0.5)] {
            let line = Line { scales: [from, to], bounds: (-128, 127), target };
            assert!(line.solve().is_some(), "{from} {to}");
        }
    }

    #[test]
    fn separate_sums_give_what_fused_ones_give() {
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
            for (a, b) in (-121..=134).flat_map(|a| (-130..=125).map(move |b| (a, b))) {
                let (x, y): (f32, f32) = (a.as_(), b.as_());
                let by = exceptions.iter().find(|e| e.at == [a, b]).map_or(0, |e| e.by);
                assert_eq!(plane.held(solution.sum(x, y)) + by, plane.value(a, b), "{ratios:?} {a} {b}");
            }
        }
    }
}
