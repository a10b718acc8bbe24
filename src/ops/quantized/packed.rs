//! Weights of 2, 4 or 8 bits in blocks, each with a scale: MatMulNBits, whose other factor is not rounded,
//! and GatherBlockQuantized.
//!
//! Spec:
//! <https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md#commicrosoftmatmulnbits>.

use super::MICROSOFT;
use super::in_blocks::{keep_product, keep_table};
use crate::ops::prelude::*;
use crate::pass::builder::Term;

pub(in crate::ops) const OPS: &[Row] = &[
    Row::expanded(MICROSOFT, "MatMulNBits", expand)
        .lowers_to("MatMul; with `--weights`, Gemm of integers in blocks")
        .limits("weights not of 2, 4 or 8 bits; weights or groups (g_idx) known only at run time; zero points with groups"),
    Row::expanded(MICROSOFT, "GatherBlockQuantized", expand_gather)
        .lowers_to("Gather; with `--weights`, Embed of integers and of their scales")
        .limits(
            "other axes than rows of a matrix in blocks along its columns; tables known only at run time",
        ),
];

/// Indices of the inputs.
pub(super) mod input {
    pub const WEIGHT: usize = 1;
    pub const SCALES: usize = 2;
    pub const ZERO_POINTS: usize = 3;
    /// The block whose scale each row of the matrix has: g_idx.
    pub const GROUPS: usize = 4;
    pub const BIAS: usize = 5;
}

/// The sizes and the packing of the matrix.
pub(super) struct WeightMatrix {
    pub rows: i64,
    pub columns: i64,
    pub bits: i64,
    pub block: i64,
}

pub(in crate::ops) fn check_bits(bits: i64) -> Result<()> {
    if ![2, 4, 8].contains(&bits) {
        unsupported!("weights of {bits} bits");
    }
    Ok(())
}

/// Returns an attribute that is a size.
pub(in crate::ops) fn read_size(call: &Call, name: &str) -> Result<i64> {
    match call.int(name)? {
        size @ 1.. => Ok(size),
        size => Err(Error::invalid(format!("a size of {size}")).at_part(format!("attribute {name}"))),
    }
}

fn read_matrix(call: &Call) -> Result<WeightMatrix> {
    let bits = call.int("bits")?;
    check_bits(bits)?;
    let [rows, columns, block] = ["K", "N", "block_size"].map(|name| read_size(call, name));
    Ok(WeightMatrix { rows: rows?, columns: columns?, bits, block: block? })
}

fn expand<'x>(x: &'x Expand) -> Result<bool> {
    let matrix = read_matrix(x)?;
    let (dtype, weight) = (x.dtype(0)?, x.dtype(input::WEIGHT)?);
    if !dtype.is_float() || weight != DType::U8 {
        invalid!("a product of {dtype} and packed weights of type {weight}");
    }
    if x.constant(input::WEIGHT).is_none() {
        unsupported!("weights known only at run time");
    }
    if x.has_input(input::GROUPS) {
        check_groups(x, matrix.bits)?;
    }
    check_scales(x, &matrix)?;
    if !x.has_input(input::GROUPS) && keep_product(x, &matrix)? {
        return Ok(true);
    }
    let WeightMatrix { rows, columns, bits, block } = matrix;
    let blocks = (rows - 1) / block + 1;
    let weight = unpack(x, input::WEIGHT, bits, [columns, blocks, block]);
    let groups = x.optional(input::GROUPS);
    let zero = if groups.is_some() || !x.has_input(input::ZERO_POINTS) {
        x.make.number(middle(bits).into(), DType::F32)
    } else if x.dtype(input::ZERO_POINTS)? == DType::U8 {
        unpack(x, input::ZERO_POINTS, bits, [columns, padded(blocks, bits), 1]).slice(1, 0, blocks)
    } else {
        x.operand_as(input::ZERO_POINTS, DType::F32).reshape(&[columns, blocks, 1])
    };
    let scale = x.operand_as(input::SCALES, DType::F32).reshape(&[columns, blocks, 1]);
    let by_row =
        |weights: Expr<'x>| weights.reshape(&[columns, blocks.saturating_mul(block)]).slice(1, 0, rows);
    let weights = match groups {
        Some(groups) => {
            let scale = scale.reshape(&[columns, blocks]).gather(groups.slice(0, 0, rows), 1);
            (by_row(weight) - zero) * scale
        }
        None => by_row((weight - zero) * scale),
    };
    let matrix = weights.cast(x.dtype(0)?).transpose(&[1, 0]);
    let product = x.operand(0).matmul(matrix);
    x.output(0, product.add_optional(x.optional(input::BIAS)));
    Ok(true)
}

/// Checks the shape of the scales: onnxruntime refuses other shapes of as many elements.
fn check_scales(x: &Expand, matrix: &WeightMatrix) -> Result<()> {
    let (scales, columns) = (x.shape(input::SCALES)?, matrix.columns);
    let blocks = (matrix.rows - 1) / matrix.block + 1;
    if *scales != shape![columns, blocks] && *scales != shape![columns.saturating_mul(blocks)] {
        invalid!("scales of the shape {} for {columns} x {blocks} blocks", display_shape(scales));
    }
    Ok(())
}

/// Checks the groups of rows. onnxruntime ignores the zero points of such a matrix (`matmul_nbits_impl.cc`).
fn check_groups(x: &Expand, bits: i64) -> Result<()> {
    if x.constant(input::GROUPS).is_none() {
        unsupported!("groups of rows (g_idx) known only at run time");
    }
    if !x.has_input(input::ZERO_POINTS) {
        return Ok(());
    }
    let zero = x.constant(input::ZERO_POINTS).filter(|zero| zero.dtype() == DType::U8);
    // The middle in each part of a byte.
    let byte = match bits {
        2 => 0xAA,
        4 => 0x88,
        _ => 0x80,
    };
    match zero {
        Some(zero) if zero.load()?.to_bytes()?.iter().all(|b| *b == byte) => Ok(()),
        _ => unsupported!("zero points of rows in groups (g_idx): onnxruntime ignores them"),
    }
}

/// Returns the zero point of unsigned values of which the model gives none.
pub(in crate::ops) fn middle(bits: i64) -> u8 {
    match bits {
        2 => 2,
        4 => 8,
        _ => 128,
    }
}

/// Returns the number of packed values of a row of `count`, which begins at a byte.
pub(in crate::ops) fn padded(count: i64, bits: i64) -> i64 {
    let values = 8_i64.checked_div(bits).unwrap_or(1);
    count.saturating_add(values - 1).checked_div(values).unwrap_or(count).saturating_mul(values)
}

/// Returns the values of input `index` as float32. A byte contains several values of 4 or 2 bits, the lowest
/// first.
pub(in crate::ops) fn unpack<'x>(x: &'x Expand, index: usize, bits: i64, shape: [i64; 3]) -> Expr<'x> {
    let mut values = x.operand(index);
    if bits < 8 {
        let bytes = values.reshape(&[-1, 1]);
        let value = |index: i64| {
            let right = [("direction", "RIGHT".into())];
            let shifted = x.make.op("BitShift", [bytes, (index * bits).with_type_of(bytes)], right);
            shifted.bitwise_and((1 << bits) - 1)
        };
        let indices = 0..8_i64.checked_div(bits).unwrap_or(1);
        values = x.make.concat(&indices.map(value).collect::<Vec<_>>(), 1);
    }
    values.reshape(&shape).cast(DType::F32)
}

/// The inputs of GatherBlockQuantized.
pub(super) mod table {
    pub const DATA: usize = 0;
    pub const INDICES: usize = 1;
    pub const SCALES: usize = 2;
    pub const ZERO_POINTS: usize = 3;
}

/// A matrix of which rows are gathered.
pub(super) struct Table {
    pub rows: i64,
    pub columns: i64,
    pub block: i64,
    /// The number of bits of values that are packed in bytes; `None` for a type of narrow integers.
    pub packed: Option<i64>,
}

fn read_table(call: &Call) -> Result<Table> {
    let bits = call.int("bits")?;
    let block = call.int("block_size")?;
    let packed = if call.dtype(table::DATA)? == DType::U8 {
        check_bits(bits)?;
        Some(bits)
    } else {
        None
    };
    let (axis, along) = (call.int("gather_axis")?, call.int("quantize_axis")?);
    let [rows, columns] = *call.sizes(table::DATA)?.as_slice() else {
        unsupported!("a table of other than two axes")
    };
    if ![0, -2].contains(&axis) || ![1, -1].contains(&along) {
        unsupported!("elements along axis {axis}, in blocks along axis {along}");
    }
    if block < 1 {
        invalid!("blocks of {block} elements");
    }
    let values = packed.and_then(|bits| 8_i64.checked_div(bits)).unwrap_or(1);
    Ok(Table { rows, columns: columns.saturating_mul(values), block, packed })
}

fn expand_gather(x: &Expand) -> Result<bool> {
    let stored = read_table(x)?;
    if x.constant(table::DATA).is_none() {
        unsupported!("a table known only at run time");
    }
    if keep_table(x, &stored)? {
        return Ok(true);
    }
    let Table { rows, columns, block, packed } = stored;
    let blocks = (columns - 1) / block + 1;
    let whole = blocks.saturating_mul(block);
    let values = |index: usize, count: i64| match packed {
        Some(bits) => unpack(x, index, bits, [rows, padded(count, bits), 1]),
        None => x.operand_as(index, DType::F32).reshape(&[rows, count, 1]),
    };
    let mut data = values(table::DATA, columns);
    if whole > columns {
        data = data.pad(&[0, 0, 0, 0, whole - columns, 0]);
    }
    let data = data.reshape(&[rows, blocks, block]);
    let zero = if x.has_input(table::ZERO_POINTS) {
        values(table::ZERO_POINTS, blocks).slice(1, 0, blocks)
    } else {
        x.make.number(packed.map_or(0.0, |bits| middle(bits).into()), DType::F32)
    };
    let scale = x.operand_as(table::SCALES, DType::F32).reshape(&[rows, blocks, 1]);
    let weights = ((data - zero) * scale).reshape(&[rows, whole]).slice(1, 0, columns);
    let weights = weights.cast(x.dtype(table::SCALES)?);
    x.output(0, x.make.op("Gather", [weights, x.operand(table::INDICES)], []));
    Ok(true)
}
