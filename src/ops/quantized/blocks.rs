//! Products with matrices and tables of integers in blocks, which the net reads as they are: `BlockGemm` and
//! `BlockEmbed` of ncnn's domain. Only `pass::blocks` and the expansions of onnxruntime's operators make
//! them.

use super::NCNN_DOMAIN;
use crate::lower::AssumedFact;
use crate::ncnn::layer::{Gemm, broadcast_type_c};
use crate::ops::indexing::gather::embed;
use crate::ops::prelude::*;

pub(in crate::ops) const OPS: &[Row] = &[
    Row::of(NCNN_DOMAIN, "BlockGemm", Access::Any, infer_product)
        .multiply_adds(multiply_adds)
        .lower(lower_product)
        .lowers_to("Gemm"),
    Row::of(NCNN_DOMAIN, "BlockEmbed", Access::Any, infer_table)
        .lower(lower_table)
        .lowers_to("Embed of the integers and of the scales, BinaryOp MUL"),
];

/// The indices of the inputs of both operators; the first is the other factor, or the indices of rows.
mod input {
    pub const LEVELS: usize = 1;
    pub const SCALES: usize = 2;
    pub const BIAS: usize = 3;
}

/// The number of values of the lower half of a byte.
const HALF_BYTE: f32 = 16.0;

fn columns(call: &Call) -> Result<Dim> {
    Ok(Dim::Known(call.int("columns")?))
}

/// Returns the code of the format of the integers.
fn term(call: &Call) -> Result<i32> {
    Ok(i32::try_from(call.int("term")?)?)
}

fn rows(call: &Call) -> Result<Dim> {
    Ok(call.shape(input::SCALES)?.at(0)?.clone())
}

fn infer_product(call: &Call) -> Result<Vec<Fact>> {
    let (mut shape, columns) = (call.shape(0)?.to_vec(), columns(call)?);
    match shape.last_mut() {
        Some(last) if last.known().is_none() || *last == columns => *last = rows(call)?,
        _ => invalid!("a product of {} and a matrix of {columns} columns", display_shape(&shape)),
    }
    call.require_equal(call.shape(0)?.at(shape.len() - 1)?, &columns)?;
    term(call)?;
    Ok(vec![Fact::new(call.dtype(0)?, shape)])
}

fn multiply_adds(call: &Call) -> Option<u64> {
    let columns = u64::try_from(columns(call).ok()?.known()?).ok()?;
    Some(element_count(call.output_shape(0).ok()?)?.saturating_mul(columns))
}

fn lower_product(lower: &Lower) -> Result<()> {
    let (columns, outputs) = (columns(lower)?, rows(lower)?);
    let size = |size: &Dim| -> Result<i32> { Ok(i32::try_from(size.known().unwrap_or_default())?) };
    let shape = lower.shape(0)?;
    let count = Dim::product(shape.iter().take(shape.len().saturating_sub(1)));
    let mut layer = Gemm {
        transB: 1,
        constantC: 1,
        constantN: size(&outputs)?,
        constantK: size(&columns)?,
        constant_broadcast_type_C: broadcast_type_c::NONE,
        quantize_term: term(lower)?,
        B_data: Some(lower.required_constant(input::LEVELS)?.clone()),
        B_data_quantize_scales: Some(lower.required_constant(input::SCALES)?.clone()),
        ..Gemm::default()
    };
    if lower.has_input(input::BIAS) {
        let bias = lower.required_constant(input::BIAS)?;
        layer.constant_broadcast_type_C = broadcast_type_c::ONE_N;
        layer.C_data = Some(bias.reshaped(&[1, bias.len()])?);
    }
    // The runtime reads a bottom of one axis incorrectly in some formats.
    lower.give(0, lower.input(0).reshape([count.clone(), columns]).layer(layer, [count, outputs]))
}

fn table_columns(call: &Call) -> Result<i64> {
    let bits = call.int("bits")?;
    let stored = call.shape(input::LEVELS)?.at(1)?.known().unwrap_or_default();
    match bits {
        4 | 8 => Ok(stored * 8 / bits),
        _ => invalid!("a table of {bits} bits"),
    }
}

fn infer_table(call: &Call) -> Result<Vec<Fact>> {
    let mut shape = call.shape(0)?.to_vec();
    shape.push(Dim::Known(table_columns(call)?));
    Ok(vec![Fact::new(call.dtype(input::SCALES)?, shape)])
}

fn lower_table(lower: &Lower) -> Result<()> {
    let columns = Dim::Known(table_columns(lower)?);
    let Some(indices) = lower.integers(0)? else {
        unsupported!("indices that are not an input of the graph")
    };
    lower.assume(0, AssumedFact::NotNegative);
    lower.compute_as_outputs();
    let scales = lower.required_constant(input::SCALES)?;
    let bytes = embed(indices, lower.required_constant(input::LEVELS)?, Some(Tensor::all(1.0, vec![1])?))?;
    let levels = if lower.optional_int("bits")? == Some(8) { bytes } else { halves(bytes) };
    let scales = embed(indices, scales, None)?;
    let (count, blocks) = (scales.size(0), scales.size(1));
    let levels = levels.reshape([count.clone(), blocks.clone(), columns.floor_div(&blocks)]);
    let rows = levels * scales.reshape(shape![&count, blocks, 1]);
    lower.give(0, rows.reshape([count, columns]).isolated())
}

/// Returns the integers of the left and the right half of each row: a signed byte is the left one plus 8,
/// plus 16 times the right one. All numbers are exact in half precision.
fn halves(bytes: Nd) -> Nd {
    let right = bytes.compute(|bytes| (bytes * (1.0 / HALF_BYTE)).floor());
    let left = bytes.compute_with(right, |bytes, right| bytes - right * HALF_BYTE - HALF_BYTE / 2.0);
    left.join(right, 1)
}
