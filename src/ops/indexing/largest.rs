//! Largest, of this program: the `k` largest elements of each row and their indices, equal elements in the order
//! of the indices. Of equal elements the first ones are taken.
//!
//! The k-th largest element is found digit by digit: its sign, the digits of its exponent, and those of its
//! mantissa, each by comparing all elements with all values of the digit: digits of many bits for few elements, as
//! they take fewer layers, and of few bits for many elements. What is compared grows with the
//! length of a row, not with its square. Elements above the k-th largest are taken, and as many of those equal
//! to it as are missing. Sums of zeros and ones number them; rows are divided into blocks, and matrices of
//! zeros and ones pick the block of each number and the element in it.
//!
//! If `k` is small, the largest element is taken `k` times, and each time left out of the rest.

use num_traits::AsPrimitive;

use crate::lower::ramp;
use crate::ncnn::layer::{CumulativeSum, MatMul, reduction_op};
use crate::ncnn::{Cost, USUAL_SIZE};
use crate::op::range;
use crate::ops::prelude::*;
use crate::tensor::Border;

pub(in crate::ops) const OPS: &[Row] = &[Row::of(OWN_DOMAIN, "Largest", Access::Any, infer)
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
pub(super) const MOST_ELEMENTS: i64 = limits::COMPARED >> DIGIT;

/// The elements that take as long as a row, over which layers loop.
const ROW_START: u64 = 64;

/// The elements of a blob that caches hold: a pass over them takes a quarter of the time.
const CACHED: u64 = 1 << 18;

/// The layers over whole rows that take the largest element of each.
const LAYERS_OF_ONE: u64 = 15;

/// The layers of a digit over the values with which all elements are compared, and over one value for each row.
const LAYERS_OF_DIGIT: [u64; 2] = [3, 10];

/// The layers over whole rows, and over fewer elements, that number and pick the elements from the `k`-th largest on.
const LAYERS_OF_PICKS: [u64; 2] = [25, 45];

/// A number above all places of rows whose elements are taken one by one; three times as many are exact in float32.
const PLACES: i64 = 1 << 22;

/// Returns the cost of layers over rows; free sizes count as [`USUAL_SIZE`].
pub(super) fn passes(layers: u64, rows: &Dim, size: u64) -> Cost {
    let elements = usual(rows).saturating_mul(size.saturating_add(ROW_START));
    Cost::passes(layers, if elements > CACHED { elements } else { elements / 4 })
}

/// Returns a size, or the number that stands for a free one.
fn usual(size: &Dim) -> u64 {
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
    let is_exact = size.known().is_none_or(|size| size < PLACES);
    let others = (1..DIGIT).rev().map(by_digits).chain(is_exact.then(single));
    others.fold(
        by_digits(DIGIT),
        |best, other| {
            if other.0.nanoseconds() < best.0.nanoseconds() { other } else { best }
        },
    )
}

/// Returns the cost of finding the `k`-th largest element of each row by digits of so many bits, and of taking the
/// elements from it on.
fn cost_of_digits(rows: &Dim, size: &Dim, bits: u32) -> Cost {
    let few = |layers: u64| Cost { layers, ..Cost::default() };
    let [[compared, found], [numbered, picked]] = [LAYERS_OF_DIGIT, LAYERS_OF_PICKS];
    let values = (1 << bits) - 1;
    let digit = passes(compared, rows, usual(size).saturating_mul(values)) + few(found);
    let count = u64::from(EXPONENT.div_ceil(bits) + MANTISSA.div_ceil(bits));
    digit * count + passes(numbered, rows, usual(size)) + few(picked)
}

/// The rows, the places of their elements, and the number of elements that are taken.
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

/// A number of elements; a blob holds it if the size of the rows is free.
enum Count {
    Known(f32),
    Free(BlobId),
}

fn lower(lower: &Lower) -> Result<()> {
    let rows = read_rows(lower)?;
    lower.compute_in_float32();
    let x = lower.blob_as(0, &rows.form(1, rows.size.clone()))?;
    let least = match fastest(&rows.rows, &rows.size, rows.k).1 {
        Way::OneByOne => return rows.pick_one_by_one(lower, x),
        Way::Digits(bits) => rows.least_taken(lower, x, bits)?,
    };
    let taken = rows.taken(lower, x, least)?;
    rows.pick(lower, x, taken)
}

impl Rows {
    /// Returns the form of a matrix for each row.
    fn form(&self, height: impl Into<Dim>, width: impl Into<Dim>) -> [Dim; 3] {
        [self.rows.clone(), height.into(), width.into()]
    }

    /// Takes the largest element of each row `k` times. Weights, which are larger for earlier places, tell its place.
    fn pick_one_by_one(&self, lower: &Lower, x: BlobId) -> Result<()> {
        lower.require(SizeCondition::at_most(&self.size, PLACES))?;
        let infinite = lower.may_be_infinite(0)?;
        let most: f32 = PLACES.as_();
        let places = lower.places_along(&self.size, &shape![1, 1, &self.size])?;
        let mut weights = lower.compute(places * -1.0 + most)?;
        let mut left = x;
        if infinite {
            // Infinities count as the largest finite numbers, but precede and follow those.
            let (above, below) = (lower.compute(x.above(f32::MAX))?, lower.compute(x.below(f32::MIN))?);
            weights = lower.compute((above - below) * most + (weights + most))?;
            left = lower.compute(x.smaller(f32::MAX).larger(f32::MIN))?;
        }
        let (mut elements, mut found) = (Vec::new(), Vec::new());
        for number in 1..=self.k {
            let element = lower.reduce(reduction_op::MAX, left, &[2])?;
            let candidates = lower.compute(!(left - element).below(0.0) * weights)?;
            let first = lower.reduce(reduction_op::MAX, candidates, &[2])?;
            elements.push(element);
            found.push(first);
            if number < self.k {
                let others = lower.compute((candidates - first).below(-0.5))?;
                weights = lower.compute(weights * others)?;
                left = lower.compute(left.smaller((others * 2.0 - 1.0) * f32::MAX))?;
            }
        }
        let (elements, found) = (lower.concat(&elements, 2)?, lower.concat(&found, 2)?);
        if !infinite {
            lower.set(0, elements)?;
            return lower.set(1, found * -1.0 + most);
        }
        let (finite, above) = (found.above(most + 0.5), found.above(2.0 * most + 0.5));
        let (finite, above) = (lower.compute(finite)?, lower.compute(above)?);
        lower.set(0, elements * (above - finite + 2.0))?;
        lower.set(1, (above + finite + 1.0) * most - found)
    }

    /// Emits the k-th largest element of each row. Infinities count as the largest finite numbers.
    fn least_taken(&self, lower: &Lower, x: BlobId, bits: u32) -> Result<BlobId> {
        let x = lower.compute(x.smaller(f32::MAX).larger(f32::MIN))?;
        // At most so many elements are smaller, and so many are larger.
        let most = match self.size.known() {
            Some(size) => Count::Known((size - self.k).as_()),
            None => Count::Free(lower.materialize(&[&self.size - self.k])?),
        };
        let most_if_negative: f32 = (self.k - 1).as_();
        let below = lower.reduce(reduction_op::SUM, x.below(0.0), &[2])?;
        let is_negative = lower.compute(match most {
            Count::Known(most) => below.above(most + 0.5),
            Count::Free(most) => (below - most).above(0.5),
        })?;
        // The k-th largest element is the negative of the k-th smallest of the negatives.
        let sign = lower.compute(is_negative * -2.0 + 1.0)?;
        let x = lower.compute(x * sign)?;
        let most_below = lower.compute(match most {
            Count::Known(most) => is_negative * (most_if_negative - most) + (most + 0.5),
            Count::Free(most) => is_negative * (most * -1.0 + most_if_negative) + most + 0.5,
        })?;

        // The power of two in it; 0 if the element is.
        let exponents = |first: i16, bits: u32, known: u32| {
            (first..1 << bits).map(move |digit| digit << (EXPONENT - known))
        };
        let powers = column(lower, exponents(1, bits, bits).map(|exponent| exp2(exponent - 126)))?;
        let reached = reached(lower, x, powers, most_below)?;
        let power = lower.reduce(reduction_op::MAX, reached * powers, &[1])?;
        let mut power = lower.compute(power.larger(f32::MIN_POSITIVE))?;
        let mut known = bits;
        for bits in digits_of(EXPONENT - bits, bits) {
            known += bits;
            let powers = column(lower, exponents(0, bits, known).map(exp2))?;
            // Products that overflow are above all elements.
            let values = lower.compute(power * powers)?;
            let reached = self::reached(lower, x, values, most_below)?;
            let mut factor = lower.reduce(reduction_op::MAX, reached * powers, &[1])?;
            if known < EXPONENT {
                factor = lower.compute(factor.larger(1.0))?;
            }
            power = lower.compute(power * factor)?;
        }

        let mut found = power;
        let mut digits = 0;
        for bits in digits_of(MANTISSA, bits) {
            digits += bits;
            let unit = exp2(-i16::try_from(digits)?);
            let values = column(lower, (1..1_u16 << bits).map(|digit| f32::from(digit) * unit))?;
            let values = lower.compute(found + power * values)?;
            let reached = self::reached(lower, x, values, most_below)?;
            let digit = lower.reduce(reduction_op::SUM, reached, &[1])?;
            found = lower.compute(found + power * (digit * unit))?;
        }
        lower.compute(found * sign)
    }

    /// Emits 1 for each element that is taken, else 0: the first `k` of those above `least`, those equal to it,
    /// and those below. There are `k` in the first two groups, unless `least` is in the place of an infinity.
    fn taken(&self, lower: &Lower, x: BlobId, least: BlobId) -> Result<BlobId> {
        let distance = lower.compute(x - least)?;
        let above = lower.compute(distance.above(0.0))?;
        let below = lower.compute(distance.below(0.0))?;
        let equal = lower.compute(!(above + below))?;
        let groups = lower.concat(&[above, equal, below], 1)?;
        let groups = lower.reshape(groups, &self.form(1, &self.size * 3))?;
        let most: f32 = self.k.as_();
        let counted = groups.map(CumulativeSum { axis: 2 }).below(most + 0.5);
        let taken = lower.reshape(groups * counted, &self.form(3, self.size.clone()))?;
        lower.reduce(reduction_op::SUM, taken, &[1])
    }

    /// Makes the elements that are taken output 0, and their indices output 1.
    fn pick(&self, lower: &Lower, x: BlobId, taken: BlobId) -> Result<()> {
        let k = self.k;
        let width = self.size.known().map_or(WIDTH_OF_FREE, |size| size.isqrt() + 1);
        let blocks = self.size.ceil_div(width);
        let one = Dim::ONE;
        let numbers = lower.memory_data(&ramp(&Dim::Known(k))?, &shape![&one, k, &one])?;
        let taken = self.in_whole_blocks(lower, taken, &blocks, width)?;
        let count = lower.reshape(taken.map(CumulativeSum { axis: 2 }), &self.form(blocks.clone(), width))?;
        let last = lower.crop(count, 2, width - 1, None, &one)?;
        let last = lower.reshape(last, &self.form(1, blocks.clone()))?;
        // The block of a number follows those that end before it, its element those that are counted before.
        let block = before(lower, last, numbers)?;
        let is_block = places(lower, block, &blocks)?;
        let form = self.form(k, width);
        let count = lower.emit(MatMul::default(), &[is_block, count], &form)?;
        let place = before(lower, count, numbers)?;
        let factor: f32 = width.as_();
        let index = lower.compute(block * factor + place)?;

        let x = lower.bounded_half(x)?;
        let x = self.in_whole_blocks(lower, x, &blocks, width)?;
        let x = lower.reshape(x, &self.form(blocks, width))?;
        let x = lower.emit(MatMul::default(), &[is_block, x], &form)?;
        let is_place = places(lower, place, &Dim::Known(width))?;
        let x = lower.reduce(reduction_op::SUM, x * is_place, &[2])?;
        lower.set(0, x * 2.0)?;
        lower.set(1, index)
    }

    /// Emits rows with zeros up to the end of the last block.
    fn in_whole_blocks(&self, lower: &Lower, row: BlobId, blocks: &Dim, width: i64) -> Result<BlobId> {
        if let (Some(size), Some(blocks)) = (self.size.known(), blocks.known()) {
            return lower.padded(row, 2, 0, blocks * width - size, Border::Constant(0.0));
        }
        let longer = lower.padded(row, 2, 0, width - 1, Border::Constant(0.0))?;
        lower.first(longer, 2, &(blocks * width))
    }
}

/// Emits 1 for each value that has fewer than `most` elements below it, else 0.
fn reached(lower: &Lower, x: BlobId, values: BlobId, most: BlobId) -> Result<BlobId> {
    let below = lower.reduce(reduction_op::SUM, (values - x).above(0.0), &[2])?;
    lower.compute((most - below).above(0.0))
}

/// Emits, for each number, how many counts of its row are not above it.
fn before(lower: &Lower, counts: BlobId, numbers: BlobId) -> Result<BlobId> {
    lower.reduce(reduction_op::SUM, (numbers - counts).above(-0.5), &[2])
}

/// Emits 1 at the place of each index along the last axis, else 0.
fn places(lower: &Lower, indices: BlobId, size: &Dim) -> Result<BlobId> {
    let places = lower.places_along(size, &shape![1, 1, size])?;
    lower.compute((indices - places).equals_zero())
}

/// Emits constants as a column.
fn column(lower: &Lower, numbers: impl Iterator<Item = f32>) -> Result<BlobId> {
    let numbers = ndarray::Array1::from_iter(numbers);
    let size = Dim::Known(numbers.len().int());
    let tensor = Tensor::from_array(&Array::f32(numbers.into_dyn()))?;
    lower.memory_data(&tensor, &shape![1, size, 1])
}

/// Returns the bits of each digit of a number, the first digits with `most` bits.
fn digits_of(bits: u32, most: u32) -> impl Iterator<Item = u32> {
    (0..bits.div_ceil(most)).map(move |digit| most.min(bits - digit * most))
}

/// Returns a power of two, whose exponent is that of a normal float.
fn exp2(exponent: i16) -> f32 {
    f32::from_bits(u32::from((exponent + 127).unsigned_abs()) << 23)
}
