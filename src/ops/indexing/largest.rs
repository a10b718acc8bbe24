//! Largest, of this program: the `k` largest elements of each row and their indices, in the order of the
//! indices. Of equal elements the first ones are taken.
//!
//! The k-th largest element is found digit by digit: its sign, two digits of its exponent, and those of its
//! mantissa, each by comparing all elements with all values of the digit. What is compared grows with the
//! length of a row, not with its square. Elements above the k-th largest are taken, and as many of those equal
//! to it as are missing. Sums of zeros and ones number them; rows are divided into blocks, and matrices of
//! zeros and ones pick the block of each number and the element in it.

use num_traits::AsPrimitive;

use crate::common::limits;
use crate::error::{Result, unsupported};
use crate::lower::{Lower, ramp};
use crate::ncnn::BlobId;
use crate::ncnn::layer::{CumulativeSum, MatMul, binary_op, reduction_op};
use crate::op::{Access, Call, Fact, OWN_DOMAIN, range};
use crate::ops::Row;
use crate::tensor::{Array, DType, Dim, Tensor};

pub(in crate::ops) const OPS: &[Row] = &[Row::of(OWN_DOMAIN, "Largest", Access::Any, infer)
    .lower(lower)
    .keeps_magnitude()
    .range(range::first)
    .further_range(range::positions)
    .lowers_to("Threshold, Reduction: the k-th largest element, digit by digit; CumulativeSum, MatMul")];

/// The bits of a digit.
const DIGIT: u32 = 4;

/// The bits of the digits of a mantissa.
const MANTISSA: [u32; 6] = [DIGIT, DIGIT, DIGIT, DIGIT, DIGIT, 3];

/// The number of values with which each element of a row is compared.
pub(super) const COMPARISONS: i64 = 128;

/// The most elements of all rows: each is compared with all values of a digit at once.
pub(super) const MOST_ELEMENTS: i64 = limits::COMPARED >> DIGIT;

/// Returns the form of rows, and the number of their largest elements.
fn read(call: &Call) -> Result<(Dim, i64, i64)> {
    let Ok([rows, size]) = <&[Dim; 2]>::try_from(call.shape(0)?) else {
        unsupported!("rows of other than two axes")
    };
    let Some(size) = size.known() else { unsupported!("rows of {size} elements") };
    Ok((rows.clone(), size, call.int("k")?))
}

fn infer(call: &Call) -> Result<Vec<Fact>> {
    let (rows, _, k) = read(call)?;
    let shape = vec![rows, Dim::Known(k)];
    Ok(vec![Fact::new(call.dtype(0)?, shape.clone()), Fact::new(DType::I64, shape)])
}

/// The rows, the places of their elements, and the number of elements that are taken.
struct Rows {
    rows: Dim,
    size: i64,
    k: i64,
}

fn lower(lower: &mut Lower) -> Result<()> {
    let (rows, size, k) = read(lower)?;
    let rows = Rows { rows, size, k };
    lower.compute_in_float32();
    let x = lower.blob_as(0, &rows.form(1, size))?;
    let least = rows.least_taken(lower, x)?;
    let taken = rows.taken(lower, x, least)?;
    rows.pick(lower, x, taken)
}

impl Rows {
    /// Returns the form of a matrix for each row.
    fn form(&self, height: i64, width: i64) -> [Dim; 3] {
        [self.rows.clone(), Dim::Known(height), Dim::Known(width)]
    }

    /// Emits the k-th largest element of each row. Infinities count as the largest finite numbers.
    fn least_taken(&self, lower: &mut Lower, x: BlobId) -> Result<BlobId> {
        let x = lower.binary_scalar(binary_op::MIN, x, f32::MAX)?;
        let x = lower.binary_scalar(binary_op::MAX, x, f32::MIN)?;
        // At most so many elements are smaller.
        let most: f32 = (self.size - self.k).as_();
        let most_if_negative: f32 = (self.k - 1).as_();
        let below = lower.lt(x, 0.0)?;
        let below = lower.reduce(reduction_op::SUM, below, &[2])?;
        let is_negative = lower.gt(below, most + 0.5)?;
        // The k-th largest element is the negative of the k-th smallest of the negatives.
        let sign = lower.binary_scalar(binary_op::MUL, is_negative, -2.0)?;
        let sign = lower.binary_scalar(binary_op::ADD, sign, 1.0)?;
        let x = lower.binary(binary_op::MUL, x, sign)?;
        let most_below = lower.binary_scalar(binary_op::MUL, is_negative, most_if_negative - most)?;
        let most_below = lower.binary_scalar(binary_op::ADD, most_below, most + 0.5)?;

        // The power of two in it: a power of 2^16 times one below 2^16; 0 if the element is.
        let powers = column(lower, (1..16_i16).map(|digit| exp2(16 * digit - 126)))?;
        let reached = reached(lower, x, powers, most_below)?;
        let power = lower.binary(binary_op::MUL, reached, powers)?;
        let power = lower.reduce(reduction_op::MAX, power, &[1])?;
        let coarse = lower.binary_scalar(binary_op::MAX, power, f32::MIN_POSITIVE)?;
        let powers = column(lower, (0..16_i16).map(exp2))?;
        // Products that overflow are above all elements.
        let values = lower.binary(binary_op::MUL, coarse, powers)?;
        let reached = self::reached(lower, x, values, most_below)?;
        let power = lower.binary(binary_op::MUL, reached, powers)?;
        let power = lower.reduce(reduction_op::MAX, power, &[1])?;
        let power = lower.binary(binary_op::MUL, coarse, power)?;

        let mut found = power;
        let mut digits = 0;
        for bits in MANTISSA {
            digits += bits;
            let unit = exp2(-i16::try_from(digits)?);
            let values = column(lower, (1..1_u16 << bits).map(|digit| f32::from(digit) * unit))?;
            let values = lower.binary(binary_op::MUL, power, values)?;
            let values = lower.binary(binary_op::ADD, found, values)?;
            let reached = self::reached(lower, x, values, most_below)?;
            let digit = lower.reduce(reduction_op::SUM, reached, &[1])?;
            let digit = lower.binary_scalar(binary_op::MUL, digit, unit)?;
            let digit = lower.binary(binary_op::MUL, power, digit)?;
            found = lower.binary(binary_op::ADD, found, digit)?;
        }
        lower.binary(binary_op::MUL, found, sign)
    }

    /// Emits 1 for each element that is taken, else 0: the first `k` of those above `least`, those equal to it,
    /// and those below. There are `k` in the first two groups, unless `least` is in the place of an infinity.
    fn taken(&self, lower: &mut Lower, x: BlobId, least: BlobId) -> Result<BlobId> {
        let distance = lower.binary(binary_op::SUB, x, least)?;
        let above = lower.gt(distance, 0.0)?;
        let below = lower.lt(distance, 0.0)?;
        let apart = lower.binary(binary_op::ADD, above, below)?;
        let equal = lower.logical_not(apart)?;
        let groups = lower.concat(&[above, equal, below], 1)?;
        let groups = lower.reshape(groups, &self.form(1, 3 * self.size))?;
        let count = lower.map(CumulativeSum { axis: 2 }, groups)?;
        let most: f32 = self.k.as_();
        let counted = lower.lt(count, most + 0.5)?;
        let taken = lower.binary(binary_op::MUL, groups, counted)?;
        let taken = lower.reshape(taken, &self.form(3, self.size))?;
        lower.reduce(reduction_op::SUM, taken, &[1])
    }

    /// Makes the elements that are taken output 0, and their indices output 1.
    fn pick(&self, lower: &mut Lower, x: BlobId, taken: BlobId) -> Result<()> {
        let Rows { size, k, .. } = *self;
        let width = size.isqrt() + 1;
        let blocks = (size - 1) / width + 1;
        let one = Dim::Known(1);
        let numbers =
            lower.memory_data(&ramp(&Dim::Known(k))?, &[one.clone(), Dim::Known(k), one.clone()])?;
        let taken = lower.padded(taken, 2, 0, blocks * width - size, 0.0)?;
        let count = lower.map(CumulativeSum { axis: 2 }, taken)?;
        let count = lower.reshape(count, &self.form(blocks, width))?;
        let last = lower.crop(count, 2, i32::try_from(width - 1)?, None, &one)?;
        let last = lower.reshape(last, &self.form(1, blocks))?;
        // The block of a number follows those that end before it, its element those that are counted before.
        let block = before(lower, last, numbers)?;
        let is_block = places(lower, block, blocks)?;
        let form = self.form(k, width);
        let count = lower.emit(MatMul::default(), &[is_block, count], &form)?;
        let place = before(lower, count, numbers)?;
        let offset = lower.binary_scalar(binary_op::MUL, block, width.as_())?;
        let index = lower.binary(binary_op::ADD, offset, place)?;

        let x = lower.bounded_half(x)?;
        let x = lower.padded(x, 2, 0, blocks * width - size, 0.0)?;
        let x = lower.reshape(x, &self.form(blocks, width))?;
        let x = lower.emit(MatMul::default(), &[is_block, x], &form)?;
        let is_place = places(lower, place, width)?;
        let x = lower.binary(binary_op::MUL, x, is_place)?;
        let x = lower.reduce(reduction_op::SUM, x, &[2])?;
        let x = lower.doubled(x)?;
        lower.set(0, x)?;
        lower.set(1, index)
    }
}

/// Emits 1 for each value that has fewer than `most` elements below it, else 0.
fn reached(lower: &mut Lower, x: BlobId, values: BlobId, most: BlobId) -> Result<BlobId> {
    let distance = lower.binary(binary_op::SUB, values, x)?;
    let below = lower.gt(distance, 0.0)?;
    let below = lower.reduce(reduction_op::SUM, below, &[2])?;
    let left = lower.binary(binary_op::SUB, most, below)?;
    lower.gt(left, 0.0)
}

/// Emits, for each number, how many counts of its row are not above it.
fn before(lower: &mut Lower, counts: BlobId, numbers: BlobId) -> Result<BlobId> {
    let distance = lower.binary(binary_op::SUB, numbers, counts)?;
    let before = lower.gt(distance, -0.5)?;
    lower.reduce(reduction_op::SUM, before, &[2])
}

/// Emits 1 at the place of each index along the last axis, else 0.
fn places(lower: &mut Lower, indices: BlobId, size: i64) -> Result<BlobId> {
    let (one, size) = (Dim::Known(1), Dim::Known(size));
    let places = lower.memory_data(&ramp(&size)?, &[one.clone(), one, size])?;
    let distance = lower.binary(binary_op::SUB, indices, places)?;
    lower.equals_zero(distance)
}

/// Emits constants as a column.
fn column(lower: &mut Lower, numbers: impl Iterator<Item = f32>) -> Result<BlobId> {
    let numbers = ndarray::Array1::from_iter(numbers);
    let size = Dim::Known(i64::try_from(numbers.len())?);
    let tensor = Tensor::from_array(&Array::f32(numbers.into_dyn()))?;
    lower.memory_data(&tensor, &[Dim::Known(1), size, Dim::Known(1)])
}

/// Returns a power of two, whose exponent is that of a normal float.
fn exp2(exponent: i16) -> f32 {
    f32::from_bits(u32::from((exponent + 127).unsigned_abs()) << 23)
}
