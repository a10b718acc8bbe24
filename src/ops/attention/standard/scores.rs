//! Attention: scores, softmax, and the weighted sum of the values.

use num_traits::AsPrimitive;

use super::mask::{Bias, read_bias};
use super::{AttentionAttributes, input, output, read_attention, read_sizes};
use crate::ops::attention::parts::{Sizes, attend, merge_heads, split_heads};
use crate::ops::prelude::*;

pub(super) fn expand_attention(expand: &Expand) -> Result<bool> {
    let attention = read_attention(expand)?;
    let sizes = read_sizes(expand, &attention)?;
    // In float32: bounds of the masks do not fit into float16.
    let heads = |index: usize, count: i64| {
        let value = expand.operand(index).cast(DType::F32);
        if sizes.merged { split_heads(value, count) } else { value }
    };
    let (q, k, v) =
        (heads(input::Q, sizes.q_heads), heads(input::K, sizes.kv_heads), heads(input::V, sizes.kv_heads));
    let k = with_past(expand, input::PAST_KEY, k)?;
    let v = with_past(expand, input::PAST_VALUE, v)?;
    expand.output(output::PRESENT_KEY, k.cast(expand.dtype(input::K)?));
    expand.output(output::PRESENT_VALUE, v.cast(expand.dtype(input::V)?));
    let scale = scale_of(&sizes, attention.scale)?;
    let bias = read_bias(expand, &attention, &sizes)?;
    let gives_scores = expand.has_output(output::QK_MATMUL_OUTPUT);
    let y = if bias.rows.is_none() && attention.softcap <= 0.0 && !gives_scores {
        let mask = bias.added.into_iter().reduce(|sum, term| sum + term);
        let attributes = [("scale", scale.into()), ("zeroes_nan", i64::from(bias.leaves_nan).into())];
        expand.make.op("ncnn.PlainAttention", [Some(q), Some(k), Some(v), mask], attributes)
    } else {
        attend(&sizes, [q * scale, k.transpose(&[0, 1, 3, 2]), v], |scores| {
            weights(expand, &attention, bias, scores)
        })?
    };
    let y = if sizes.merged { merge_heads(y) } else { y };
    expand.output(output::Y, y.cast(expand.dtype(input::Q)?));
    Ok(true)
}

/// Returns the weights of the values, and makes the scores of the stage that the attributes name an output.
fn weights<'x>(
    expand: &'x Expand,
    attention: &AttentionAttributes,
    bias: Bias<'x>,
    mut scores: Expr<'x>,
) -> Result<Expr<'x>> {
    let (dtype, mode) = (expand.dtype(input::Q)?, attention.qk_matmul_output_mode);
    if !(0..=3).contains(&mode) {
        invalid!("qk_matmul_output_mode {mode}");
    }
    // Sets the output for the scores, if it has the scores of this stage.
    let emit_scores = |stage: i64, scores: Expr| {
        if mode == stage {
            expand.output(output::QK_MATMUL_OUTPUT, scores.cast(dtype));
        }
    };
    emit_scores(0, scores);
    scores = capped(scores, attention.softcap);
    emit_scores(1, scores);
    if mode == 2 && expand.has_output(output::QK_MATMUL_OUTPUT) {
        let Some(infinite) = &bias.infinite else {
            unsupported!("scores with a mask computed at run time as an output");
        };
        emit_scores(2, infinite.iter().fold(scores, |sum, added| sum + *added));
    }
    scores = bias.added.iter().fold(scores, |sum, added| sum.plus(*added));
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
}

/// Returns the factor of the scores, by default the reciprocal root of the size of a head.
fn scale_of(sizes: &Sizes, scale: Option<f32>) -> Result<f32> {
    match (scale, sizes.head.known()) {
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

/// Returns the scores, each smoothly bounded by `cap` if that is positive.
fn capped(scores: Expr, cap: f32) -> Expr {
    if cap > 0.0 { (scores / cap).tanh() * cap } else { scores }
}
