//! Attention of the domain `com.microsoft`.
//!
//! | com.microsoft | lowers to | refused |
//! | --- | --- | --- |
//! | Attention | MatMul, Softmax, MatMul by head | past and present states, rotary positions |
//! | MultiHeadAttention | the same, with given queries, keys and values | states; packed keys and values |
//! | RotaryEmbedding | RotaryEmbedding of ONNX | packed batches, a scale |

use num_traits::AsPrimitive;

use crate::ops::attention::parts::{merge_heads, split_heads};
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
    let scale = call.given_float("scale")?.filter(|scale| *scale != 0.0);
    let mask_filter_value = call.float_or("mask_filter_value", -10000.0)?;
    let unidirectional = call.flag("unidirectional")?;
    Ok(Heads { num_heads, scale, mask_filter_value, unidirectional })
}

/// Returns the sizes of queries, keys and values, all heads together.
fn hidden_sizes(call: &Call) -> Result<[i64; 3]> {
    if let Some(sizes) = call.given_ints("qkv_hidden_sizes")? {
        let wrong = |sizes: Vec<i64>| Error::invalid(format!("{} sizes for three parts", sizes.len()));
        return sizes.try_into().map_err(|sizes| wrong(sizes).at_part("attribute qkv_hidden_sizes"));
    }
    let Some(all) = call.shape(1)?.last().and_then(Dim::known) else {
        unsupported!("the sizes of the weight are known only at run time");
    };
    Ok([all / 3; 3])
}

pub(super) fn infer_attention(call: &Call) -> Result<Vec<Fact>> {
    if call.flag_or("do_rotary", false)? || call.given_int("rotary_embedding_dim")?.is_some_and(|n| n != 0) {
        unsupported!("rotary positions inside the node");
    }
    refuse_states(call, &[4, 6], &[1])?;
    let mut shape = call.shape(0)?.to_vec();
    let [_, _, size] = hidden_sizes(call)?;
    if let Some(last) = shape.last_mut() {
        *last = Dim::Known(size);
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

pub(super) fn expand_attention<'x>(x: &'x Expand) -> Result<Expr<'x>> {
    let heads = read_heads(x)?;
    let sizes @ [hidden, _, _] = hidden_sizes(x)?;
    let projected = x.operand(0).matmul(x.operand(1)).add_optional(x.optional(2));
    let parts = projected.split(-1, sizes);
    let length = x.shape(0)?.at(1)?;
    let masks = [padding_mask(x, 3, length, &heads)?, x.optional(5)];
    attend(x, &heads, parts, hidden, [length, length], masks)
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
    let kept = kept.unsqueeze(axes).cast(x.dtype(0)?);
    Ok(Some((1.0 - kept) * heads.mask_filter_value))
}

/// Returns, `[batch, keys]`, whether a key lies before the end that input `index` has for its batch and, if the
/// input has twice as many elements, not before the start.
fn keys_between<'x>(x: &'x Expand, index: usize, keys: &Dim) -> Result<Expr<'x>> {
    let (batch, given) = (x.shape(0)?.at(0)?.clone(), x.shape(index)?.at(0)?.clone());
    let has_starts = given == batch.mul(&Dim::Known(2))?;
    let (Some(keys), true) = (keys.known(), has_starts || given == batch) else {
        unsupported!("a mask of {given} elements for {batch} x {keys} keys");
    };
    limits::check_listed(usize::try_from(keys)?)?;
    let places = ndarray::Array2::from_shape_fn((1, usize::try_from(keys)?), |(_, key)| key.as_());
    let places = x.make.cast_literal(&Array::i64(places.into_dyn()), x.dtype(index)?);
    let bounds = x.operand(index);
    if !has_starts {
        return Ok(places.less(bounds.unsqueeze(&[1])));
    }
    let [ends, starts] = x.make.op_n("Split", [bounds], [("num_outputs", 2.into())]);
    Ok(places.less(ends.unsqueeze(&[1])) & places.greater_or_equal(starts.unsqueeze(&[1])))
}

/// Returns `softmax(q k / sqrt(size) + masks) v` by heads; `hidden` is the size of the queries of all heads.
fn attend<'x>(
    x: &'x Expand,
    heads: &Heads,
    [q, k, v]: [Expr<'x>; 3],
    hidden: i64,
    lengths: [&Dim; 2],
    [mask, bias]: [Option<Expr<'x>>; 2],
) -> Result<Expr<'x>> {
    let count = heads.num_heads;
    let size: f32 = hidden.checked_div(count).unwrap_or(1).as_();
    let scale = heads.scale.unwrap_or(1.0 / size.sqrt());
    let q = split_heads(q, count);
    let k = k.reshape(&[0, 0, count, -1]).transpose(&[0, 2, 3, 1]);
    let v = split_heads(v, count);
    let mut scores = (q.matmul(k) * scale).add_optional(mask).add_optional(bias);
    if heads.unidirectional {
        scores = scores + causal_mask(x, lengths)?;
    }
    Ok(merge_heads(scores.softmax(-1).matmul(v)))
}

/// Returns the term that hides later positions.
fn causal_mask<'x>(x: &'x Expand, lengths: [&Dim; 2]) -> Result<Expr<'x>> {
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
    Ok(x.make.cast_literal(&Array::f32(mask.into_dyn()), x.dtype(0)?))
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

pub(super) fn expand_multi_head<'x>(x: &'x Expand) -> Result<Expr<'x>> {
    let heads = read_heads(x)?;
    let (queries, keys, values) = (x.shape(0)?.to_vec(), x.shape(1)?.to_vec(), x.shape(2)?.len());
    let mut parts = [0, 1, 2].map(|index| x.operand(index));
    // Keys and values of another sequence may be split by heads already; they then include their biases.
    let length = match (keys.as_slice(), values) {
        ([_, length, _], 3) => length,
        ([_, _, length, _], 4) if !x.has_input(3) => {
            for part in parts.iter_mut().skip(1) {
                *part = merge_heads(*part);
            }
            length
        }
        _ => unsupported!("keys of {} axes, and values of {values}", keys.len()),
    };
    let hidden = |shape: &[Dim]| {
        let last = shape.last().and_then(Dim::known);
        last.ok_or_else(|| Error::unsupported("the hidden size is known only at run time"))
    };
    if let Some(bias) = x.optional(3) {
        let sizes = [hidden(x.shape(0)?)?, hidden(x.shape(1)?)?, hidden(x.shape(2)?)?];
        for (part, bias) in parts.iter_mut().zip(bias.split(0, sizes)) {
            *part = *part + bias;
        }
    }
    let masks = [padding_mask(x, 4, length, &heads)?, x.optional(5)];
    attend(x, &heads, parts, hidden(&queries)?, [queries.at(1)?, length], masks)
}

pub(super) fn infer_rotary(call: &Call) -> Result<Vec<Fact>> {
    if call.flag_or("is_packed_batching", false)? || call.float_or("scale", 1.0)? != 1.0 {
        unsupported!("packed batches or a scale");
    }
    infer_same(call)
}

pub(super) fn expand_rotary<'x>(x: &'x Expand) -> Result<Expr<'x>> {
    let positions = x.shape(1)?.to_vec();
    let [input, ids, cos, sin] = [0, 1, 2, 3].map(|index| x.operand(index));
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
        ("interleaved", x.int_or("interleaved", 0)?.into()),
        ("num_heads", heads.into()),
        ("rotary_embedding_dim", rotated.into()),
    ];
    Ok(x.make.op("RotaryEmbedding", [input, cos, sin, ids], attributes))
}
