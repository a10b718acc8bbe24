//! LinearAttention: a state of keys by values that each step reads and writes, as nodes step by step.

use num_traits::AsPrimitive;

use super::mask::number;
use super::scores::{to_single, transpose};
use crate::error::{At, Error, Result, invalid, unsupported};
use crate::graph::Attribute;
use crate::ops::{Attributes, Call, Fact, required};
use crate::pass::expand::{Expand, Operand};
use crate::tensor::Dim;

/// Most steps that become nodes: each takes about ten layers.
const MAX_STEPS: i64 = 512;

/// Places of the inputs.
mod input {
    pub const QUERY: usize = 0;
    pub const KEY: usize = 1;
    pub const VALUE: usize = 2;
    pub const PAST_STATE: usize = 3;
    pub const DECAY: usize = 4;
    pub const BETA: usize = 5;
}

struct LinearAttributes {
    q_heads: i64,
    kv_heads: i64,
    scale: Option<f32>,
    /// Whether the state fades.
    gated: bool,
    /// Whether what the state holds already is taken off what is written.
    delta: bool,
}

fn read_linear(attributes: &Attributes) -> Result<LinearAttributes> {
    let (gated, delta) = match attributes.string_or("update_rule", "gated_delta")? {
        "linear" => (false, false),
        "gated" => (true, false),
        "delta" => (false, true),
        "gated_delta" => (true, true),
        other => return Err(Error::invalid(format!("the rule {other}")).at_part("attribute update_rule")),
    };
    let q_heads = required(attributes.int("q_num_heads")?, "q_num_heads")?;
    let kv_heads = required(attributes.int("kv_num_heads")?, "kv_num_heads")?;
    if q_heads < 1 || kv_heads < 1 || q_heads % kv_heads != 0 {
        invalid!("{q_heads} heads of queries for {kv_heads} of keys");
    }
    let scale = attributes.float("scale")?.filter(|scale| *scale != 0.0);
    Ok(LinearAttributes { q_heads, kv_heads, scale, gated, delta })
}

/// Sizes of the operands: the last two are those of a key and a value of one head.
fn read_sizes(call: &Call, linear: &LinearAttributes) -> Result<[Dim; 4]> {
    let ([batch, steps, hidden], [_, _, v_hidden]) = (call.shape(input::QUERY)?, call.shape(input::VALUE)?)
    else {
        invalid!("operands with another number of axes than three");
    };
    let key = hidden.floor_div(&Dim::Known(linear.q_heads))?;
    let value = v_hidden.floor_div(&Dim::Known(linear.kv_heads))?;
    Ok([batch.clone(), steps.clone(), key, value])
}

pub(super) fn infer_linear(call: &Call) -> Result<Vec<Fact>> {
    let linear = read_linear(call)?;
    let [batch, steps, key, value] = read_sizes(call, &linear)?;
    let dtype = call.dtype(input::QUERY)?;
    let state = if call.has_input(input::PAST_STATE) { call.dtype(input::PAST_STATE)? } else { dtype };
    let output = vec![batch.clone(), steps, value.mul(&Dim::Known(linear.q_heads))?];
    Ok(vec![Fact::new(dtype, output), Fact::new(state, vec![batch, Dim::Known(linear.kv_heads), key, value])])
}

pub(super) fn expand_linear(expand: &mut Expand) -> Result<bool> {
    let linear = read_linear(expand)?;
    let sizes = read_sizes(expand, &linear)?;
    let known: Option<Vec<i64>> = sizes.iter().map(Dim::known).collect();
    let Some(&[batch, steps, key, value]) = known.as_deref() else {
        return Err(Error::unsupported("sizes that are not fixed").help("fix them with --input-shape"));
    };
    if !(1..=MAX_STEPS).contains(&steps) {
        unsupported!("{steps} steps are too many to write one by one (at most {MAX_STEPS})");
    }
    let (q_heads, kv_heads) = (linear.q_heads, linear.kv_heads);
    let default: f32 = key.as_();
    let scale = number(expand, linear.scale.unwrap_or(1.0 / default.sqrt()))?;
    let q = by_steps(expand, input::QUERY, q_heads, steps)?;
    let k = by_steps(expand, input::KEY, kv_heads, steps)?;
    let v = by_steps(expand, input::VALUE, kv_heads, steps)?;
    let decay = if linear.gated { by_steps(expand, input::DECAY, kv_heads, steps)? } else { Vec::new() };
    let beta = match linear.delta {
        true => {
            let heads = expand.shape(input::BETA)?.at(2)?.known();
            let heads = heads.ok_or_else(|| Error::unsupported("rates whose size is not fixed"))?;
            by_steps(expand, input::BETA, heads, steps)?
        }
        false => Vec::new(),
    };
    let mut state = match expand.has_input(input::PAST_STATE) {
        true => {
            let past = expand.operand(input::PAST_STATE)?;
            Some(to_single(expand, past)?)
        }
        false => None,
    };
    let mut outputs = Vec::new();
    for (i, (q, (k, mut v))) in q.into_iter().zip(k.into_iter().zip(v)).enumerate() {
        if let (Some(before), Some(decay)) = (state, decay.get(i)) {
            let decay = expand.op("Exp", &[*decay], &[])?;
            let decay = transpose(expand, decay, &[0, 1, 3, 2])?;
            state = Some(expand.op("Mul", &[before, decay], &[])?);
        }
        if let Some(beta) = beta.get(i) {
            if let Some(before) = state {
                let held = expand.op("MatMul", &[k, before], &[])?;
                v = expand.op("Sub", &[v, held], &[])?;
            }
            v = expand.op("Mul", &[v, *beta], &[])?;
        }
        let k = transpose(expand, k, &[0, 1, 3, 2])?;
        let mut written = expand.op("MatMul", &[k, v], &[])?;
        if let Some(before) = state {
            written = expand.op("Add", &[before, written], &[])?;
        }
        state = Some(written);
        // Heads of queries that share a state are its rows.
        let rows = expand.ints(&[batch, kv_heads, q_heads / kv_heads, key])?;
        let q = expand.op("Reshape", &[q, rows], &[])?;
        let read = expand.op("MatMul", &[q, written], &[])?;
        let apart = expand.ints(&[batch, 1, q_heads * value])?;
        outputs.push(expand.op("Reshape", &[read, apart], &[])?);
    }
    let whole = match outputs.as_slice() {
        [one] => *one,
        _ => expand.op("Concat", &outputs, &[("axis", Attribute::Int(1))])?,
    };
    let whole = expand.op("Mul", &[whole, scale], &[])?;
    give(expand, 0, input::QUERY, whole)?;
    if let Some(state) = state {
        let like = if expand.has_input(input::PAST_STATE) { input::PAST_STATE } else { input::QUERY };
        give(expand, 1, like, state)?;
    }
    Ok(true)
}

fn give(expand: &mut Expand, index: usize, like: usize, x: Operand) -> Result<()> {
    let to = Attribute::Int(i64::from(expand.dtype(like)?.to_onnx()));
    let x = expand.op("Cast", &[x], &[("to", to)])?;
    expand.output(index, x)
}

/// Input `index`, `[batch, steps, heads * size]`, as `[batch, heads, 1, size]` for each step.
fn by_steps(expand: &mut Expand, index: usize, heads: i64, steps: i64) -> Result<Vec<Operand>> {
    let x = expand.operand(index)?;
    let x = to_single(expand, x)?;
    let apart = expand.ints(&[0, 0, heads, -1])?;
    let x = expand.op("Reshape", &[x, apart], &[])?;
    let x = transpose(expand, x, &[0, 2, 1, 3])?;
    if steps == 1 {
        return Ok(vec![x]);
    }
    let count = usize::try_from(steps)?;
    let sizes = expand.ints(&vec![1; count])?;
    expand.op_n("Split", &[Some(x), Some(sizes)], &[("axis", Attribute::Int(2))], count)
}
