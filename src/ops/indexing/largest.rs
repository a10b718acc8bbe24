//! Largest, of this program: the `k` largest elements of each row and their indices, equal elements in the
//! order of the indices. Of equal elements the first ones are taken.
//!
//! The k-th largest element is found digit by digit: its sign, the digits of its exponent and of its
//! mantissa, each by comparing all elements with all values of the digit: digits of many bits for few
//! elements, as they take fewer layers, and of few bits for many elements. The number of comparisons grows
//! with the length of a row, not with its square. Elements above the k-th largest are taken, and as many
//! equal to it as are missing. Sums of zeros and ones number them; rows are divided into blocks, and matrices
//! of zeros and ones pick the block of each number and the element in it.
//!
//! If `k` is small, the largest element is taken `k` times, and each time left out of the rest.

use num_traits::AsPrimitive;

use crate::ncnn::layer::{CumulativeSum, MatMul, reduction_op};
use crate::ncnn::{Cost, USUAL_SIZE};
use crate::op::range;
use crate::ops::prelude::*;
use crate::tensor::Border;

pub(in crate::ops) const OPS: &[Row] = &[Row::of(NCNN_DOMAIN, "Largest", Access::Any, infer)
    .lower(lower)
    .keeps_magnitude()
    .range(range::first)
    .further_range(range::positions)
    .lowers_to(
        "Threshold, Reduction: the largest elements, one by one, or the k-th largest, digit by digit; then \
         CumulativeSum, MatMul",
    )];

/// The most bits of a digit.
const DIGIT: u32 = 4;

/// The bits of the exponent of a float, and of its mantissa.
const EXPONENT: u32 = 8;
/// See [`EXPONENT`].
const MANTISSA: u32 = 23;

/// The elements of a block of a row of free size.
const WIDTH_OF_FREE: i64 = 64;

/// The most elements of all rows: each is compared with all values of a digit at once.
pub(super) const MAX_ELEMENTS: i64 = limits::COMPARED >> DIGIT;

/// The elements that take as long as a row, over which layers loop.
const ROW_START: u64 = 64;

/// The elements of a blob that fit into caches: a pass over them takes a quarter of the time.
const CACHED: u64 = 1 << 18;

/// The layers over whole rows that take the largest element of each.
const LAYERS_OF_ONE: u64 = 13;

/// The layers of a digit over the values with which all elements are compared, and over one value for each
/// row.
const LAYERS_OF_DIGIT: [u64; 2] = [3, 10];

/// The layers over whole rows, and over fewer elements, that number and pick the elements from the `k`-th
/// largest on.
const LAYERS_OF_PICKS: [u64; 2] = [25, 45];

/// A bound of the indices in rows whose elements are taken one by one; three times as many are exact in
/// float32.
const INDEX_BOUND: i64 = 1 << 22;

/// Returns the cost of layers over rows; free sizes count as [`USUAL_SIZE`].
pub(super) fn passes(layers: u64, rows: &Dim, size: u64) -> Cost {
    let elements = usual(rows).saturating_mul(size.saturating_add(ROW_START));
    Cost::passes(layers, if elements > CACHED { elements } else { elements / 4 })
}

/// Returns a size, or the number that stands for a free one.
pub(super) fn usual(size: &Dim) -> u64 {
    size.known().unwrap_or(USUAL_SIZE).unsigned_abs()
}

/// Returns the cost of taking the `k` largest elements of each row.
pub(super) fn cost(rows: &Dim, size: &Dim, k: i64) -> Cost {
    fastest(rows, size, k).0
}

/// How the largest elements are taken.
enum Way {
    OneByOne,
    /// From the `k`-th largest on, which is found by digits of so many bits.
    Digits(u32),
}

/// Returns the way that takes the least time.
fn fastest(rows: &Dim, size: &Dim, k: i64) -> (Cost, Way) {
    let by_digits = |bits| (cost_of_digits(rows, size, bits), Way::Digits(bits));
    let single = || (passes(LAYERS_OF_ONE, rows, usual(size)) * k.unsigned_abs(), Way::OneByOne);
    let is_exact = size.known().is_none_or(|size| size < INDEX_BOUND);
    let others = (1..DIGIT).rev().map(by_digits).chain(is_exact.then(single));
    others.fold(
        by_digits(DIGIT),
        |best, other| {
            if other.0.nanoseconds() < best.0.nanoseconds() { other } else { best }
        },
    )
}

/// Returns the cost of finding the `k`-th largest element of each row by digits of so many bits, and of
/// taking the elements from it on.
fn cost_of_digits(rows: &Dim, size: &Dim, bits: u32) -> Cost {
    let few = |layers: u64| Cost { layers, ..Cost::default() };
    let [[compared, found], [numbered, picked]] = [LAYERS_OF_DIGIT, LAYERS_OF_PICKS];
    let values = (1 << bits) - 1;
    let digit = passes(compared, rows, usual(size).saturating_mul(values)) + few(found);
    let count = u64::from(EXPONENT.div_ceil(bits) + MANTISSA.div_ceil(bits));
    digit * count + passes(numbered, rows, usual(size)) + few(picked)
}

/// The rows, the indices of their elements, and the number of elements that are taken.
struct Rows {
    rows: Dim,
    size: Dim,
    k: i64,
}

fn read_rows(call: &Call) -> Result<Rows> {
    let Ok([rows, size]) = <&[Dim; 2]>::try_from(call.shape(0)?) else {
        unsupported!("rows of other than two axes")
    };
    Ok(Rows { rows: rows.clone(), size: size.clone(), k: call.int("k")? })
}

fn infer(call: &Call) -> Result<Vec<Fact>> {
    let Rows { rows, size, k } = read_rows(call)?;
    call.require(SizeCondition::at_least(&size, k))?;
    let shape = shape![rows, k];
    Ok(vec![Fact::new(call.dtype(0)?, shape.clone()), Fact::new(DType::I64, shape)])
}

fn lower(lower: &Lower) -> Result<()> {
    let rows = read_rows(lower)?;
    lower.compute_in_float32();
    let x = lower.input(0).reshape(rows.shape(1, rows.size.clone())).isolated();
    match fastest(&rows.rows, &rows.size, rows.k).1 {
        Way::OneByOne => rows.pick_one_by_one(lower, x),
        Way::Digits(bits) => rows.pick(lower, x, rows.taken(lower, x, rows.least_taken(lower, x, bits)?)),
    }
}

impl Rows {
    /// Returns the shape of a matrix for each row.
    fn shape(&self, height: impl Into<Dim>, width: impl Into<Dim>) -> [Dim; 3] {
        [self.rows.clone(), height.into(), width.into()]
    }

    /// Takes the largest element of each row `k` times. Weights, which are larger for earlier indices, tell
    /// its index.
    fn pick_one_by_one<'l>(&self, lower: &'l Lower, x: Nd<'l>) -> Result<()> {
        lower.require(SizeCondition::at_most(&self.size, INDEX_BOUND))?;
        let infinite = lower.may_be_infinite(0)?;
        let most: f32 = INDEX_BOUND.as_();
        let mut weights = lower.indices_along(&self.size, 2, 3) * -1.0 + most;
        let mut left = x;
        if infinite {
            // Infinities count as the largest finite numbers, but precede and follow these.
            let (above, below) = (x.compute(|x| x.greater(f32::MAX)), x.compute(|x| x.less(f32::MIN)));
            weights = (above - below) * most + (weights + most);
            left = x.compute(|x| x.minimum(f32::MAX).maximum(f32::MIN));
        }
        let (mut elements, mut found) = (Vec::new(), Vec::new());
        for number in 1..=self.k {
            let element = left.reduce(reduction_op::MAX, &[2]);
            let is_element = left.compute_with(element, |left, element| !(element - left).greater(0.0));
            let candidates = is_element * weights;
            let first = candidates.reduce(reduction_op::MAX, &[2]);
            elements.push(element);
            found.push(first);
            if number < self.k {
                let others =
                    candidates.compute_with(first, |candidate, first| (first - candidate).greater(0.5));
                weights = weights * others;
                left =
                    left.compute_with(others, |left, others| left.minimum((others * 2.0 - 1.0) * f32::MAX));
            }
        }
        let (elements, found) = (lower.join(&elements, 2), lower.join(&found, 2));
        if !infinite {
            lower.give(0, elements)?;
            return lower.give(1, found * -1.0 + most);
        }
        let finite = found.compute(|found| found.greater(most + 0.5));
        let above = found.compute(|found| found.greater(2.0 * most + 0.5));
        lower.give(0, elements * (above - finite + 2.0))?;
        lower.give(1, (above + finite + 1.0) * most - found)
    }

    /// Returns the k-th largest element of each row. Infinities count as the largest finite numbers.
    fn least_taken<'l>(&self, lower: &'l Lower, x: Nd<'l>, bits: u32) -> Result<Nd<'l>> {
        let x = x.compute(|x| x.minimum(f32::MAX).maximum(f32::MIN));
        // At most so many elements are smaller, and so many are larger.
        let most_if_negative: f32 = (self.k - 1).as_();
        let below = x.compute(|x| x.less(0.0)).reduce(reduction_op::SUM, &[2]);
        let (is_negative, most_below) = match self.size.known() {
            Some(size) => {
                let most: f32 = (size - self.k).as_();
                let is_negative = below.compute(|below| below.greater(most + 0.5));
                (is_negative, is_negative * (most_if_negative - most) + (most + 0.5))
            }
            None => {
                let most = lower.scalar(&(&self.size - self.k));
                let is_negative = below.compute_with(most, |below, most| (below - most).greater(0.5));
                (is_negative, is_negative * (most * -1.0 + most_if_negative) + most + 0.5)
            }
        };
        // The k-th largest element is the negative of the k-th smallest of the negatives.
        let sign = is_negative * -2.0 + 1.0;
        let x = x * sign;
        let reached = |values: Nd<'l>| reached(x, values, most_below);

        // The power of two in it; 0 if the element is.
        let exponents = |first: i16, bits: u32, known: u32| {
            (first..1 << bits).map(move |digit| digit << (EXPONENT - known))
        };
        let powers = column(lower, exponents(1, bits, bits).map(|exponent| exp2(exponent - 126)));
        let power = (reached(powers) * powers).reduce(reduction_op::MAX, &[1]);
        let mut power = power.compute(|power| power.maximum(f32::MIN_POSITIVE));
        let mut known = bits;
        for bits in digits_of(EXPONENT - bits, bits) {
            known += bits;
            let powers = column(lower, exponents(0, bits, known).map(exp2));
            // Products that overflow are above all elements.
            let mut factor = (reached(power * powers) * powers).reduce(reduction_op::MAX, &[1]);
            if known < EXPONENT {
                factor = factor.compute(|factor| factor.maximum(1.0));
            }
            power = power * factor;
        }

        let mut found = power;
        let mut digits = 0;
        for bits in digits_of(MANTISSA, bits) {
            digits += bits;
            let unit = exp2(-i16::try_from(digits)?);
            let values = column(lower, (1..1_u16 << bits).map(|digit| f32::from(digit) * unit));
            let digit = reached(found + power * values).reduce(reduction_op::SUM, &[1]);
            found = found + power * (digit * unit);
        }
        Ok(found * sign)
    }

    /// Returns 1 for each element that is taken, else 0: the first `k` of the elements above `least`, equal
    /// to it, and below it. There are `k` in the first two groups, unless `least` replaces an infinity.
    fn taken<'l>(&self, lower: &'l Lower, x: Nd<'l>, least: Nd<'l>) -> Nd<'l> {
        let distance = x - least;
        let above = distance.compute(|distance| distance.greater(0.0));
        let below = distance.compute(|distance| distance.less(0.0));
        let equal = above.compute_with(below, |above, below| !(above + below));
        let groups = lower.join(&[above, equal, below], 1).reshape(self.shape(1, &self.size * 3)).isolated();
        let most: f32 = self.k.as_();
        let counted = groups.map_along(2, |axis| CumulativeSum { axis });
        let counted = counted.compute(|counted| counted.less(most + 0.5));
        let taken = (groups * counted).reshape(self.shape(3, self.size.clone())).isolated();
        taken.reduce(reduction_op::SUM, &[1])
    }

    /// Makes the elements that are taken output 0, and their indices output 1.
    fn pick<'l>(&self, lower: &'l Lower, x: Nd<'l>, taken: Nd<'l>) -> Result<()> {
        let k = self.k;
        let width = self.size.known().map_or(WIDTH_OF_FREE, |size| size.isqrt() + 1);
        let blocks = self.size.ceil_div(width);
        let numbers = lower.indices_along(&Dim::Known(k), 1, 3);
        let count = self.in_whole_blocks(taken, &blocks, width).map_along(2, |axis| CumulativeSum { axis });
        let count = count.reshape(self.shape(blocks.clone(), width)).isolated();
        let last = count.last(2, 1).reshape(self.shape(1, blocks.clone()));
        // The block of a number follows the blocks that end before it, its element the elements before it.
        let block = before(last, numbers);
        let is_block = block.hits_along(2, &blocks);
        let count = lower.layer(MatMul::default(), &[is_block, count], self.shape(k, width));
        let element = before(count, numbers);
        let factor: f32 = width.as_();
        let index = block * factor + element;

        let x = self.in_whole_blocks(x.bounded_half(), &blocks, width).reshape(self.shape(blocks, width));
        let x = lower.layer(MatMul::default(), &[is_block, x], self.shape(k, width));
        let x = (x * element.hits_along(2, &Dim::Known(width))).reduce(reduction_op::SUM, &[2]);
        lower.give(0, x * 2.0)?;
        lower.give(1, index)
    }

    /// Returns rows with zeros up to the end of the last block.
    fn in_whole_blocks<'l>(&self, row: Nd<'l>, blocks: &Dim, width: i64) -> Nd<'l> {
        let whole = blocks * width;
        let most = (&whole - &self.size).known().unwrap_or(width - 1);
        row.pad(&[(2, shape![0, most])], Border::Constant(0.0)).first(2, whole)
    }
}

/// Returns 1 for each value that has fewer than `most` elements below it, else 0.
fn reached<'l>(x: Nd<'l>, values: Nd<'l>, most: Nd<'l>) -> Nd<'l> {
    let above = values.compute_with(x, |values, x| (values - x).greater(0.0));
    most.compute_with(above.reduce(reduction_op::SUM, &[2]), |most, below| (most - below).greater(0.0))
}

/// Returns, for each number, how many counts of its row are not above it.
fn before<'l>(counts: Nd<'l>, numbers: Nd<'l>) -> Nd<'l> {
    let is_before = numbers.compute_with(counts, |numbers, counts| (numbers - counts).greater(-0.5));
    is_before.reduce(reduction_op::SUM, &[2])
}

/// Returns constants as a column.
fn column<'l>(lower: &'l Lower, numbers: impl Iterator<Item = f32>) -> Nd<'l> {
    let numbers: Vec<f32> = numbers.collect();
    lower.tensor(Tensor::from_f32(&[1, numbers.len(), 1], numbers))
}

/// Returns the bits of each digit of a number, the first digits with `most` bits.
fn digits_of(bits: u32, most: u32) -> impl Iterator<Item = u32> {
    (0..bits.div_ceil(most)).map(move |digit| most.min(bits - digit * most))
}

/// Returns a power of two, with the exponent of a normal float.
fn exp2(exponent: i16) -> f32 {
    f32::from_bits(u32::from((exponent + 127).unsigned_abs()) << 23)
}
