//! Attention: scores, softmax, and the weighted sum of the values.

use num_traits::AsPrimitive;

use super::layer::{is_plain, sdpa};
use super::mask::read_bias;
use super::{Sizes, input, output, read_attention, read_sizes};
use crate::ops::attention::parts::{capped, merge_heads, split_heads};
use crate::ops::prelude::*;

pub(super) fn expand_attention(expand: &Expand) -> Result<bool> {
    let attention = read_attention(expand)?;
    let sizes = read_sizes(expand, &attention)?;
    let whole = sdpa(&attention).since() <= expand.release() && is_plain(expand, &attention, &sizes)?;
    if whole && !sizes.merged {
        return Ok(false);
    }
    // In float32: bounds of the masks do not fit into float16.
    let heads = |index: usize, count: i64| {
        let value = expand.operand(index).cast(DType::F32);
        if sizes.merged { split_heads(value, count) } else { value }
    };
    let (q, k, v) =
        (heads(input::Q, sizes.q_heads), heads(input::K, sizes.kv_heads), heads(input::V, sizes.kv_heads));
    if whole {
        let scale = attention.scale.map(|scale| ("scale", scale.into()));
        expand.output(output::Y, merge_heads(expand.make.op("Attention", [q, k, v], scale)));
        return Ok(true);
    }
    let k = with_past(expand, input::PAST_KEY, k)?;
    let v = with_past(expand, input::PAST_VALUE, v)?;
    expand.output(output::PRESENT_KEY, k.cast(expand.dtype(input::K)?));
    expand.output(output::PRESENT_VALUE, v.cast(expand.dtype(input::V)?));

    let dtype = expand.dtype(input::Q)?;
    let mode = attention.qk_matmul_output_mode;
    if !(0..=3).contains(&mode) {
        invalid!("qk_matmul_output_mode {mode}");
    }
    // Sets the output for the scores, if it is that of this stage.
    let emit_scores = |stage: i64, scores: Expr| {
        if mode == stage {
            expand.output(output::QK_MATMUL_OUTPUT, scores.cast(dtype));
        }
    };
    let q = q * scale_of(&sizes, attention.scale)?;
    let y = attend(&sizes, [q, k.transpose(&[0, 1, 3, 2]), v], |mut scores| {
        emit_scores(0, scores);
        scores = capped(scores, attention.softcap);
        emit_scores(1, scores);
        let bias = read_bias(expand, &attention, &sizes)?;
        if mode == 2 && expand.has_output(output::QK_MATMUL_OUTPUT) {
            let Some(infinite) = &bias.infinite else {
                unsupported!("scores with a mask computed at run time as an output");
            };
            emit_scores(2, infinite.iter().fold(scores, |sum, added| sum + *added));
        }
        scores = bias.added.iter().fold(scores, |sum, added| sum + *added);
        let mut weights = scores.softmax(-1);
        if bias.leaves_nan {
            weights = weights.is_nan().select(0.0, weights);
        }
        // A query without visible keys gives 0.
        if let Some(rows) = bias.rows {
            weights = weights * rows;
        }
        emit_scores(3, weights);
        Ok(weights)
    })?;
    let y = if sizes.merged { merge_heads(y) } else { y };
    expand.output(output::Y, y.cast(dtype));
    Ok(true)
}

/// Returns the sums of the values, `[batch, kv_heads, keys, v_head]`, by the weights that `weights` makes of the
/// products of the queries, `[batch, q_heads, queries, head]`, with the keys, `[batch, kv_heads, head, keys]`.
pub(in crate::ops) fn attend<'x>(
    sizes: &Sizes,
    [q, k, v]: [Expr<'x>; 3],
    weights: impl FnOnce(Expr<'x>) -> Result<Expr<'x>>,
) -> Result<Expr<'x>> {
    let keys = sizes.total()?;
    let scores = ungrouped(grouped(q, sizes, &sizes.head)?.matmul(k), sizes, &keys)?;
    ungrouped(grouped(weights(scores)?, sizes, &keys)?.matmul(v), sizes, &sizes.v_head)
}

/// Returns the factor of the scores, by default the reciprocal root of the size of a head.
fn scale_of(sizes: &Sizes, given: Option<f32>) -> Result<f32> {
    match (given, sizes.head.known()) {
        (Some(scale), _) => Ok(scale),
        (None, Some(head)) => {
            let head: f32 = head.as_();
            Ok(1.0 / head.sqrt())
        }
        (None, None) => unsupported!("the size of the heads is known only at run time"),
    }
}

/// Returns a value after the state in input `index`.
fn with_past<'x>(expand: &'x Expand, index: usize, value: Expr<'x>) -> Result<Expr<'x>> {
    if !expand.has_input(index) || expand.shape(index)?.iter().any(|size| size.is(0)) {
        return Ok(value);
    }
    Ok(expand.make.concat(&[expand.operand(index).cast(DType::F32), value], 2))
}

/// Merges heads of queries that share a head of keys: `[batch, kv_heads, rows, size]`.
fn grouped<'x>(value: Expr<'x>, sizes: &Sizes, size: &Dim) -> Result<Expr<'x>> {
    if sizes.q_heads == sizes.kv_heads {
        return Ok(value);
    }
    let group = Dim::Known(sizes.q_heads).floor_div(&Dim::Known(sizes.kv_heads))?;
    let rows = sizes.queries.mul(&group)?;
    reshape(value, [&sizes.batch, &Dim::Known(sizes.kv_heads), &rows, size])
}

/// The inverse of [`grouped`].
fn ungrouped<'x>(value: Expr<'x>, sizes: &Sizes, size: &Dim) -> Result<Expr<'x>> {
    if sizes.q_heads == sizes.kv_heads {
        return Ok(value);
    }
    reshape(value, [&sizes.batch, &Dim::Known(sizes.q_heads), &sizes.queries, size])
}

/// Returns another shape with the same last axis of four, and at most one other free size.
fn reshape<'x>(value: Expr<'x>, shape: [&Dim; 4]) -> Result<Expr<'x>> {
    let mut shape = shape.map(|size| size.known().unwrap_or(-1));
    if let [.., last @ -1] = &mut shape {
        // The size is copied.
        *last = 0;
    }
    if shape.iter().filter(|size| **size == -1).count() > 1 {
        return Err(Error::unsupported("several free lengths"));
    }
    Ok(value.reshape(&shape))
}
