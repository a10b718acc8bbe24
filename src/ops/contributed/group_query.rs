//! GroupQueryAttention: causal attention with a cache, in which several heads of queries share keys and
//! values.
//!
//! | part | becomes |
//! | --- | --- |
//! | packed queries, keys and values | Split |
//! | `do_rotary` | RotaryEmbedding at the positions after the cache |
//! | a head sink, `smooth_softmax` | a key of zeros before all others, whose score is the sink or 0 |
//! | all else | Attention of ONNX, which is causal; a local window is its `left_window_size` |
//!
//! The lengths in `seqlens_k` must be the lengths of the whole cache and the new tokens, as without padding:
//! this is assumed. Spec:
//! <https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md#commicrosoftgroupqueryattention>.

use std::ops::Add;

use num_traits::AsPrimitive;

use crate::lower::AssumedFact;
use crate::op::CONTRIB_DOMAIN;
use crate::ops::attention::parts::{Sizes, Standard, hide_unseen, merge_heads, plain_mask, split_heads};
use crate::ops::attention::positions::Positions;
use crate::ops::prelude::*;

pub(in crate::ops) const OPS: &[Row] = &[
    Row::defined(CONTRIB_DOMAIN, "GroupQueryAttention", expand_group_query)
        .multiply_adds(|call| sizes(call, &read(call).ok()?).ok()?.multiply_adds())
        .appends(|_, _| vec![(input::PAST_KEY, 2), (input::PAST_VALUE, 2)])
        .lowers_to("RotaryEmbedding, Concat, MatMul, Mul, Tanh, Add, Softmax, MatMul")
        .limits(
            "batches of free size; the output of scores; quantized caches; norms of queries and keys; keys after \
            their query; a cache of a window",
        )
        .states("padded sequences, stated by value"),
    Row::of(NCNN_DOMAIN, "WithoutPadding", Access::Any, infer_same).lower(lower_without_padding),
];

/// The indices of the inputs.
mod input {
    pub const QUERY: usize = 0;
    pub const KEY: usize = 1;
    pub const VALUE: usize = 2;
    pub const PAST_KEY: usize = 3;
    pub const PAST_VALUE: usize = 4;
    pub const SEQLENS_K: usize = 5;
    pub const COS_CACHE: usize = 7;
    pub const SIN_CACHE: usize = 8;
    pub const POSITION_IDS: usize = 9;
    pub const ATTENTION_BIAS: usize = 10;
    pub const HEAD_SINK: usize = 11;
    /// The inputs that are refused: the scales of a quantized cache, and the weights of norms.
    pub const REFUSED: [usize; 4] = [12, 13, 14, 15];
}

struct Attention {
    heads: i64,
    kv_heads: i64,
    /// The number of elements of a head.
    head: i64,
    scale: f32,
    softcap: f32,
    rotary: bool,
    interleaved: bool,
    /// The number of keys that a query sees, including the key at its position; `None` for all.
    window: Option<i64>,
    /// Whether the attention has a sink: a score without a key, which takes a part of the weights.
    has_sink: bool,
}

fn read(call: &Call) -> Result<Attention> {
    let heads = call.int("num_heads")?;
    let kv_heads = call.int("kv_num_heads")?;
    if kv_heads < 1 || heads < 1 || heads.checked_rem(kv_heads) != Some(0) {
        invalid!("{heads} heads of queries and {kv_heads} of keys");
    }
    let Some(hidden) = call.shape(input::QUERY)?.get(2).and_then(Dim::known) else {
        unsupported!("queries of free size, or with an axis for the heads");
    };
    let all =
        if call.has_input(input::KEY) { heads } else { heads.saturating_add(kv_heads.saturating_mul(2)) };
    let head = hidden.checked_div(all).filter(|head| *head > 0 && head.checked_mul(all) == Some(hidden));
    let head =
        head.ok_or_else(|| Error::invalid(format!("{hidden} elements do not divide into {all} heads")))?;
    let usual: f32 = head.as_();
    let is_positive = |name: &str| call.optional_int(name).map(|value| value.is_some_and(|value| value > 0));
    if is_positive("qk_output")? {
        unsupported!("scores as an output");
    }
    for name in ["k_quant_type", "v_quant_type"] {
        if !matches!(call.optional_string(name)?, None | Some("NONE")) {
            unsupported!("a quantized cache");
        }
    }
    if !call.flag("causal")? || call.flag("sliding_window_cache")? {
        unsupported!("keys after their query, or a cache of a window");
    }
    let window = call.optional_int("local_window_size")?.filter(|size| *size >= 0);
    if window == Some(0) {
        unsupported!("a window of no keys");
    }
    if let Some(index) = input::REFUSED.into_iter().find(|index| call.has_input(*index)) {
        return Err(Error::unsupported("this input is not supported").at_part(call.label(index)));
    }
    Ok(Attention {
        heads,
        kv_heads,
        head,
        scale: call.optional_float("scale")?.filter(|scale| *scale != 0.0).unwrap_or(1.0 / usual.sqrt()),
        softcap: call.float_or("softcap", 0.0)?,
        rotary: call.flag_or_false("do_rotary")?,
        interleaved: call.flag_or_false("rotary_interleaved")?,
        window,
        has_sink: is_positive("smooth_softmax")? || call.has_input(input::HEAD_SINK),
    })
}

/// Lowers the first input unchanged: the lengths in the second are assumed to leave no padding.
fn lower_without_padding(lower: &Lower) -> Result<()> {
    lower.assume(1, AssumedFact::WholeLength);
    lower.give(0, lower.input(0))
}

/// Returns the sizes of queries, keys and values.
fn sizes(call: &Call, attention: &Attention) -> Result<Sizes> {
    let [batch, length, _] = call.shape(input::QUERY)? else { invalid!("queries of other than three axes") };
    let past = match call.has_input(input::PAST_KEY).then(|| call.shape(input::PAST_KEY)).transpose()? {
        None => Dim::ZERO,
        Some([_, _, past, _]) => past.clone(),
        Some(other) => invalid!("a cache of {} axes", other.len()),
    };
    let head = Dim::from(attention.head);
    Ok(Sizes {
        merged: true,
        batch: batch.clone(),
        q_heads: attention.heads,
        kv_heads: attention.kv_heads,
        queries: length.clone(),
        keys: length.clone(),
        past,
        head: head.clone(),
        v_head: head,
    })
}

fn expand_group_query<'x>(x: &'x Expand) -> Result<Expr<'x>> {
    let attention = read(x)?;
    let Attention { heads, kv_heads, .. } = attention;
    let Some(batch) = x.shape(input::QUERY)?.at(0)?.known() else { unsupported!("a batch of free size") };
    let [mut q, mut k, mut v] = parts(x, &attention);
    // RotaryEmbed turns rows of heads.
    let splits_heads = x.keeps_cache();
    if splits_heads {
        (q, k, v) = (split_heads(q, heads), split_heads(k, kv_heads), split_heads(v, kv_heads));
    }
    if attention.rotary {
        let positions = x.optional(input::POSITION_IDS);
        let positions =
            positions.unwrap_or_else(|| positions_of(x).queries.unsqueeze(&[0]).broadcast(&[batch, 1]));
        let [cos, sin] =
            [input::COS_CACHE, input::SIN_CACHE].map(|index| x.operand(index).gather(positions, 0));
        q = rotate(x, q, [cos, sin], heads, &attention)?;
        k = rotate(x, k, [cos, sin], kv_heads, &attention)?;
    }
    let mut attributes = vec![
        ("is_causal", 1.into()),
        ("q_num_heads", heads.into()),
        ("kv_num_heads", kv_heads.into()),
        ("scale", attention.scale.into()),
        ("softcap", attention.softcap.into()),
    ];
    let before = attention.window.map(|window| window.saturating_sub(1));
    let mut mask = plain_mask(x, input::ATTENTION_BIAS);
    let mut past = [input::PAST_KEY, input::PAST_VALUE].map(|index| x.optional(index));
    if attention.has_sink {
        let nothing =
            x.make.number(0.0, x.dtype(input::QUERY)?).broadcast(&[batch, kv_heads, 1, attention.head]);
        past = past.map(|past| Some(past.map_or(nothing, |past| x.make.concat(&[nothing, past], 2))));
        mask = mask_with_sink(x, mask, before);
    } else {
        attributes.extend(before.map(|before| ("left_window_size", before.into())));
    }
    let has_present = x.has_output(1) || x.has_output(2);
    let (mut result, present) =
        Standard { operands: [q, k, v], mask, past, has_present }.attend(x, attributes);
    for (index, present) in (1..).zip(present) {
        x.output(index, if attention.has_sink { present.slice(2, 1, i64::MAX) } else { present });
    }
    if splits_heads {
        result = merge_heads(result);
    }
    if let Some(lengths) = x.optional(input::SEQLENS_K) {
        result = x.make.op("ncnn.WithoutPadding", [result, lengths], []);
    }
    Ok(result)
}

/// Returns the positions of the new tokens, which follow the cache, and of all.
fn positions_of<'x>(x: &'x Expand) -> Positions<'x> {
    let length = (input::QUERY, 1);
    Positions::of(x, length, length, (input::PAST_KEY, 2))
}

/// Returns the mask for a key before all others, which no window hides: its score is the sink of the head.
fn mask_with_sink<'x>(x: &'x Expand, mask: Option<Expr<'x>>, before: Option<i64>) -> Option<Expr<'x>> {
    let positions = positions_of(x);
    let seen = positions.near(before, None).map(|near| hide_unseen(near.cast(DType::F32)).unsqueeze(&[0, 1]));
    let rest = [seen, mask].into_iter().flatten().reduce(Add::add);
    let rest = rest.map(|rest| rest.pad(&[0, 0, 0, 1, 0, 0, 0, 0]));
    let sink = x.optional(input::HEAD_SINK).map(|sink| {
        let keys = x.make.range(x.make.int(-1), positions.keys.size(0));
        sink.to_type(DType::F32).reshape(&[1, -1, 1, 1]) * keys.equal(-1).cast(DType::F32)
    });
    [sink, rest].into_iter().flatten().reduce(Add::add)
}

/// Returns queries, keys and values, `[batch, length, heads * head]`.
fn parts<'x>(x: &'x Expand, attention: &Attention) -> [Expr<'x>; 3] {
    let query = x.operand(input::QUERY);
    if x.has_input(input::KEY) {
        return [query, x.operand(input::KEY), x.operand(input::VALUE)];
    }
    let heads = [attention.heads, attention.kv_heads, attention.kv_heads];
    query.split(2, heads.map(|heads| heads * attention.head))
}

fn rotate<'x>(
    x: &'x Expand,
    value: Expr<'x>,
    [cos, sin]: [Expr<'x>; 2],
    heads: i64,
    attention: &Attention,
) -> Result<Expr<'x>> {
    let pairs = x.shape(input::COS_CACHE)?.get(1).and_then(Dim::known);
    let pairs = pairs.ok_or_else(|| Error::unsupported("angles of free size"))?;
    // 0 stands for the whole head.
    let rotated = Some(pairs.saturating_mul(2)).filter(|size| *size != attention.head).unwrap_or(0);
    let attributes = [
        ("interleaved", i64::from(attention.interleaved).into()),
        ("num_heads", heads.into()),
        ("rotary_embedding_dim", rotated.into()),
    ];
    Ok(x.make.op("RotaryEmbedding", [value, cos, sin], attributes))
}
