//! Attention of the domain `com.microsoft`.
//!
//! | com.microsoft | lowers to | refused |
//! | --- | --- | --- |
//! | Attention | MatMul, Softmax, MatMul by head | past and present states, rotary positions |
//! | MultiHeadAttention | the same, with given queries, keys and values | states; packed keys and values |
//! | RotaryEmbedding | RotaryEmbedding of ONNX | packed batches, a scale |

use num_traits::AsPrimitive;

use super::like_input;
use crate::common::limits;
use crate::error::{At, Error, Result, unsupported};
use crate::graph::Attribute;
use crate::op::{Call, Fact, element_count, required};
use crate::pass::expand::{Expand, Operand};
use crate::tensor::{Array, Dim};

/// The attributes of both attentions.
struct Heads {
    num_heads: i64,
    scale: Option<f32>,
    mask_filter_value: f32,
    unidirectional: bool,
}

fn read_heads(call: &Call) -> Result<Heads> {
    let num_heads = required(call.int("num_heads")?, "num_heads")?;
    if num_heads < 1 {
        return Err(Error::invalid(format!("{num_heads} heads")).at_part("attribute num_heads"));
    }
    // In onnxruntime a scale of 0 is the default, the reciprocal root of the size of a head.
    let scale = call.float("scale")?.filter(|scale| *scale != 0.0);
    let mask_filter_value = call.float_or("mask_filter_value", -10000.0)?;
    let unidirectional = call.flag("unidirectional", false)?;
    Ok(Heads { num_heads, scale, mask_filter_value, unidirectional })
}

/// Returns the sizes of queries, keys and values, all heads together.
fn hidden_sizes(call: &Call) -> Result<Vec<i64>> {
    if let Some(sizes) = call.ints("qkv_hidden_sizes")? {
        return Ok(sizes);
    }
    let Some(all) = call.shape(1)?.last().and_then(Dim::known) else {
        unsupported!("the sizes of the weight are known only at run time");
    };
    Ok(vec![all / 3; 3])
}

pub(super) fn infer_attention(call: &Call) -> Result<Vec<Fact>> {
    read_heads(call)?;
    if call.flag("do_rotary", false)? || call.int("rotary_embedding_dim")?.is_some_and(|n| n != 0) {
        unsupported!("rotary positions inside the node");
    }
    refuse_states(call, &[4, 6], &[1])?;
    let mut shape = call.shape(0)?.to_vec();
    if let (Some(last), Some(size)) = (shape.last_mut(), hidden_sizes(call)?.get(2)) {
        *last = Dim::Known(*size);
    }
    Ok(vec![Fact::new(call.dtype(0)?, shape)])
}

/// Counts the product with the weight, and those of each query with each key, and of each weight with its value.
pub(super) fn multiply_adds(call: &Call) -> Option<u64> {
    let [input, weight] = [call.shape(0).ok()?, call.shape(1).ok()?];
    let projected = element_count(input)?.saturating_mul(element_count(weight.get(1..)?)?);
    let sizes = hidden_sizes(call).ok()?;
    let [queries, values] = [u64::try_from(*sizes.first()?).ok()?, u64::try_from(*sizes.get(2)?).ok()?];
    let pairs = element_count(input.get(..2)?)?.saturating_mul(element_count(input.get(1..2)?)?);
    Some(projected.saturating_add(pairs.saturating_mul(queries.saturating_add(values))))
}

/// Like [`multiply_adds`], without a weight.
pub(super) fn multi_head_multiply_adds(call: &Call) -> Option<u64> {
    let key = call.shape(1).ok()?;
    let length = key.get(if key.len() == 4 { 2 } else { 1 })?;
    let each = element_count(call.shape(0).ok()?)?.saturating_add(element_count(call.output_shape(0).ok()?)?);
    Some(each.saturating_mul(element_count(std::slice::from_ref(length))?))
}

fn refuse_states(call: &Call, inputs: &[usize], outputs: &[usize]) -> Result<()> {
    if inputs.iter().any(|index| call.has_input(*index))
        || outputs.iter().any(|index| call.has_output(*index))
    {
        unsupported!("past and present states");
    }
    Ok(())
}

pub(super) fn expand_attention(x: &mut Expand) -> Result<bool> {
    let heads = read_heads(x)?;
    let sizes = hidden_sizes(x)?;
    let (input, weight) = (x.operand(0)?, x.operand(1)?);
    let mut projected = x.op("MatMul", &[input, weight], &[])?;
    if x.has_input(2) {
        let bias = x.operand(2)?;
        projected = x.op("Add", &[projected, bias], &[])?;
    }
    let split = x.ints(&sizes)?;
    let parts = x.op_n("Split", &[Some(projected), Some(split)], &[("axis", Attribute::Int(-1))], 3)?;
    let length = x.shape(0)?.at(1)?.clone();
    let mask = padding_mask(x, 3, &length, &heads)?;
    let bias = if x.has_input(5) { Some(x.operand(5)?) } else { None };
    let [q, k, v] = [*parts.at(0)?, *parts.at(1)?, *parts.at(2)?];
    let result = attend(x, &heads, [q, k, v], *sizes.at(0)?, [&length, &length], &[mask, bias])?;
    x.output(0, result)?;
    Ok(true)
}

/// Emits the term that the mask in input `index` adds to the scores: 1 keeps a key and 0 hides it, or it
/// gives the range of valid keys.
fn padding_mask(x: &mut Expand, index: usize, keys: &Dim, heads: &Heads) -> Result<Option<Operand>> {
    if !x.has_input(index) {
        return Ok(None);
    }
    let (kept, axes): (Operand, &[i64]) = match x.shape(index)?.len() {
        1 => (keys_between(x, index, keys)?, &[1, 2]),
        2 => (x.operand(index)?, &[1, 2]),
        3 => (x.operand(index)?, &[1]),
        rank => unsupported!("a mask of {rank} axes"),
    };
    let axes = x.ints(axes)?;
    let kept = x.op("Unsqueeze", &[kept, axes], &[])?;
    let kept = x.cast(kept, x.dtype(0)?)?;
    let (one, filter) = (x.scalar_like(0, 1.0)?, x.scalar_like(0, heads.mask_filter_value)?);
    let hidden = x.op("Sub", &[one, kept], &[])?;
    x.op("Mul", &[hidden, filter], &[]).map(Some)
}

/// Emits, `[batch, keys]`, whether a key lies before the end that input `index` has for its batch and, if the
/// input has twice as many elements, not before the start.
fn keys_between(x: &mut Expand, index: usize, keys: &Dim) -> Result<Operand> {
    let (batch, given) = (x.shape(0)?.at(0)?.clone(), x.shape(index)?.at(0)?.clone());
    let has_starts = given == batch.mul(&Dim::Known(2))?;
    let (Some(keys), true) = (keys.known(), has_starts || given == batch) else {
        unsupported!("a mask of {given} elements for {batch} x {keys} keys");
    };
    limits::check_listed(usize::try_from(keys)?)?;
    let places = Array::i64(
        ndarray::Array2::from_shape_fn((1, usize::try_from(keys)?), |(_, key)| key.as_()).into_dyn(),
    );
    let places = x.literal(&places.cast(x.dtype(index)?)?)?;
    let (bounds, axis) = (x.operand(index)?, x.ints(&[1])?);
    let parts = match has_starts {
        true => x.op_n("Split", &[Some(bounds)], &[("num_outputs", Attribute::Int(2))], 2)?,
        false => vec![bounds],
    };
    let ends = x.op("Unsqueeze", &[*parts.at(0)?, axis], &[])?;
    let before = x.op("Less", &[places, ends], &[])?;
    let Some(starts) = parts.get(1) else { return Ok(before) };
    let starts = x.op("Unsqueeze", &[*starts, axis], &[])?;
    let after = x.op("GreaterOrEqual", &[places, starts], &[])?;
    x.op("And", &[before, after], &[])
}

/// Emits `[batch, length, heads * size]` as `[batch, heads, length, size]`.
fn split_heads(x: &mut Expand, operand: Operand, heads: &Heads) -> Result<Operand> {
    let sizes = x.ints(&[0, 0, heads.num_heads, -1])?;
    let apart = x.op("Reshape", &[operand, sizes], &[])?;
    x.op("Transpose", &[apart], &[("perm", Attribute::Ints(vec![0, 2, 1, 3]))])
}

/// Emits `softmax(q k / sqrt(size) + masks) v` by heads; `hidden` is the size of the queries of all heads.
fn attend(
    x: &mut Expand,
    heads: &Heads,
    [q, k, v]: [Operand; 3],
    hidden: i64,
    lengths: [&Dim; 2],
    masks: &[Option<Operand>],
) -> Result<Operand> {
    let size = hidden.checked_div(heads.num_heads).unwrap_or(1);
    let default: f32 = size.as_();
    let scale = heads.scale.unwrap_or(1.0 / default.sqrt());
    let q = split_heads(x, q, heads)?;
    let sizes = x.ints(&[0, 0, heads.num_heads, -1])?;
    let k = x.op("Reshape", &[k, sizes], &[])?;
    let k = x.op("Transpose", &[k], &[("perm", Attribute::Ints(vec![0, 2, 3, 1]))])?;
    let v = split_heads(x, v, heads)?;
    let scores = x.op("MatMul", &[q, k], &[])?;
    let scale = x.scalar_like(0, scale)?;
    let mut scores = x.op("Mul", &[scores, scale], &[])?;
    for mask in masks.iter().flatten() {
        scores = x.op("Add", &[scores, *mask], &[])?;
    }
    if heads.unidirectional {
        let causal = causal_mask(x, lengths)?;
        scores = x.op("Add", &[scores, causal], &[])?;
    }
    let weights = x.op("Softmax", &[scores], &[("axis", Attribute::Int(-1))])?;
    let result = x.op("MatMul", &[weights, v], &[])?;
    let result = x.op("Transpose", &[result], &[("perm", Attribute::Ints(vec![0, 2, 1, 3]))])?;
    let sizes = x.ints(&[0, 0, -1])?;
    x.op("Reshape", &[result, sizes], &[])
}

/// Emits the term that hides later positions.
fn causal_mask(x: &mut Expand, lengths: [&Dim; 2]) -> Result<Operand> {
    let [Some(queries), Some(keys)] = lengths.map(Dim::known) else {
        unsupported!("a causal mask of free length");
    };
    let (rows, columns) = (usize::try_from(queries)?, usize::try_from(keys)?);
    if rows.saturating_mul(columns) > limits::MATRIX_ELEMENTS {
        unsupported!("a causal mask of {rows} x {columns} elements");
    }
    // Lower than that of padding: if all earlier keys are padding, later ones stay hidden.
    let hidden = f32::MIN;
    let after = columns.saturating_sub(rows);
    let mask =
        ndarray::Array2::from_shape_fn(
            (rows, columns),
            |(row, column)| {
                if column > row + after { hidden } else { 0.0 }
            },
        );
    let dtype = x.dtype(0)?;
    x.literal(&Array::f32(mask.into_dyn()).cast(dtype)?)
}

pub(super) fn infer_multi_head(call: &Call) -> Result<Vec<Fact>> {
    let heads = read_heads(call)?;
    refuse_states(call, &[6, 7, 8, 9], &[1, 2, 3])?;
    if !call.has_input(1) || !call.has_input(2) || call.shape(0)?.len() != 3 {
        unsupported!("queries, keys and values in one tensor");
    }
    let mut shape = call.shape(0)?.to_vec();
    if let (Some(last), Some(size)) = (shape.last_mut(), call.shape(2)?.last()) {
        let apart = call.shape(2)?.len() == 4;
        *last = if apart { size.mul(&Dim::Known(heads.num_heads))? } else { size.clone() };
    }
    Ok(vec![Fact::new(call.dtype(0)?, shape)])
}

pub(super) fn expand_multi_head(x: &mut Expand) -> Result<bool> {
    let heads = read_heads(x)?;
    let (queries, keys, values) = (x.shape(0)?.to_vec(), x.shape(1)?.to_vec(), x.shape(2)?.len());
    let mut parts = [x.operand(0)?, x.operand(1)?, x.operand(2)?];
    // Keys and values of another sequence may be split by heads already; they then include their biases.
    let length = match (keys.as_slice(), values) {
        ([_, length, _], 3) => length,
        ([_, _, length, _], 4) if !x.has_input(3) => {
            for part in parts.iter_mut().skip(1) {
                let swapped = x.transpose(*part, &[0, 2, 1, 3])?;
                *part = x.reshape(swapped, &[0, 0, -1])?;
            }
            length
        }
        _ => unsupported!("keys of {} axes, and values of {values}", keys.len()),
    };
    let hidden = |shape: &[Dim]| {
        let last = shape.last().and_then(Dim::known);
        last.ok_or_else(|| Error::unsupported("the hidden size is known only at run time"))
    };
    if x.has_input(3) {
        let sizes = [hidden(x.shape(0)?)?, hidden(x.shape(1)?)?, hidden(x.shape(2)?)?];
        let (bias, split) = (x.operand(3)?, x.ints(&sizes)?);
        let biases = x.op_n("Split", &[Some(bias), Some(split)], &[("axis", Attribute::Int(0))], 3)?;
        for (part, bias) in parts.iter_mut().zip(biases) {
            *part = x.op("Add", &[*part, bias], &[])?;
        }
    }
    let mask = padding_mask(x, 4, length, &heads)?;
    let bias = if x.has_input(5) { Some(x.operand(5)?) } else { None };
    let size = hidden(&queries)?;
    let result = attend(x, &heads, parts, size, [queries.at(1)?, length], &[mask, bias])?;
    x.output(0, result)?;
    Ok(true)
}

pub(super) fn infer_rotary(call: &Call) -> Result<Vec<Fact>> {
    for name in ["interleaved", "num_heads", "rotary_embedding_dim"] {
        call.int(name)?;
    }
    if call.flag("is_packed_batching", false)? || call.float_or("scale", 1.0)? != 1.0 {
        unsupported!("packed batches or a scale");
    }
    Ok(vec![like_input(call)?])
}

pub(super) fn expand_rotary(x: &mut Expand) -> Result<bool> {
    let positions = x.shape(1)?.to_vec();
    let (input, ids, cos, sin) = (x.operand(0)?, x.operand(1)?, x.operand(2)?, x.operand(3)?);
    if positions.len() != 2 {
        unsupported!("positions given by an offset");
    }
    let rotated = x.int_or("rotary_embedding_dim", 0)?;
    let heads = match (x.int_or("num_heads", 0)?, x.shape(0)?) {
        // Without num_heads the angles determine the size of the heads (`rotary_embedding_helper.h`,
        // CheckInputs).
        (0, [_, _, Dim::Known(hidden)]) if rotated == 0 => {
            let pairs = x.shape(2)?.last().and_then(Dim::known).unwrap_or(0);
            hidden.checked_div(pairs.saturating_mul(2)).unwrap_or(0)
        }
        (heads, _) => heads,
    };
    let attributes = [
        ("interleaved", Attribute::Int(x.int_or("interleaved", 0)?)),
        ("num_heads", Attribute::Int(heads)),
        ("rotary_embedding_dim", Attribute::Int(rotated)),
    ];
    let result = x.op("RotaryEmbedding", &[input, cos, sin, ids], &attributes)?;
    x.output(0, result)?;
    Ok(true)
}
