//! GroupQueryAttention: causal attention with a cache, in which several heads of queries share keys and values.
//!
//! | part | becomes |
//! | --- | --- |
//! | packed queries, keys and values | Split |
//! | `do_rotary` | RotaryEmbedding at the positions after the cache |
//! | past and present | Concat |
//! | heads that share keys | one MatMul with the rows of these heads |
//! | causal mask, local window | comparison of two ramps |
//!
//! The lengths in `seqlens_k` must be those of the whole cache and the new tokens, as without padding: this is
//! assumed. Spec:
//! <https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md#commicrosoftgroupqueryattention>.

use num_traits::AsPrimitive;

use crate::error::{At, Error, Result, invalid, unsupported};
use crate::graph::{Attribute, Graph, Node};
use crate::lower::{AssumedFact, Lower};
use crate::op::{Access, CONTRIB_DOMAIN, Call, Fact, OWN_DOMAIN, element_count, required};
use crate::ops::Row;
use crate::ops::attention::positions::Positions;
use crate::pass::expand::{Expand, Operand};
use crate::tensor::{Array, DType, Dim};

pub(in crate::ops) const OPS: &[Row] = &[
    Row::new("GroupQueryAttention", &[1], Access::Any, infer_group_query)
        .domain(CONTRIB_DOMAIN)
        .expand(expand_group_query)
        .multiply_adds(multiply_adds)
        .appends(appends_to_past)
        .lowers_to("RotaryEmbedding, Concat, MatMul, Mul, Tanh, Add, Softmax, MatMul")
        .limits(
            "batches; `smooth_softmax`, a head sink, the output of scores, positions as an input; \
            quantized caches",
        )
        .differs("padded sequences, stated by value"),
    Row::new("WithoutPadding", &[1], Access::Any, infer_like_first)
        .domain(OWN_DOMAIN)
        .lower(lower_without_padding),
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
    pub const ATTENTION_BIAS: usize = 10;
    /// The inputs that are refused: positions, a sink, and the scales of a quantized cache.
    pub const REFUSED: [usize; 4] = [9, 11, 12, 13];
}

/// Each query has a product with each key, and each weight with its value.
fn multiply_adds(call: &Call) -> Option<u64> {
    let attention = read(call).ok()?;
    let query = call.shape(input::QUERY).ok()?;
    let new = query.get(1)?;
    let keys = [past_length(call).ok()?.add(new).ok()?];
    let elements = u64::try_from(attention.heads.checked_mul(attention.head)?).ok()?;
    let pairs = element_count(query.get(..2)?)?.saturating_mul(element_count(&keys)?);
    Some(pairs.saturating_mul(elements).saturating_mul(2))
}

/// Added to the scores of hidden keys: finite, since each query sees itself.
const HIDDEN: f32 = -1e30;

struct Attention {
    heads: i64,
    kv_heads: i64,
    /// The number of elements of a head.
    head: i64,
    scale: f32,
    softcap: f32,
    rotary: bool,
    interleaved: bool,
    /// The number of keys that a query sees, its own among them; `None` for all.
    window: Option<i64>,
}

fn read(call: &Call) -> Result<Attention> {
    let heads = required(call.int("num_heads")?, "num_heads")?;
    let kv_heads = required(call.int("kv_num_heads")?, "kv_num_heads")?;
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
    let refuse = |name: &str| call.int(name).map(|value| value.is_some_and(|value| value > 0));
    if refuse("smooth_softmax")? || refuse("qk_output")? {
        unsupported!("`smooth_softmax`, or scores as an output");
    }
    for name in ["k_quant_type", "v_quant_type"] {
        if !matches!(call.string(name)?, None | Some("NONE")) {
            unsupported!("a quantized cache");
        }
    }
    call.int("kv_cache_bit_width")?;
    let window = call.int("local_window_size")?.filter(|size| *size >= 0);
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
        scale: call.float("scale")?.filter(|scale| *scale != 0.0).unwrap_or(1.0 / usual.sqrt()),
        softcap: call.float_or("softcap", 0.0)?,
        rotary: call.flag("do_rotary", false)?,
        interleaved: call.flag("rotary_interleaved", false)?,
        window,
    })
}

fn appends_to_past(_: &Graph, _: &Node) -> Vec<(usize, usize)> {
    vec![(input::PAST_KEY, 2), (input::PAST_VALUE, 2)]
}

fn infer_like_first(call: &Call) -> Result<Vec<Fact>> {
    Ok(vec![call.like(0, call.dtype(0)?)?])
}

/// Lowers the first input unchanged, where the lengths in the second are those without padding.
fn lower_without_padding(lower: &mut Lower) -> Result<()> {
    lower.assume(1, AssumedFact::WholeLength);
    let blob = lower.blob(0)?;
    lower.set(0, blob)
}

/// Returns the number of keys in the cache.
fn past_length(call: &Call) -> Result<Dim> {
    if !call.has_input(input::PAST_KEY) {
        return Ok(Dim::Known(0));
    }
    match call.shape(input::PAST_KEY)? {
        [_, _, past, _] => Ok(past.clone()),
        other => invalid!("a cache of {} axes", other.len()),
    }
}

fn infer_group_query(call: &Call) -> Result<Vec<Fact>> {
    let attention = read(call)?;
    let [batch, length, _] = call.shape(input::QUERY)? else { invalid!("queries of other than three axes") };
    let keys = past_length(call)?.add(length)?;
    let dtype = call.dtype(input::QUERY)?;
    let hidden = Dim::Known(attention.heads.saturating_mul(attention.head));
    let present = [batch.clone(), Dim::Known(attention.kv_heads), keys, Dim::Known(attention.head)];
    let present = Fact::new(dtype, present.to_vec());
    Ok(vec![Fact::new(dtype, vec![batch.clone(), length.clone(), hidden]), present.clone(), present])
}

fn expand_group_query(x: &mut Expand) -> Result<bool> {
    let attention = read(x)?;
    if !x.shape(input::QUERY)?.first().is_some_and(|batch| batch.is(1)) {
        unsupported!("a batch of {:?}", x.shape(input::QUERY)?.first());
    }
    let Attention { heads, kv_heads, head, .. } = attention;
    let [mut q, mut k, v] = parts(x, &attention)?;
    let length = (input::QUERY, 1);
    let positions = Positions::of(x, length, length, (input::PAST_KEY, 2))?;
    // RotaryEmbed turns rows of heads.
    let apart = x.keeps_cache();
    if apart {
        (q, k) = (by_heads(x, q, heads, head)?, by_heads(x, k, kv_heads, head)?);
    }
    if attention.rotary {
        let [cos, sin] = angles(x, &positions)?;
        q = rotate(x, q, [cos, sin], heads, &attention)?;
        k = rotate(x, k, [cos, sin], kv_heads, &attention)?;
    }
    let cache = |x: &mut Expand, new: Operand, past: usize, output: usize, apart: bool| -> Result<Operand> {
        let mut all = if apart { new } else { by_heads(x, new, kv_heads, head)? };
        if x.has_input(past) {
            let past = x.operand(past)?;
            all = x.op("Concat", &[past, all], &[("axis", Attribute::Int(2))])?;
        }
        x.output(output, all)?;
        Ok(all)
    };
    let keys = cache(x, k, input::PAST_KEY, 1, apart)?;
    let values = cache(x, v, input::PAST_VALUE, 2, false)?;
    // The heads that share keys are rows of one product.
    if !apart {
        q = by_heads(x, q, heads, head)?;
    }
    let scale = x.scalar_like(input::QUERY, attention.scale)?;
    let scaled = x.op("Mul", &[q, scale], &[])?;
    let grouped = x.reshape(scaled, &[1, kv_heads, -1, head])?;
    let columns = x.transpose(keys, &[0, 1, 3, 2])?;
    let scores = x.op("MatMul", &[grouped, columns], &[])?;
    let mut scores = x.reshape(scores, &[1, heads, -1, 0])?;
    if attention.softcap > 0.0 {
        let cap = x.scalar_like(input::QUERY, attention.softcap)?;
        let part = x.op("Div", &[scores, cap], &[])?;
        let bounded = x.op("Tanh", &[part], &[])?;
        scores = x.op("Mul", &[bounded, cap], &[])?;
    }
    let hidden = mask(x, &positions, attention.window)?;
    scores = x.op("Add", &[scores, hidden], &[])?;
    if x.has_input(input::ATTENTION_BIAS) {
        let bias = x.operand(input::ATTENTION_BIAS)?;
        scores = x.op("Add", &[scores, bias], &[])?;
    }
    let weights = x.op("Softmax", &[scores], &[("axis", Attribute::Int(-1))])?;
    let grouped = x.reshape(weights, &[1, kv_heads, -1, 0])?;
    let result = x.op("MatMul", &[grouped, values], &[])?;
    let result = x.reshape(result, &[1, heads, -1, head])?;
    let result = x.transpose(result, &[0, 2, 1, 3])?;
    let mut result = x.reshape(result, &[0, 0, -1])?;
    if x.has_input(input::SEQLENS_K) {
        let lengths = x.operand(input::SEQLENS_K)?;
        result = x.own_op("WithoutPadding", &[result, lengths], &[])?;
    }
    x.output(0, result)?;
    Ok(true)
}

/// Emits `[batch, length, heads * head]` as `[batch, heads, length, head]`.
fn by_heads(x: &mut Expand, operand: Operand, heads: i64, head: i64) -> Result<Operand> {
    let apart = x.reshape(operand, &[0, 0, heads, head])?;
    x.transpose(apart, &[0, 2, 1, 3])
}

/// Returns queries, keys and values, `[batch, length, heads * head]`.
fn parts(x: &mut Expand, attention: &Attention) -> Result<[Operand; 3]> {
    let query = x.operand(input::QUERY)?;
    if x.has_input(input::KEY) {
        return Ok([query, x.operand(input::KEY)?, x.operand(input::VALUE)?]);
    }
    let sizes = [attention.heads, attention.kv_heads, attention.kv_heads].map(|heads| heads * attention.head);
    let sizes = x.ints(&sizes)?;
    let parts = x.op_n("Split", &[Some(query), Some(sizes)], &[("axis", Attribute::Int(2))], 3)?;
    Ok([*parts.at(0)?, *parts.at(1)?, *parts.at(2)?])
}

/// Emits the cosines and sines at the positions of the queries, `[1, length, pairs]`.
fn angles(x: &mut Expand, positions: &Positions) -> Result<[Operand; 2]> {
    let axis = x.ints(&[0])?;
    let mut rows = |index: usize| -> Result<Operand> {
        let table = x.operand(index)?;
        let rows = x.op("Gather", &[table, positions.queries], &[])?;
        x.op("Unsqueeze", &[rows, axis], &[])
    };
    Ok([rows(input::COS_CACHE)?, rows(input::SIN_CACHE)?])
}

fn rotate(
    x: &mut Expand,
    operand: Operand,
    [cos, sin]: [Operand; 2],
    heads: i64,
    attention: &Attention,
) -> Result<Operand> {
    let pairs = x.shape(input::COS_CACHE)?.get(1).and_then(Dim::known);
    let pairs = pairs.ok_or_else(|| Error::unsupported("angles of free size"))?;
    // 0 stands for the whole head.
    let rotated = Some(pairs.saturating_mul(2)).filter(|size| *size != attention.head).unwrap_or(0);
    let attributes = [
        ("interleaved", Attribute::Int(attention.interleaved.into())),
        ("num_heads", Attribute::Int(heads)),
        ("rotary_embedding_dim", Attribute::Int(rotated)),
    ];
    x.op("RotaryEmbedding", &[operand, cos, sin], &attributes)
}

/// Emits the term that hides later keys and those before the window, `[queries, keys]`.
fn mask(x: &mut Expand, positions: &Positions, window: Option<i64>) -> Result<Operand> {
    let before = window.map(|window| window.saturating_sub(1));
    let seen = positions.near(x, before, Some(0))?.ok_or_else(|| Error::internal("a mask without bounds"))?;
    let seen = x.cast(seen, DType::F32)?;
    let literal = |x: &mut Expand, n: f32| x.literal(&Array::f32(ndarray::ArrayD::from_elem(Vec::new(), n)));
    let (one, by) = (literal(x, 1.0)?, literal(x, -HIDDEN)?);
    let hidden = x.op("Sub", &[seen, one], &[])?;
    let hidden = x.op("Mul", &[hidden, by], &[])?;
    x.cast(hidden, x.dtype(input::QUERY)?)
}
