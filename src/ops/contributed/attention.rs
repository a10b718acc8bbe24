//! Attention of the domain `com.microsoft`.
//!
//! | com.microsoft | becomes | refused |
//! | --- | --- | --- |
//! | Attention | MatMul, Split, Attention of ONNX | states in a buffer, rotary positions |
//! | MultiHeadAttention | Attention of ONNX | states in a buffer; packed keys and values |
//! | DecoderMaskedMultiHeadAttention | Attention of ONNX to keys and values of another sequence | states in a buffer |
//! | RotaryEmbedding | RotaryEmbedding of ONNX | packed batches, a scale |
//!
//! A state in a buffer has a fixed size, and the node overwrites a part of it.

use std::ops::Add;

use num_traits::AsPrimitive;

use crate::graph::Attribute;
use crate::ops::attention::parts::{Standard, merge_heads, plain_mask, projected_multiply_adds, split_heads};
use crate::ops::prelude::*;

/// The attributes of both attentions.
struct Heads {
    num_heads: i64,
    scale: Option<f32>,
    mask_filter_value: f32,
    unidirectional: bool,
}

fn read_heads(call: &Call) -> Result<Heads> {
    let num_heads = call.int("num_heads")?;
    if num_heads < 1 {
        return Err(Error::invalid(format!("{num_heads} heads")).at_part("attribute num_heads"));
    }
    // In onnxruntime a scale of 0 is the default, the reciprocal root of the size of a head.
    let scale = call.optional_float("scale")?.filter(|scale| *scale != 0.0);
    let mask_filter_value = call.float_or("mask_filter_value", -10000.0)?;
    let unidirectional = call.flag_or_false("unidirectional")?;
    if call.flag_or_false("past_present_share_buffer")? {
        unsupported!("a state in a buffer");
    }
    Ok(Heads { num_heads, scale, mask_filter_value, unidirectional })
}

/// Returns the sizes of queries, keys and values, all heads together.
fn hidden_sizes(call: &Call) -> Result<[i64; 3]> {
    if let Some(sizes) = call.optional_ints("qkv_hidden_sizes")? {
        let wrong = |sizes: Vec<i64>| Error::invalid(format!("{} sizes for three parts", sizes.len()));
        return sizes.try_into().map_err(|sizes| wrong(sizes).at_part("attribute qkv_hidden_sizes"));
    }
    let Some(all) = call.shape(1)?.last().and_then(Dim::known) else {
        unsupported!("the sizes of the weight are known only at run time");
    };
    Ok([all / 3; 3])
}

/// Indices of the inputs of Attention.
pub(super) mod input {
    pub const MASK: usize = 3;
    pub const PAST: usize = 4;
    pub const BIAS: usize = 5;
    pub const PAST_LENGTH: usize = 6;
}

/// Returns the number of keys: `new` ones after the past ones, whose length is an axis of an input.
fn total(call: &Call, new: &Dim, (past, axis): (usize, usize)) -> Result<Dim> {
    Ok(if call.has_input(past) { call.shape(past)?.at(axis)? + new } else { new.clone() })
}

pub(super) fn multiply_adds(call: &Call) -> Option<u64> {
    let [queries, _, values] = hidden_sizes(call).ok()?;
    projected_multiply_adds(call, [u64::try_from(queries).ok()?, u64::try_from(values).ok()?])
}

/// Counts the products of each query with each key, and of each weight with its value.
pub(super) fn multi_head_multiply_adds(call: &Call) -> Option<u64> {
    let key = call.shape(1).ok()?;
    let length = key.get(if key.len() == 4 { 2 } else { 1 })?;
    let each = element_count(call.shape(0).ok()?)?.saturating_add(element_count(call.output_shape(0).ok()?)?);
    Some(each.saturating_mul(element_count(std::slice::from_ref(length))?))
}

pub(super) fn expand_attention<'x>(x: &'x Expand) -> Result<Expr<'x>> {
    if x.flag_or_false("do_rotary")? || x.optional_int("rotary_embedding_dim")?.is_some_and(|n| n != 0) {
        unsupported!("rotary positions inside the node");
    }
    let heads = read_heads(x)?;
    if x.has_input(input::PAST_LENGTH) {
        unsupported!("a state in a buffer");
    }
    let ([_, length, _], [_, _]) = (x.shape(0)?, x.shape(1)?) else {
        invalid!("a sequence without three axes, or a weight without two");
    };
    let projected = x.operand(0).matmul(x.operand(1)).add_optional(x.optional(2));
    let operands = projected.split(-1, hidden_sizes(x)?);
    let count = total(x, length, (input::PAST, 3))?;
    let mask = mask(x, (input::MASK, input::BIAS), &count, &heads)?;
    let past = [0, 1].map(|index| Some(x.optional(input::PAST)?.element(0, index)));
    let (y, present) = heads.attend(x, Standard { operands, mask, past, has_present: x.has_output(1) });
    if !present.is_empty() {
        x.output(1, x.make.stack(&present, 0));
    }
    Ok(y)
}

impl Heads {
    /// Adds ONNX's Attention with these attributes.
    fn attend<'x>(&self, x: &'x Expand, inputs: Standard<'x>) -> (Expr<'x>, Vec<Expr<'x>>) {
        let heads = ["q_num_heads", "kv_num_heads"].map(|name| (name, self.num_heads.into()));
        let scale = self.scale.map(|scale| ("scale", scale.into()));
        let causal = [("is_causal", i64::from(self.unidirectional).into())];
        inputs.attend(x, heads.into_iter().chain(causal).chain(scale))
    }
}

/// Returns the term that the mask and the bias of these inputs add to the scores.
fn mask<'x>(
    x: &'x Expand,
    (mask, bias): (usize, usize),
    keys: &Dim,
    heads: &Heads,
) -> Result<Option<Expr<'x>>> {
    let terms = [padding_mask(x, mask, keys, heads)?, plain_mask(x, bias)];
    Ok(terms.into_iter().flatten().reduce(Add::add))
}

/// Returns the term that the mask in input `index` adds to the scores: 1 keeps a key and 0 hides it, or it
/// gives the range of valid keys.
fn padding_mask<'x>(x: &'x Expand, index: usize, keys: &Dim, heads: &Heads) -> Result<Option<Expr<'x>>> {
    if !x.has_input(index) {
        return Ok(None);
    }
    let (kept, axes): (Expr, &[i64]) = match x.shape(index)?.len() {
        1 => (keys_between(x, index, keys)?, &[1, 2]),
        2 => (x.operand(index), &[1, 2]),
        3 => (x.operand(index), &[1]),
        rank => unsupported!("a mask of {rank} axes"),
    };
    let kept = kept.unsqueeze(axes).cast(DType::F32);
    Ok(Some((1.0 - kept) * heads.mask_filter_value))
}

/// Returns, `[batch, keys]`, whether a key lies before the end that input `index` has for its batch and, if
/// the input has twice as many elements, not before the start.
fn keys_between<'x>(x: &'x Expand, index: usize, keys: &Dim) -> Result<Expr<'x>> {
    let (batch, elements) = (x.shape(0)?.at(0)?.clone(), x.shape(index)?.at(0)?.clone());
    let has_starts = elements == &batch * 2;
    let (Some(keys), true) = (keys.known(), has_starts || elements == batch) else {
        unsupported!("a mask of {elements} elements for {batch} x {keys} keys");
    };
    limits::check_listed(usize::try_from(keys)?)?;
    let positions = ndarray::Array2::from_shape_fn((1, usize::try_from(keys)?), |(_, key)| key.as_());
    let positions = x.make.cast_literal(&Array::i64(positions.into_dyn()), x.dtype(index)?);
    let bounds = x.operand(index);
    if !has_starts {
        return Ok(positions.less(bounds.unsqueeze(&[1])));
    }
    let ends = x.make.op("Split", [bounds], [("num_outputs", 2.into())]);
    let starts = ends.output(1);
    Ok(positions.less(ends.unsqueeze(&[1])) & positions.greater_or_equal(starts.unsqueeze(&[1])))
}

/// The indices of the inputs of an attention whose queries, keys and values are inputs.
pub(super) struct InputIndices {
    bias: usize,
    mask: usize,
    attention_bias: usize,
    pub past: [usize; 2],
    /// The inputs and outputs that are refused.
    refused: [&'static [usize]; 2],
}

/// The inputs of MultiHeadAttention.
pub(super) const MULTI_HEAD: InputIndices =
    InputIndices { bias: 3, mask: 4, attention_bias: 5, past: [6, 7], refused: [&[8, 9], &[3]] };

/// The inputs of DecoderMaskedMultiHeadAttention.
pub(super) const MASKED: InputIndices = InputIndices {
    bias: 10,
    mask: 3,
    attention_bias: 4,
    past: [5, 6],
    refused: [&[5, 6, 7, 8, 9, 10], &[1, 2, 3]],
};

/// Returns the number of new keys.
fn new_keys(call: &Call) -> Result<Dim> {
    if !call.has_input(1) || !call.has_input(2) || call.shape(0)?.len() != 3 {
        unsupported!("queries, keys and values in one tensor");
    }
    Ok(match (call.shape(1)?, call.shape(2)?) {
        // Keys and values of another sequence may be split by heads already.
        ([_, length, _], [_, _, _]) | ([_, _, length, _], [_, _, _, _]) => length.clone(),
        (keys, values) => unsupported!("keys of {} axes, and values of {}", keys.len(), values.len()),
    })
}

pub(super) fn expand_masked<'x>(x: &'x Expand) -> Result<Expr<'x>> {
    if x.has_input(1) && x.shape(1)?.len() != 4 {
        unsupported!("a state in a buffer");
    }
    expand(x, &MASKED)
}

pub(super) fn expand<'x>(x: &'x Expand, indices: &InputIndices) -> Result<Expr<'x>> {
    let heads = read_heads(x)?;
    let [inputs, outputs] = indices.refused;
    if inputs.iter().any(|index| x.has_input(*index)) || outputs.iter().any(|index| x.has_output(*index)) {
        unsupported!("a state in a buffer, or an output of scores");
    }
    let new = new_keys(x)?;
    let is_split = x.shape(1)?.len() == 4;
    if is_split && (x.has_input(indices.bias) || indices.past.iter().any(|past| x.has_input(*past))) {
        unsupported!("keys split by heads together with a bias or a state");
    }
    if heads.unidirectional && x.shape(0)?.at(1)? != &new {
        unsupported!("a causal mask over another sequence: onnxruntime shows all of it to the last query");
    }
    let mut parts = [0, 1, 2].map(|index| x.operand(index));
    if let Some(bias) = x.optional(indices.bias) {
        let hidden = |index: usize| {
            let size = x.shape(index)?.last().and_then(Dim::known);
            size.ok_or_else(|| Error::unsupported("the hidden size is known only at run time"))
        };
        let sizes = [hidden(0)?, hidden(1)?, hidden(2)?];
        for (part, bias) in parts.iter_mut().zip(bias.split(0, sizes)) {
            *part = *part + bias;
        }
    }
    if let ([q, _, _], true) = (&mut parts, is_split) {
        *q = split_heads(*q, heads.num_heads);
    }
    let [past_keys, _] = indices.past;
    let mask = mask(x, (indices.mask, indices.attention_bias), &total(x, &new, (past_keys, 2))?, &heads)?;
    let past = indices.past.map(|index| x.optional(index));
    let has_present = x.has_output(1) || x.has_output(2);
    let (y, present) = heads.attend(x, Standard { operands: parts, mask, past, has_present });
    for (index, present) in (1..).zip(present) {
        x.output(index, present);
    }
    Ok(if is_split { merge_heads(y) } else { y })
}

pub(super) fn expand_rotary<'x>(x: &'x Expand) -> Result<Expr<'x>> {
    let [input, mut ids, cos, sin] = [0, 1, 2, 3].map(|index| x.operand(index));
    if x.shape(1)?.len() != 2 {
        // The position of the first token.
        let positions = input.positions(-2) + ids.scalar();
        ids = positions
            .broadcast_to(x.make.concat(&[input.size(0).reshape(&[1]), input.size(-2).reshape(&[1])], 0));
    }
    let attributes = rotary_attributes(x)?;
    Ok(x.make.op("RotaryEmbedding", [input, cos, sin, ids], attributes))
}

/// Returns the attributes of ONNX's RotaryEmbedding for a node whose input 2 has the cosines.
pub(super) fn rotary_attributes(x: &Expand) -> Result<[(&'static str, Attribute); 3]> {
    if x.flag_or_false("is_packed_batching")? || x.float_or("scale", 1.0)? != 1.0 {
        unsupported!("packed batches or a scale");
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
    Ok([
        ("interleaved", x.int_or("interleaved", 0)?.into()),
        ("num_heads", heads.into()),
        ("rotary_embedding_dim", rotated.into()),
    ])
}
