//! MatMulBnb4: a product with weights of four bits, each the index of a number in a table, in blocks with a
//! scale.

use crate::op::CONTRIB_DOMAIN as DOMAIN;
use crate::ops::prelude::*;
use crate::ops::quantized::packed::read_size;
use crate::pass::builder::Term;

pub(in crate::ops) const OPS: &[Row] = &[Row::defined(DOMAIN, "MatMulBnb4", expand)
    .lowers_to("MatMul with floats")
    .limits("the transposed matrix; weights known only at run time")];

/// The numbers of `quant_type` 0, FP4 (`blockwise_quant_block_bnb4.h`).
const FP4: [f32; 16] = [
    0.0,
    5.208_333_3e-3,
    0.666_666_7,
    1.0,
    0.333_333_34,
    0.5,
    0.166_666_67,
    0.25,
    -0.0,
    -5.208_333_3e-3,
    -0.666_666_7,
    -1.0,
    -0.333_333_34,
    -0.5,
    -0.166_666_67,
    -0.25,
];
/// The numbers of `quant_type` 1, NF4.
const NF4: [f32; 16] = [
    -1.0,
    -0.696_192_8,
    -0.525_073_05,
    -0.394_917_5,
    -0.284_441_38,
    -0.184_773_43,
    -0.091_050_036,
    0.0,
    0.079_580_3,
    0.160_930_2,
    0.246_112_3,
    0.337_915_24,
    0.440_709_83,
    0.562_617,
    0.722_956_84,
    1.0,
];

struct Matrix {
    rows: i64,
    columns: i64,
    block: i64,
    numbers: [f32; 16],
}

fn read(call: &Call) -> Result<Matrix> {
    if !call.flag("transB")? {
        unsupported!("the transposed matrix");
    }
    let numbers = match call.int("quant_type")? {
        0 => FP4,
        1 => NF4,
        other => invalid!("quant_type {other}"),
    };
    let [rows, columns, block] = ["K", "N", "block_size"].map(|name| read_size(call, name));
    Ok(Matrix { rows: rows?, columns: columns?, block: block?, numbers })
}

fn expand<'x>(x: &'x Expand) -> Result<Expr<'x>> {
    let Matrix { rows, columns, block, numbers } = read(x)?;
    x.required_constant(1)?;
    x.required_constant(2)?;
    let bytes = x.operand(1).reshape(&[-1, 1]);
    let first = x.make.op("BitShift", [bytes, 4_i64.with_type_of(bytes)], [("direction", "RIGHT".into())]);
    let indices = x.make.concat(&[first, bytes.bitwise_and(15_i64)], 1).reshape(&[-1]);
    let count = rows.saturating_mul(columns);
    let blocks = (count - 1) / block + 1;
    let levels = x.make.floats(&numbers).gather(indices.cast(DType::I64), 0);
    // The last block may be shorter.
    let end = blocks.saturating_mul(block);
    let padded = levels.slice(0, 0, count).pad(&[0, end - count]);
    let scales = x.operand_as(2, DType::F32).reshape(&[blocks, 1]);
    let weights = (padded.reshape(&[blocks, block]) * scales).reshape(&[end]).slice(0, 0, count);
    let matrix = weights.reshape(&[columns, rows]).cast(x.dtype(0)?).transpose(&[1, 0]);
    Ok(x.operand(0).matmul(matrix))
}
