//! Attention: scores, softmax, and the weighted sum of the values.

use num_traits::AsPrimitive;

use super::layer::{is_plain, sdpa};
use super::mask::{number, read_bias};
use super::{AttentionAttributes, Sizes, input, output, read_attention, read_sizes};
use crate::error::{Error, Result, invalid, unsupported};
use crate::graph::Attribute;
use crate::pass::expand::{Expand, Operand};
use crate::tensor::{DType, Dim};

pub(super) fn expand_attention(expand: &Expand) -> Result<bool> {
    let attention = read_attention(expand)?;
    let sizes = read_sizes(expand, &attention)?;
    let whole = sdpa(&attention).since() <= expand.release() && is_plain(expand, &attention, &sizes)?;
    if whole && !sizes.merged {
        return Ok(false);
    }
    let q = by_heads(expand, input::Q, sizes.merged, sizes.q_heads)?;
    let k = by_heads(expand, input::K, sizes.merged, sizes.kv_heads)?;
    let v = by_heads(expand, input::V, sizes.merged, sizes.kv_heads)?;
    if whole {
        let scale = attention.scale.map(|scale| ("scale", Attribute::Float(scale)));
        let y = expand.raw_op("Attention", &[q, k, v], scale.as_slice())?;
        let y = merge_heads(expand, y)?;
        expand.raw_output(output::Y, y)?;
        return Ok(true);
    }
    let k = with_past(expand, input::PAST_KEY, k)?;
    let v = with_past(expand, input::PAST_VALUE, v)?;
    give(expand, output::PRESENT_KEY, input::K, k)?;
    give(expand, output::PRESENT_VALUE, input::V, v)?;

    let mut scores = scores_of(expand, &sizes, q, k, attention.scale)?;
    emit_scores(expand, &attention, 0, scores)?;
    if attention.softcap > 0.0 {
        let cap = number(expand, attention.softcap)?;
        let small = expand.raw_op("Div", &[scores, cap], &[])?;
        let small = expand.raw_op("Tanh", &[small], &[])?;
        scores = expand.raw_op("Mul", &[small, cap], &[])?;
    }
    emit_scores(expand, &attention, 1, scores)?;
    let bias = read_bias(expand, &attention, &sizes)?;
    if attention.qk_matmul_output_mode == 2 && expand.has_output(output::QK_MATMUL_OUTPUT) {
        let Some(infinite) = &bias.infinite else {
            unsupported!("scores with a mask computed at run time as an output");
        };
        let infinite = infinite.clone();
        let mut masked = scores;
        for added in infinite {
            masked = expand.raw_op("Add", &[masked, added], &[])?;
        }
        emit_scores(expand, &attention, 2, masked)?;
    }
    for added in &bias.added {
        scores = expand.raw_op("Add", &[scores, *added], &[])?;
    }
    let mut weights = expand.raw_op("Softmax", &[scores], &[("axis", Attribute::Int(-1))])?;
    if bias.leaves_nan {
        let (nan, zero) = (expand.raw_op("IsNaN", &[weights], &[])?, number(expand, 0.0)?);
        weights = expand.raw_op("Where", &[nan, zero, weights], &[])?;
    }
    // A query without visible keys gives 0.
    if let Some(rows) = bias.rows {
        weights = expand.raw_op("Mul", &[weights, rows], &[])?;
    }
    emit_scores(expand, &attention, 3, weights)?;
    let mut y = attend_grouped(expand, &sizes, weights, v)?;
    if sizes.merged {
        y = merge_heads(expand, y)?;
    }
    give(expand, output::Y, input::Q, y)?;
    Ok(true)
}

/// Emits `[batch, heads, queries, size]` as `[batch, queries, heads * size]`.
fn merge_heads(expand: &Expand, y: Operand) -> Result<Operand> {
    let y = transpose(expand, y, &[0, 2, 1, 3])?;
    let shape = expand.raw_ints(&[0, 0, -1])?;
    expand.raw_op("Reshape", &[y, shape], &[])
}

/// Emits `x` in float32: bounds of the masks do not fit into float16.
pub(super) fn to_float32(expand: &Expand, x: Operand) -> Result<Operand> {
    expand.raw_op("Cast", &[x], &[("to", Attribute::Int(i64::from(DType::F32.to_onnx())))])
}

/// Sets output `index` to `x` in the type of input `like`.
fn give(expand: &Expand, index: usize, like: usize, x: Operand) -> Result<()> {
    let to = Attribute::Int(i64::from(expand.dtype(like)?.to_onnx()));
    let x = expand.raw_op("Cast", &[x], &[("to", to)])?;
    expand.raw_output(index, x)
}

/// Emits the products of `q` and `k`, scaled by default by the reciprocal root of the size of a head.
fn scores_of(expand: &Expand, sizes: &Sizes, q: Operand, k: Operand, scale: Option<f32>) -> Result<Operand> {
    let scale = match (scale, sizes.head.known()) {
        (Some(scale), _) => scale,
        (None, Some(head)) => {
            let head: f32 = head.as_();
            1.0 / head.sqrt()
        }
        (None, None) => unsupported!("the size of the heads is known only at run time"),
    };
    let scale = number(expand, scale)?;
    let q = expand.raw_op("Mul", &[q, scale], &[])?;
    let q = grouped(expand, q, sizes, &sizes.head)?;
    let k = transpose(expand, k, &[0, 1, 3, 2])?;
    let scores = expand.raw_op("MatMul", &[q, k], &[])?;
    ungrouped(expand, scores, sizes, &sizes.total()?)
}

/// Emits the sum of the values by `weights`: `[batch, q_heads, queries, v_head]`.
fn attend_grouped(expand: &Expand, sizes: &Sizes, weights: Operand, v: Operand) -> Result<Operand> {
    let weights = grouped(expand, weights, sizes, &sizes.total()?)?;
    let y = expand.raw_op("MatMul", &[weights, v], &[])?;
    ungrouped(expand, y, sizes, &sizes.v_head)
}

/// Sets the output for the scores, if it is requested at this stage.
fn emit_scores(expand: &Expand, attention: &AttentionAttributes, mode: i64, scores: Operand) -> Result<()> {
    if !(0..=3).contains(&attention.qk_matmul_output_mode) {
        invalid!("qk_matmul_output_mode {}", attention.qk_matmul_output_mode);
    }
    if attention.qk_matmul_output_mode == mode {
        give(expand, output::QK_MATMUL_OUTPUT, input::Q, scores)?;
    }
    Ok(())
}

/// Emits input `index` as `[batch, heads, length, size]`.
fn by_heads(expand: &Expand, index: usize, merged: bool, heads: i64) -> Result<Operand> {
    let x = expand.raw_operand(index)?;
    let x = to_float32(expand, x)?;
    if !merged {
        return Ok(x);
    }
    let shape = expand.raw_ints(&[0, 0, heads, -1])?;
    let x = expand.raw_op("Reshape", &[x, shape], &[])?;
    transpose(expand, x, &[0, 2, 1, 3])
}

/// Emits `x` after the state in input `index`.
fn with_past(expand: &Expand, index: usize, x: Operand) -> Result<Operand> {
    if !expand.has_input(index) || expand.shape(index)?.iter().any(|size| size.is(0)) {
        return Ok(x);
    }
    let past = expand.raw_operand(index)?;
    let past = to_float32(expand, past)?;
    expand.raw_op("Concat", &[past, x], &[("axis", Attribute::Int(2))])
}

fn transpose(expand: &Expand, x: Operand, perm: &[i64]) -> Result<Operand> {
    expand.raw_op("Transpose", &[x], &[("perm", Attribute::Ints(perm.to_vec()))])
}

/// Merges heads of queries that share a head of keys: `[batch, kv_heads, rows, size]`.
fn grouped(expand: &Expand, x: Operand, sizes: &Sizes, size: &Dim) -> Result<Operand> {
    if sizes.q_heads == sizes.kv_heads {
        return Ok(x);
    }
    let group = Dim::Known(sizes.q_heads).floor_div(&Dim::Known(sizes.kv_heads))?;
    let rows = sizes.queries.mul(&group)?;
    reshape(expand, x, &[sizes.batch.clone(), Dim::Known(sizes.kv_heads), rows, size.clone()])
}

/// The inverse of [`grouped`].
fn ungrouped(expand: &Expand, x: Operand, sizes: &Sizes, size: &Dim) -> Result<Operand> {
    if sizes.q_heads == sizes.kv_heads {
        return Ok(x);
    }
    reshape(expand, x, &[sizes.batch.clone(), Dim::Known(sizes.q_heads), sizes.queries.clone(), size.clone()])
}

/// Emits another shape with the same last axis of four, and at most one other free size.
fn reshape(expand: &Expand, x: Operand, shape: &[Dim; 4]) -> Result<Operand> {
    let mut shape = shape.each_ref().map(|size| size.known().unwrap_or(-1));
    if let [.., last @ -1] = &mut shape {
        // The size is copied.
        *last = 0;
    }
    if shape.iter().filter(|size| **size == -1).count() > 1 {
        return Err(Error::unsupported("several free lengths").help("fix them with --input-shape"));
    }
    let shape = expand.raw_ints(&shape)?;
    expand.raw_op("Reshape", &[x, shape], &[])
}
