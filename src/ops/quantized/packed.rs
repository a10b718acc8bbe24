//! MatMulNBits: weights of 4 or 8 bits in blocks, each with a scale. The other factor is not rounded.

use super::{MICROSOFT, first, level};
use crate::error::{Error, Result, invalid, unsupported};
use crate::graph::Attribute;
use crate::op::{Access, Call, Fact, required};
use crate::ops::Row;
use crate::pass::expand::{Expand, Operand};
use crate::tensor::{Array, DType, Dim, display_shape};

pub(in crate::ops) const OPS: &[Row] = &[
    // `accuracy_level` permits rounding and does not require it.
    Row::new("MatMulNBits", &[1], Access::Any, infer)
        .domain(MICROSOFT)
        .expand(expand)
        .ignore(&["accuracy_level", "weight_prepacked"])
        .lowers_to("MatMul")
        .limits("weights not of 4 or 8 bits; a column order; weights known only at run time"),
];

/// Indices of the inputs.
mod input {
    pub const WEIGHT: usize = 1;
    pub const SCALES: usize = 2;
    pub const ZERO_POINTS: usize = 3;
    pub const ORDER: usize = 4;
    pub const BIAS: usize = 5;
}

/// The sizes and the packing of the matrix.
struct Matrix {
    rows: i64,
    columns: i64,
    bits: i64,
    block: i64,
}

fn read_matrix(call: &Call) -> Result<Matrix> {
    let size = |name: &'static str| match required(call.int(name)?, name)? {
        size @ 1.. => Ok(size),
        size => Err(Error::invalid(format!("a size of {size}")).at_part(format!("attribute {name}"))),
    };
    let bits = call.int_or("bits", 4)?;
    if bits != 4 && bits != 8 {
        unsupported!("weights of {bits} bits");
    }
    if call.has_input(input::ORDER) {
        unsupported!("a column order");
    }
    Ok(Matrix { rows: size("K")?, columns: size("N")?, bits, block: size("block_size")? })
}

fn infer(call: &Call) -> Result<Vec<Fact>> {
    let matrix = read_matrix(call)?;
    let (dtype, weight) = (call.dtype(0)?, call.dtype(input::WEIGHT)?);
    if !dtype.is_float() || weight != DType::U8 {
        invalid!("a product of {dtype} and packed weights of type {weight}");
    }
    let mut shape = call.shape(0)?.to_vec();
    match shape.last_mut() {
        Some(last) if last.known().is_none_or(|size| size == matrix.rows) => {
            *last = Dim::Known(matrix.columns)
        }
        _ => invalid!("a product of {} and a matrix of {} rows", display_shape(&shape), matrix.rows),
    }
    call.check_broadcasts(input::BIAS, &shape)?;
    Ok(vec![Fact::new(call.dtype(0)?, shape)])
}

fn expand(x: &mut Expand) -> Result<bool> {
    let Matrix { rows, columns, bits, block } = read_matrix(x)?;
    if x.constant(input::WEIGHT).is_none() {
        unsupported!("weights known only at run time");
    }
    let blocks = (rows - 1) / block + 1;
    let weight = unpack(x, input::WEIGHT, bits, [columns, blocks, block])?;
    let zero = if x.has_input(input::ZERO_POINTS) && x.dtype(input::ZERO_POINTS)? == DType::U8 {
        // Each column begins at a byte.
        let padded = if bits == 4 { blocks.saturating_add(blocks % 2) } else { blocks };
        let zero = unpack(x, input::ZERO_POINTS, bits, [columns, padded, 1])?;
        first(x, zero, 1, blocks)?
    } else if x.has_input(input::ZERO_POINTS) {
        let zero = x.operand_as(input::ZERO_POINTS, DType::F32)?;
        x.reshape(zero, &[columns, blocks, 1])?
    } else {
        let middle = if bits == 4 { 8.0 } else { 128.0 };
        level::scalar(x, middle)?
    };
    let scale = x.operand_as(input::SCALES, DType::F32)?;
    let scale = x.reshape(scale, &[columns, blocks, 1])?;
    let levels = x.op("Sub", &[weight, zero], &[])?;
    let weights = x.op("Mul", &[levels, scale], &[])?;
    let weights = x.reshape(weights, &[columns, blocks.saturating_mul(block)])?;
    let weights = first(x, weights, 1, rows)?;
    let dtype = x.dtype(0)?;
    let weights = x.cast(weights, dtype)?;
    let matrix = x.transpose(weights, &[1, 0])?;
    let a = x.operand(0)?;
    let mut result = x.op("MatMul", &[a, matrix], &[])?;
    if x.has_input(input::BIAS) {
        let bias = x.operand(input::BIAS)?;
        result = x.op("Add", &[result, bias], &[])?;
    }
    x.output(0, result)?;
    Ok(true)
}

/// Emits the values of input `index` as float32. A byte holds two values of 4 bits, the low one first.
fn unpack(x: &mut Expand, index: usize, bits: i64, shape: [i64; 3]) -> Result<Operand> {
    let mut operand = x.operand(index)?;
    if bits == 4 {
        let bytes = x.reshape(operand, &[-1, 1])?;
        let byte = |x: &mut Expand, value: i64| {
            x.literal(&Array::i64(ndarray::arr0(value).into_dyn()).cast(DType::U8)?)
        };
        let (mask, half) = (byte(x, 15)?, byte(x, 4)?);
        let low = x.op("BitwiseAnd", &[bytes, mask], &[])?;
        let high = x.op("BitShift", &[bytes, half], &[("direction", Attribute::String("RIGHT".into()))])?;
        operand = x.op("Concat", &[low, high], &[("axis", Attribute::Int(1))])?;
    }
    let operand = x.reshape(operand, &shape)?;
    x.cast(operand, DType::F32)
}
