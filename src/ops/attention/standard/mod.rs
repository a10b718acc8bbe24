//! Attention and RotaryEmbedding of the domain of ONNX, expanded to simpler operators.
//!
//! Refused: scores with their mask as an output if booleans of the mask are computed at run time.
//!
//! Spec: <https://onnx.ai/onnx/operators/onnx__Attention.html>,
//! <https://onnx.ai/onnx/operators/onnx__RotaryEmbedding.html>.

mod mask;
mod rotary;
mod scores;
mod window;

use super::parts::Sizes;
use crate::ops::prelude::*;

pub(in crate::ops) const OPS: &[Row] = &[
    Row::expanded("", "Attention", scores::expand_attention)
        .multiply_adds(|call| read_sizes(call, &read_attention(call).ok()?).ok()?.multiply_adds())
        .appends(|_, _| vec![(input::PAST_KEY, 2), (input::PAST_VALUE, 2)])
        .lowers_to("SDPA for runtimes that have it; Mul, MatMul, Add, Softmax, MatMul; Concat for states")
        .limits(
            "scores with a mask of booleans computed at run time as an output; heads of free size; a number of \
            valid keys of free lengths",
        ),
    Row::defined("", "RotaryEmbedding", rotary::expand_rotary)
        .lowers_to("Slice, Mul, Sub, Add, Concat"),
];

/// The indices of the inputs of Attention.
mod input {
    pub const Q: usize = 0;
    pub const K: usize = 1;
    pub const V: usize = 2;
    pub const ATTN_MASK: usize = 3;
    pub const PAST_KEY: usize = 4;
    pub const PAST_VALUE: usize = 5;
    pub const NONPAD_KV_SEQLEN: usize = 6;
}

/// The indices of the outputs of Attention.
mod output {
    pub const Y: usize = 0;
    pub const PRESENT_KEY: usize = 1;
    pub const PRESENT_VALUE: usize = 2;
    pub const QK_MATMUL_OUTPUT: usize = 3;
}

struct AttentionAttributes {
    is_causal: bool,
    kv_num_heads: Option<i64>,
    q_num_heads: Option<i64>,
    qk_matmul_output_mode: i64,
    scale: Option<f32>,
    softcap: f32,
    /// The number of keys before and after its position that a query sees; `None` for all.
    left_window: Option<i64>,
    right_window: Option<i64>,
}

fn read_attention(call: &Call) -> Result<AttentionAttributes> {
    let window = |name: &str| -> Result<Option<i64>> {
        if call.since() < 25 {
            return Ok(None);
        }
        Ok(call.optional_int(name)?.filter(|size| *size >= 0))
    };
    let scale = call.optional_float("scale")?;
    if let Some(scale) = scale.filter(|scale| !scale.is_finite()) {
        invalid!("a scale of {scale}");
    }
    Ok(AttentionAttributes {
        is_causal: call.flag("is_causal")?,
        kv_num_heads: call.optional_int("kv_num_heads")?,
        q_num_heads: call.optional_int("q_num_heads")?,
        qk_matmul_output_mode: call.int("qk_matmul_output_mode")?,
        scale,
        softcap: call.float("softcap")?,
        left_window: window("left_window_size")?,
        right_window: window("right_window_size")?,
    })
}

fn read_sizes(call: &Call, attention: &AttentionAttributes) -> Result<Sizes> {
    let [q, k, v] = [call.shape(input::Q)?, call.shape(input::K)?, call.shape(input::V)?];
    let past = match [input::PAST_KEY, input::PAST_VALUE].map(|index| call.has_input(index)) {
        [true, true] => call.shape(input::PAST_KEY)?.at(2)?.clone(),
        [false, false] => Dim::ZERO,
        _ => invalid!("past_key and past_value go together"),
    };
    if [q, k, v].iter().all(|shape| shape.len() == 4) {
        let sizes = Sizes { past, ..Sizes::of_heads(call)? };
        let (batch, keys, heads) = (&sizes.batch, &sizes.keys, sizes.kv_heads);
        call.check_shape(input::K, &shape![batch, heads, keys, &sizes.head])?;
        call.check_shape(input::V, &shape![batch, heads, keys, &sizes.v_head])?;
        return check_heads(sizes);
    }
    let ([batch, queries, hidden], [_, keys, k_hidden], [_, _, v_hidden]) = (q, k, v) else {
        invalid!("operands of shape {}, {} and {}", display_shape(q), display_shape(k), display_shape(v));
    };
    call.check_shape(input::K, &shape![batch, keys, k_hidden])?;
    call.check_shape(input::V, &shape![batch, keys, v_hidden])?;
    let (Some(q_heads), Some(kv_heads)) = (attention.q_num_heads, attention.kv_num_heads) else {
        invalid!("three axes need q_num_heads and kv_num_heads");
    };
    if q_heads < 1 || kv_heads < 1 {
        invalid!("{q_heads} and {kv_heads} heads");
    }
    check_heads(Sizes {
        merged: true,
        batch: batch.clone(),
        q_heads,
        kv_heads,
        queries: queries.clone(),
        keys: keys.clone(),
        past,
        head: hidden.floor_div(q_heads),
        v_head: v_hidden.floor_div(kv_heads),
    })
}

fn check_heads(sizes: Sizes) -> Result<Sizes> {
    match sizes.q_heads.checked_rem(sizes.kv_heads) {
        Some(0) => Ok(sizes),
        _ => {
            Err(Error::invalid(format!("{} heads of queries for {} of keys", sizes.q_heads, sizes.kv_heads)))
        }
    }
}
