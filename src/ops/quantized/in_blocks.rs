//! Weights that stay in blocks: MatMulNBits as `BlockGemm`, GatherBlockQuantized as `BlockEmbed`.

use std::sync::Arc;

use super::packed::{Table, WeightMatrix, input, middle, padded, table};
use crate::ncnn::BlockFormat;
use crate::ops::prelude::*;
use crate::pass::blocks::{
    Matrix, Packed, Weights, Zero, are_scales_finite, gemm_weights, is_graph_input, product_attributes,
    size_of_blocks, stored_bytes, table_attributes, table_bits, table_weights,
};

/// A matrix that stays in blocks, or the reason why it does not.
type InBlocks<T> = std::result::Result<T, String>;

/// Keeps the weights of MatMulNBits; returns `false`, after a warning, if that is not possible.
pub(super) fn keep_product(x: &Expand, matrix: &WeightMatrix) -> Result<bool> {
    if x.weights() == Weights::Float {
        return Ok(false);
    }
    let (matrix, format) = match product(x, matrix)? {
        Ok(matrix) => matrix,
        Err(reason) => return warn(x, &reason),
    };
    let [levels, scales] = gemm_weights(&matrix, format)?;
    let (rows, columns) = matrix.sizes();
    let mut inputs = vec![x.operand(0), x.make.tensor(levels), x.make.tensor(scales)];
    let is_row = |bias: &Tensor| bias.shape() == [rows];
    let bias = x.optional(input::BIAS);
    let constant = x.constant(input::BIAS).filter(|bias| is_row(bias)).is_some();
    inputs.extend(bias.filter(|_| constant));
    let product = x.make.op("ncnn.BlockGemm", inputs, product_attributes(columns, format)?);
    x.output(0, product.add_optional(bias.filter(|_| !constant)));
    Ok(true)
}

/// Keeps the table of GatherBlockQuantized; returns `false`, after a warning, if that is not possible.
pub(super) fn keep_table(x: &Expand, stored: &Table) -> Result<bool> {
    if x.weights() == Weights::Float {
        return Ok(false);
    }
    let (matrix, bits) = match rows(x, stored)? {
        Ok(matrix) => matrix,
        Err(reason) => return warn(x, &reason),
    };
    let [levels, scales] = table_weights(&matrix, bits)?;
    let inputs = [x.operand(table::INDICES), x.make.tensor(levels), x.make.tensor(scales)];
    let taken = x.make.op("ncnn.BlockEmbed", inputs, table_attributes(bits)?);
    x.output(0, taken.cast(x.dtype(table::SCALES)?));
    Ok(true)
}

fn warn(x: &Expand, reason: &str) -> Result<bool> {
    x.warn(&format!("its weights do not stay in blocks: {reason}"));
    Ok(false)
}

fn product(x: &Expand, matrix: &WeightMatrix) -> Result<InBlocks<(Matrix, BlockFormat)>> {
    let [columns, rows, bits, block] = [matrix.rows, matrix.columns, matrix.bits, matrix.block];
    let Some(size) = size_of_blocks(usize::try_from(block)?) else {
        return Ok(Err(format!("the runtime has no blocks of {block} weights")));
    };
    let blocks = (columns - 1) / block + 1;
    let stored = blocks.saturating_mul(block);
    let packed = Parts { bits, flipped: 0, rows, columns, stored, block, zero: i16::from(middle(bits)) };
    let matrix = match packed.read(x, [input::WEIGHT, input::SCALES, input::ZERO_POINTS])? {
        Ok(matrix) => matrix,
        Err(reason) => return Ok(Err(reason)),
    };
    let (least, most) = matrix.bounds()?;
    let bits = match x.weights().product_bits((least, most)) {
        // Integers of fewer bits are in bytes where the operator has no type for them.
        None => matrix.bounds_of_bytes()?.and_then(|bounds| x.weights().product_bits(bounds)),
        found => found,
    };
    let Some(bits) = bits else {
        return Ok(Err(format!("the runtime has no exact layer for integers from {least} to {most}")));
    };
    Ok(Ok((Matrix::Packed(Arc::new(matrix)), BlockFormat { bits, size })))
}

fn rows(x: &Expand, stored: &Table) -> Result<InBlocks<(Matrix, usize)>> {
    let Table { rows, columns, block, packed } = *stored;
    let dtype = x.dtype(table::DATA)?;
    let bits = packed.unwrap_or(i64::try_from(dtype.bits())?);
    if ![2, 4, 8].contains(&bits) {
        return Ok(Err(format!("the type {dtype}")));
    }
    if columns % block != 0 || columns % 2 != 0 {
        return Ok(Err(format!("{columns} columns in blocks of {block}")));
    }
    if !is_graph_input(x.graph(), x.node().input(table::INDICES)) {
        return Ok(Err("the indices are computed".to_owned()));
    }
    // Signed integers become unsigned ones with the opposite sign bit.
    let is_signed = dtype == DType::I4 || dtype == DType::I8;
    let half = i64::from(middle(bits));
    let flipped = if is_signed { u8::try_from(half)? } else { 0 };
    let zero = if is_signed || packed.is_some() { half } else { 0 };
    let zero = i16::try_from(zero)?;
    let parts = Parts { bits, flipped, rows, columns, stored: columns, block, zero };
    let matrix = match parts.read(x, [table::DATA, table::SCALES, table::ZERO_POINTS])? {
        Ok(matrix) => matrix,
        Err(reason) => return Ok(Err(reason)),
    };
    let (least, most) = matrix.bounds()?;
    let Some(bits) = table_bits((least, most)) else {
        return Ok(Err(format!("the runtime has no table of integers from {least} to {most}")));
    };
    Ok(Ok((Matrix::Packed(Arc::new(matrix)), bits)))
}

/// The sizes of a matrix, and the zero point that it has without others.
struct Parts {
    bits: i64,
    flipped: u8,
    rows: i64,
    columns: i64,
    stored: i64,
    block: i64,
    zero: i16,
}

impl Parts {
    /// Reads the inputs of the integers, the scales and the zero points.
    fn read(self, x: &Expand, [data, scales, zeros]: [usize; 3]) -> Result<InBlocks<Packed>> {
        let blocks = (self.columns - 1) / self.block + 1;
        let count = usize::try_from(self.rows.saturating_mul(blocks))?;
        let (Some(data), Some(scales)) = (x.constant(data), x.constant(scales)) else {
            return Ok(Err("they are known only at run time".to_owned()));
        };
        if scales.len() != count || !are_scales_finite(scales)? {
            return Ok(Err("the scales are not finite, or too large".to_owned()));
        }
        let packed_bytes = |each: i64| -> Result<usize> {
            let bytes = padded(each, self.bits).saturating_mul(self.bits) / 8;
            Ok(usize::try_from(self.rows.saturating_mul(bytes))?)
        };
        let zero = match x.constant(zeros) {
            None if !x.has_input(zeros) => Zero::All(self.zero),
            Some(tensor) if tensor.dtype() == data.dtype() => Zero::Each(stored_bytes(tensor)?),
            Some(_) => return Ok(Err("the zero points are not integers".to_owned())),
            None => return Ok(Err("the zero points are known only at run time".to_owned())),
        };
        let bytes = stored_bytes(data)?;
        let fits = match &zero {
            Zero::Each(zeros) => zeros.len() == packed_bytes(blocks)?,
            Zero::All(_) => true,
        };
        if bytes.len() != packed_bytes(self.stored)? || !fits {
            return Ok(Err("their number is not that of the shape".to_owned()));
        }
        Ok(Ok(Packed {
            bytes,
            bits: usize::try_from(self.bits)?,
            flipped: self.flipped,
            rows: usize::try_from(self.rows)?,
            columns: usize::try_from(self.columns)?,
            stored: usize::try_from(self.stored)?,
            block: usize::try_from(self.block)?,
            zero,
            scales: scales.clone(),
        }))
    }
}
