//! LinearAttention: attention with a state instead of all keys and values.
//!
//! Spec: <https://onnx.ai/onnx/operators/onnx__LinearAttention.html>.

use num_traits::AsPrimitive;

use crate::ops::prelude::*;

pub(in crate::ops) const OPS: &[Row] = &[Row::expanded("", "LinearAttention", expand_linear_attention)
    .lowers_to("its recurrence, step by step")
    .limits("a free length; more than 512 steps")];

/// The maximum number of unrolled steps: each is a dozen layers.
const MAX_STEPS: i64 = 512;

struct LinearAttention {
    /// The numbers of heads of the queries, and of keys and values, each of which serves as many queries.
    heads: [i64; 2],
    /// The sizes of a key and of a value.
    sizes: [i64; 2],
    scale: f32,
    /// Whether the state decays.
    gated: bool,
    /// Whether the value that the state already has for a key is subtracted.
    delta: bool,
}

fn read_linear_attention(call: &Call) -> Result<LinearAttention> {
    let heads = ["q_num_heads", "kv_num_heads"].map(|name| call.int(name));
    let [queries, keys] = heads;
    let (queries, keys) = (queries?, keys?);
    if keys < 1 || queries < 1 || queries % keys != 0 {
        invalid!("{queries} heads of queries for {keys} heads of keys");
    }
    let rules = [
        ("linear", (false, false)),
        ("gated", (true, false)),
        ("delta", (false, true)),
        ("gated_delta", (true, true)),
    ];
    let (gated, delta) = call.word("update_rule", &rules)?;
    if gated != call.has_input(4) || delta != call.has_input(5) {
        invalid!("the decay or rate does not match the update rule");
    }
    let size = |index: usize, heads: i64| match call.shape(index)? {
        [_, _, size] => size
            .known()
            .map(|size| size / heads)
            .ok_or_else(|| Error::unsupported("the size of the heads is known only at run time")),
        shape => Err(Error::invalid(format!("found {} axes, expected 3", shape.len()))),
    };
    let sizes @ [key, value] = [size(0, queries)?, size(2, keys)?];
    let batch = call.shape(0)?.at(0)?;
    for index in [1, 2] {
        let [_, length, size] = call.shape(index)? else { invalid!("keys or values without three axes") };
        call.check_broadcasts(index, &shape![batch, length, size])?;
    }
    call.check_shape(3, &shape![batch, keys, key, value])?;
    let root: f32 = key.as_();
    let scale = match call.float("scale")? {
        0.0 => 1.0 / root.sqrt(),
        scale => scale,
    };
    Ok(LinearAttention { heads: [queries, keys], sizes, scale, gated, delta })
}

/// Returns the steps of input `index`, each in `shape` after the batch.
fn steps<'x>(x: &'x Expand, index: usize, count: i64, shape: [i64; 3]) -> Result<Vec<Expr<'x>>> {
    let parts = x.operand_as(index, DType::F32).split_list(1, &vec![1; usize::try_from(count)?]);
    let [heads, rows, columns] = shape;
    Ok(parts.into_iter().map(|part| part.reshape(&[0, heads, rows, columns])).collect())
}

/// Returns the decay or rate of each step: one element for each head, one for all, or one for each element of
/// the keys.
fn factors<'x>(
    x: &'x Expand,
    index: usize,
    count: i64,
    attention: &LinearAttention,
) -> Result<Vec<Expr<'x>>> {
    let [_, heads] = attention.heads;
    let [key, _] = attention.sizes;
    let size = x.shape(index)?.last().and_then(Dim::known);
    let shape = match size {
        Some(size) if size == heads => [heads, 1, 1],
        Some(1) => [1, 1, 1],
        Some(size) if size == heads.saturating_mul(key) => [heads, key, 1],
        _ => unsupported!("the factors do not fit {heads} heads"),
    };
    steps(x, index, count, shape)
}

fn expand_linear_attention(x: &Expand) -> Result<bool> {
    let attention = read_linear_attention(x)?;
    let ([queries, heads], [key, value]) = (attention.heads, attention.sizes);
    let Some(count) = x.shape(0)?.at(1)?.known() else {
        unsupported!("the length is known only at run time");
    };
    if !(1..=MAX_STEPS).contains(&count) {
        return Err(Error::limit(format!("{count} steps (at most {MAX_STEPS} are unrolled)")));
    }
    // Queries that share a state are rows of one matrix.
    let q = steps(x, 0, count, [heads, queries / heads, key])?;
    let k = steps(x, 1, count, [heads, key, 1])?;
    let v = steps(x, 2, count, [heads, 1, value])?;
    let decays = if attention.gated { factors(x, 4, count, &attention)? } else { Vec::new() };
    let rates = if attention.delta { factors(x, 5, count, &attention)? } else { Vec::new() };
    let mut state = x.has_input(3).then(|| x.operand_as(3, DType::F32));
    let mut outputs = Vec::new();
    for (step, ((q, k), v)) in q.into_iter().zip(k).zip(v).enumerate() {
        let next = update(state, [k, v], decays.get(step).copied(), rates.get(step).copied());
        let read = q.matmul(next) * attention.scale;
        outputs.push(read.reshape(&[0, 1, queries.saturating_mul(value)]));
        state = Some(next);
    }
    x.output(0, x.make.concat(&outputs, 1).to_type(x.dtype(0)?));
    if let Some(state) = state {
        x.output(1, state.to_type(x.dtype(if x.has_input(3) { 3 } else { 0 })?));
    }
    Ok(true)
}

/// Returns the state after a step. The first step has no state to decay or subtract.
fn update<'x>(
    state: Option<Expr<'x>>,
    [key, value]: [Expr<'x>; 2],
    decay: Option<Expr<'x>>,
    rate: Option<Expr<'x>>,
) -> Expr<'x> {
    let state = state.map(|state| decay.map_or(state, |decay| state * decay.exp()));
    let mut written = value;
    if let Some(rate) = rate {
        let retrieved = state.map(|state| key.transpose(&[0, 1, 3, 2]).matmul(state));
        written = retrieved.map_or(value, |retrieved| value - retrieved) * rate;
    }
    let product = key * written;
    state.map_or(product, |state| state + product)
}
