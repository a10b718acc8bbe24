//! Matrices of integers in blocks, row by row: those of the model, and those to which floats are rounded.

use std::sync::{Arc, OnceLock};

use num_traits::AsPrimitive;

use crate::error::{At, Error, Result, unsupported};
use crate::ncnn::{BlockFormat, inverse};
use crate::tensor::{DType, Ranges, Take, Tensor};

/// The number of floats of a matrix that are in memory at a time.
const CHUNK: usize = 1 << 22;

/// The number of bytes of a mapped matrix after which the system may reclaim them.
const PASSED: usize = 1 << 22;

/// The number of columns that are moved together.
const TILE: usize = 16;

/// Receives the integers of a row, if they are asked for, and the scales of its blocks.
type TakeRow<'a> = dyn FnMut(&[i8], &[f32]) -> Result<()> + 'a;

/// A constant matrix in blocks.
#[derive(Clone)]
pub(crate) enum Matrix {
    Packed(Arc<Packed>),
    Rounded(Arc<Rounded>),
}

/// A matrix of unsigned integers of a model, several in a byte, the lowest first.
pub(crate) struct Packed {
    /// The bytes, row by row.
    pub bytes: Tensor,
    pub bits: usize,
    /// The sign bits that are inverted: signed integers become unsigned ones.
    pub flipped: u8,
    pub rows: usize,
    pub columns: usize,
    /// The integers of a row with those that fill its last block or byte.
    pub stored: usize,
    /// The number of columns that share a scale.
    pub block: usize,
    pub zero: Zero,
    /// The scales, row by row.
    pub scales: Tensor,
}

/// The zero points of a matrix.
pub(crate) enum Zero {
    All(i16),
    /// One for each block, packed as the matrix is; each row begins at a byte.
    Each(Tensor),
}

/// A matrix of floats that is rounded. A scale is the largest magnitude of its block, which becomes
/// the lowest integer.
pub(crate) struct Rounded {
    pub weight: Tensor,
    pub rows: usize,
    pub columns: usize,
    /// Whether the rows are the columns of the stored matrix.
    pub transposed: bool,
    pub format: BlockFormat,
    /// The rounding error, after the first run.
    pub loss: Arc<OnceLock<f32>>,
}

impl Matrix {
    /// Returns the number of rows and of columns.
    pub fn sizes(&self) -> (usize, usize) {
        match self {
            Matrix::Packed(matrix) => (matrix.rows, matrix.columns),
            Matrix::Rounded(matrix) => (matrix.rows, matrix.columns),
        }
    }

    /// Returns the number of columns that share a scale.
    pub fn block(&self) -> usize {
        match self {
            Matrix::Packed(matrix) => matrix.block,
            Matrix::Rounded(matrix) => matrix.format.size,
        }
    }

    /// Returns where the rounding error is written.
    pub fn loss(&self) -> Option<Arc<OnceLock<f32>>> {
        match self {
            Matrix::Packed(_) => None,
            Matrix::Rounded(matrix) => Some(matrix.loss.clone()),
        }
    }

    /// Passes each row to `take`, without its integers unless `levels` is set.
    pub fn for_each(&self, levels: bool, take: &mut TakeRow) -> Result<()> {
        match self {
            Matrix::Packed(matrix) => matrix.for_each(levels, take),
            Matrix::Rounded(matrix) => matrix.for_each(levels, take),
        }
    }
}

impl Packed {
    fn blocks(&self) -> usize {
        self.columns.div_ceil(self.block)
    }

    /// Returns the lowest and the highest integer that a block may have, minus its zero point.
    pub fn bounds(&self) -> Result<(i16, i16)> {
        let highest = (1_i16 << self.bits) - 1;
        let (mut least, mut most) = (i16::MAX, i16::MIN);
        match &self.zero {
            Zero::All(zero) => (least, most) = (*zero, *zero),
            Zero::Each(_) => {
                let mut zeros = Zeros::new(self)?;
                for row in 0..self.rows {
                    for zero in zeros.row(row)? {
                        (least, most) = (least.min(*zero), most.max(*zero));
                    }
                }
            }
        }
        Ok((-most, highest - least))
    }

    /// Returns the lowest and the highest integer that the matrix has, minus its zero point, if all that it
    /// may have are of 8 bits.
    pub fn bounds_of_bytes(&self) -> Result<Option<(i16, i16)>> {
        let (least, most) = self.bounds()?;
        if least < i8::MIN.into() || most > i8::MAX.into() {
            return Ok(None);
        }
        let (mut least, mut most) = (0, 0);
        self.for_each(true, &mut |row, _| {
            for value in row {
                (least, most) = (least.min(*value), most.max(*value));
            }
            Ok(())
        })?;
        Ok(Some((least.into(), most.into())))
    }

    /// Passes on the bytes of the matrix in a format in which they differ only by the sign bits; returns
    /// `false` if there are other differences.
    pub fn invert_signs(&self, format: BlockFormat, take: &mut Take) -> Result<bool> {
        let row_bytes = packed_bytes(self.stored, self.bits);
        let is_symmetric = matches!(self.zero, Zero::All(zero) if zero == 1 << (self.bits - 1));
        let is_same = format.bits == self.bits && format.row_bytes(self.columns) == row_bytes;
        if !is_symmetric || !is_same || self.flipped != 0 || self.columns != self.stored {
            return Ok(false);
        }
        let sign = (0..8).step_by(self.bits).fold(0_u8, |mask, shift| mask | 1 << (shift + self.bits - 1));
        let (ranges, mut bytes, len) = (self.bytes.ranges()?, Vec::new(), self.bytes.len());
        for start in (0..len).step_by(PASSED) {
            let count = PASSED.min(len - start);
            ranges.read(start, count, &mut bytes)?;
            ranges.release(start, count);
            bytes.iter_mut().for_each(|byte| *byte ^= sign);
            take(&bytes)?;
        }
        Ok(true)
    }

    fn for_each(&self, levels: bool, take: &mut TakeRow) -> Result<()> {
        let blocks = self.blocks();
        let (bytes, scales) = (self.bytes.ranges()?, self.scales.ranges()?);
        let mut zeros = Zeros::new(self)?;
        let row_bytes = packed_bytes(self.stored, self.bits);
        let (mut raw, mut buffer, mut scale, mut values, mut row) =
            (Vec::new(), Vec::new(), Vec::new(), Vec::new(), Vec::new());
        let mut passed = 0;
        for index in 0..self.rows {
            scales.read_f32(index * blocks, blocks, &mut buffer, &mut scale)?;
            if levels {
                bytes.read(index * row_bytes, row_bytes, &mut raw)?;
                unpack(&raw, self.bits, self.flipped, &mut values);
                row.clear();
                let zeros = zeros.row(index)?;
                for (values, zero) in values.chunks(self.block).zip(zeros) {
                    row.extend(values.iter().map(|value| -> i8 { (i16::from(*value) - zero).as_() }));
                }
                row.truncate(self.columns);
                if (index + 1 - passed) * row_bytes >= PASSED {
                    bytes.release(passed * row_bytes, (index + 1 - passed) * row_bytes);
                    passed = index + 1;
                }
            }
            take(&row, &scale)?;
        }
        bytes.release(passed * row_bytes, (self.rows - passed) * row_bytes);
        scales.release(0, self.rows * blocks);
        Ok(())
    }
}

/// The zero points of the rows of a matrix.
struct Zeros {
    bits: usize,
    flipped: u8,
    row_bytes: usize,
    packed: Option<Ranges>,
    raw: Vec<u8>,
    values: Vec<u8>,
    row: Vec<i16>,
}

impl Zeros {
    fn new(matrix: &Packed) -> Result<Zeros> {
        let (bits, flipped, blocks) = (matrix.bits, matrix.flipped, matrix.blocks());
        let (packed, row) = match &matrix.zero {
            Zero::All(zero) => (None, vec![*zero; blocks]),
            Zero::Each(zeros) => (Some(zeros.ranges()?), vec![0; blocks]),
        };
        let row_bytes = packed_bytes(blocks, bits);
        Ok(Zeros { bits, flipped, row_bytes, packed, raw: Vec::new(), values: Vec::new(), row })
    }

    fn row(&mut self, index: usize) -> Result<&[i16]> {
        if let Some(packed) = &self.packed {
            packed.read(index * self.row_bytes, self.row_bytes, &mut self.raw)?;
            unpack(&self.raw, self.bits, self.flipped, &mut self.values);
            for (zero, value) in self.row.iter_mut().zip(&self.values) {
                *zero = i16::from(*value);
            }
        }
        Ok(&self.row)
    }
}

/// Returns the bytes of `count` integers of 2, 4 or 8 bits.
fn packed_bytes(count: usize, bits: usize) -> usize {
    count.saturating_mul(bits).div_ceil(8)
}

/// Replaces `values` by the integers of 2, 4 or 8 bits of bytes.
fn unpack(bytes: &[u8], bits: usize, flipped: u8, values: &mut Vec<u8>) {
    values.clear();
    let mask = u8::MAX >> (8 - bits);
    for byte in bytes {
        values.extend((0..8).step_by(bits).map(|shift| ((byte >> shift) & mask) ^ flipped));
    }
}

impl Rounded {
    fn for_each(&self, levels: bool, take: &mut TakeRow) -> Result<()> {
        let ranges = self.weight.ranges()?;
        let mut rounding = Rounding::new(self.format);
        let (rows, columns) = (self.rows, self.columns);
        let (mut bytes, mut floats) = (Vec::new(), Vec::new());
        if !self.transposed {
            let chunk = (CHUNK / columns.max(1)).max(1);
            for first in (0..rows).step_by(chunk) {
                let count = chunk.min(rows - first);
                ranges.read_f32(first * columns, count * columns, &mut bytes, &mut floats)?;
                ranges.release(first * columns, count * columns);
                floats.chunks(columns).try_for_each(|row| rounding.row(row, levels, take))?;
            }
            return self.finish(levels, &rounding);
        }
        // Some columns at a time, so that the whole matrix is not in memory, and of these a few that share
        // lines of the cache.
        let chunk = (CHUNK / columns.max(1)).max(1);
        let (mut part, mut tile) = (Vec::new(), Vec::new());
        for first in (0..rows).step_by(chunk) {
            let count = chunk.min(rows - first);
            part.clear();
            let mut passed = 0;
            for column in 0..columns {
                ranges.read_f32(column * rows + first, count, &mut bytes, &mut floats)?;
                part.extend_from_slice(&floats);
                if (column + 1 - passed) * rows >= CHUNK || column + 1 == columns {
                    ranges.release(passed * rows, (column + 1 - passed) * rows);
                    passed = column + 1;
                }
            }
            for start in (0..count).step_by(TILE) {
                tile.resize(TILE.min(count - start) * columns, 0.0_f32);
                for (column, line) in part.chunks(count).enumerate() {
                    let elements = line.iter().skip(start);
                    for (row, element) in tile.chunks_mut(columns).zip(elements) {
                        row.put(column, *element);
                    }
                }
                tile.chunks(columns).try_for_each(|row| rounding.row(row, levels, take))?;
            }
        }
        self.finish(levels, &rounding)
    }

    fn finish(&self, levels: bool, rounding: &Rounding) -> Result<()> {
        if levels {
            self.loss.get_or_init(|| rounding.loss());
        }
        Ok(())
    }
}

/// The rounding of rows.
struct Rounding {
    format: BlockFormat,
    lowest: i32,
    row: Vec<i8>,
    scales: Vec<f32>,
    squares: f64,
    errors: f64,
}

impl Rounding {
    fn new(format: BlockFormat) -> Rounding {
        let lowest = -(1_i32 << (format.bits - 1));
        Rounding { format, lowest, row: Vec::new(), scales: Vec::new(), squares: 0.0, errors: 0.0 }
    }

    fn row(&mut self, floats: &[f32], levels: bool, take: &mut TakeRow) -> Result<()> {
        self.row.clear();
        self.scales.clear();
        for block in floats.chunks(self.format.size) {
            let mut extreme = 0.0_f32;
            for element in block {
                if !element.is_finite() {
                    unsupported!("a weight of {element} is not rounded to integers");
                }
                if element.abs() > extreme.abs() {
                    extreme = *element;
                }
            }
            let lowest: f32 = self.lowest.as_();
            let scale = extreme / lowest;
            self.scales.push(scale);
            if levels {
                self.levels(block, scale);
            }
        }
        take(&self.row, &self.scales)
    }

    fn levels(&mut self, block: &[f32], scale: f32) {
        let factor = inverse(scale);
        let step = 1.0 / f64::from(factor);
        for element in block {
            let level = element * factor;
            let level: i32 = (level + 0.5_f32.copysign(level)).as_();
            let level = level.clamp(self.lowest, -self.lowest - 1);
            let error = f64::from(level) * step - f64::from(*element);
            self.squares += f64::from(*element) * f64::from(*element);
            self.errors += error * error;
            self.row.push(level.as_());
        }
    }

    /// Returns the root mean square of the errors relative to that of the floats.
    fn loss(&self) -> f32 {
        if self.squares == 0.0 { 0.0 } else { (self.errors / self.squares).sqrt().as_() }
    }
}

/// Returns the bytes of a constant of 4 or 8 bits as they are stored.
pub(crate) fn stored_bytes(tensor: &Tensor) -> Result<Tensor> {
    if tensor.dtype() == DType::U8 {
        return Ok(tensor.clone());
    }
    let bytes = tensor.to_raw()?;
    let len = bytes.len();
    Tensor::from_raw(DType::U8, vec![len], bytes).map_err(Error::into_internal)
}
