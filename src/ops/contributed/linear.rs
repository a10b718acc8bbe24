//! Linear attention of `com.microsoft`, by ONNX's operator.

use super::last_sizes;
use crate::op::CONTRIB_DOMAIN as DOMAIN;
use crate::ops::prelude::*;

pub(in crate::ops) const OPS: &[Row] = &[
    Row::expanded(DOMAIN, "GatedDeltaNet", expand_delta_net)
        .lowers_to("LinearAttention of ONNX")
        .limits("sequences of several lengths, captured transitions, a batch known only at run time"),
    Row::expanded(DOMAIN, "LinearAttention", expand_linear_attention)
        .lowers_to("LinearAttention of ONNX")
        .limits("a window of states"),
    Row::expanded(DOMAIN, "LinearAttentionGate", expand_gate).lowers_to("Add, Softplus, Mul; Sigmoid"),
];

fn expand_gate(x: &Expand) -> Result<bool> {
    let dtype = x.dtype(0)?;
    let sum = x.operand_as(0, DType::F32) + x.operand_as(1, DType::F32);
    let decay = x.make.op("Softplus", [sum], []) * x.operand_as(2, DType::F32);
    x.output(0, decay.to_type(dtype));
    if let Some(rate) = x.optional(3) {
        x.output(1, rate.sigmoid());
    }
    Ok(true)
}

/// The most values that share a head of queries: each is an operand of a Concat.
const MAX_COPIES: i64 = 1024;

/// Returns the heads of `[batch, length, heads * size]`, each as many times.
fn repeated<'x>(x: &'x Expand, value: Expr<'x>, heads: i64, times: i64) -> Result<Expr<'x>> {
    if times == 1 {
        return Ok(value);
    }
    if times > MAX_COPIES {
        return Err(Error::limit(format!("a head is copied {times} times (at most {MAX_COPIES})")));
    }
    let apart = value.reshape(&[0, 0, heads, -1]);
    Ok(x.make.stack(&vec![apart; usize::try_from(times)?], 3).reshape(&[0, 0, -1]))
}

/// The update rules: without and with a decay, without and with a correction of the state.
const RULES: [&str; 4] = ["linear", "gated", "delta", "gated_delta"];

fn update_rule(x: &Expand) -> Result<&'static str> {
    x.word("update_rule", &RULES.map(|rule| (rule, rule)))
}

/// The recurrence of ONNX; queries may also be fewer than keys, which share them.
fn expand_linear_attention(x: &Expand) -> Result<bool> {
    if x.int("state_window")? != 0 {
        unsupported!("a window of states");
    }
    let (queries, keys) = (x.int("q_num_heads")?, x.int("kv_num_heads")?);
    let times = match keys.checked_rem(queries) {
        Some(0) if keys > queries && queries > 0 => keys / queries,
        _ => 1,
    };
    let query = repeated(x, x.operand(0), queries, times)?;
    let inputs = [Some(query)].into_iter().chain((1..6).map(|index| x.optional(index)));
    let attributes = [
        ("q_num_heads", queries.saturating_mul(times).into()),
        ("kv_num_heads", keys.into()),
        ("scale", x.float("scale")?.into()),
        ("update_rule", update_rule(x)?.into()),
    ];
    let attention = x.make.op("LinearAttention", inputs, attributes);
    x.output(0, attention);
    if x.has_output(1) {
        x.output(1, attention.output(1));
    }
    Ok(true)
}

/// What onnxruntime adds to the sum of squares of a key (`gated_delta_net_impl.cu`).
const SMALLEST_SQUARES: f32 = 1e-12;

/// Indices of the inputs of GatedDeltaNet.
mod input {
    pub const KEY: usize = 1;
    pub const VALUE: usize = 2;
    pub const LENGTHS: usize = 3;
    pub const DECAY: usize = 4;
    pub const RATE: usize = 5;
    pub const STATE: usize = 6;
    pub const DECAY_LOG: usize = 7;
    pub const DECAY_BIAS: usize = 8;
}

/// The heads of a GatedDeltaNet: each head of queries and keys serves several of the values.
struct DeltaNet<'x> {
    /// `[batch, length, heads, size]`, as `key`, and `value` with its own heads and size.
    query: Expr<'x>,
    key: Expr<'x>,
    value: Expr<'x>,
    batch: i64,
    /// The number of axes before the heads: one axis of all steps, or the batch and the steps.
    leading: usize,
    /// The numbers of heads of keys, and of values.
    heads: [i64; 2],
    /// The size of a key, and of a value.
    sizes: [i64; 2],
}

impl<'x> DeltaNet<'x> {
    fn of(x: &'x Expand) -> Result<DeltaNet<'x>> {
        let shape = x.shape(0)?;
        let is_packed = !x.has_input(input::KEY);
        let own_axes = if is_packed { 1 } else { 2 };
        let leading = match shape.len().checked_sub(own_axes) {
            Some(leading @ (1 | 2)) => leading,
            _ => invalid!("queries with {} axes", shape.len()),
        };
        let batch = match (leading, x.has_input(input::STATE)) {
            (2, _) => shape.at(0)?,
            (_, true) => x.shape(input::STATE)?.at(0)?,
            _ => unsupported!("a batch without a state, from which its size follows"),
        };
        let Some(batch) = batch.known() else { unsupported!("the batch size is known only at run time") };
        let ([keys, key_size], [values, value_size]) = if is_packed {
            let [values, value_size, key_size] = last_sizes(x.shape(input::STATE)?)?;
            let [width] = last_sizes(shape)?;
            let of_keys = width.saturating_sub(values.saturating_mul(value_size));
            let keys = of_keys.checked_div(key_size.saturating_mul(2)).unwrap_or(0);
            ([keys, key_size], [values, value_size])
        } else {
            (last_sizes(x.shape(input::KEY)?)?, last_sizes(x.shape(input::VALUE)?)?)
        };
        let parts = if is_packed {
            let of_keys = keys.saturating_mul(key_size);
            x.operand(0).split(-1, [of_keys, of_keys, values.saturating_mul(value_size)])
        } else {
            [0, input::KEY, input::VALUE].map(|index| x.operand(index))
        };
        let [query, key, value] = parts;
        let by_heads = |part: Expr<'x>, heads: i64, size: i64| part.reshape(&[batch, -1, heads, size]);
        Ok(DeltaNet {
            query: by_heads(query, keys, key_size),
            key: by_heads(key, keys, key_size),
            value: by_heads(value, values, value_size),
            batch,
            leading,
            heads: [keys, values],
            sizes: [key_size, value_size],
        })
    }
}

fn expand_delta_net<'x>(x: &'x Expand) -> Result<bool> {
    if x.has_input(input::LENGTHS) || x.int("state_update_capacity")? != 0 || x.has_output(2) {
        unsupported!("sequences of several lengths, or captured transitions");
    }
    let rule = update_rule(x)?;
    let (has_decay, delta) = (rule.starts_with("gated"), rule.ends_with("delta"));
    let net = DeltaNet::of(x)?;
    let ([keys, values], [_, value_size], batch) = (net.heads, net.sizes, net.batch);
    let times = match values.checked_rem(keys) {
        Some(0) if keys > 0 => values / keys,
        _ => invalid!("{keys} heads of keys for {values} of values"),
    };
    let has_norm = x.flag("qk_l2_norm")?;
    let of_heads = |value: Expr<'x>| {
        let mut value = value.to_type(DType::F32);
        if has_norm {
            value = value / ((value * value).reduce("ReduceSum", &[-1_i64], true) + SMALLEST_SQUARES).sqrt();
        }
        repeated(x, value.reshape(&[0, 0, -1]), keys, times)
    };
    let (query, key) = (of_heads(net.query)?, of_heads(net.key)?);
    let rate = rate(x, &net)?;
    let value = net.value.to_type(DType::F32);
    let value = match rate {
        Some(rate) if !delta => value * rate.unsqueeze(&[-1_i64]),
        _ => value,
    };
    let one = || {
        let sizes = [x.make.ints(&[batch]), query.size(1).reshape(&[1]), x.make.ints(&[1])];
        x.make.number(1.0, DType::F32).broadcast_to(x.make.concat(&sizes, 0))
    };
    let rate = delta.then(|| rate.unwrap_or_else(one));
    let decay = if has_decay { decay(x, &net)? } else { None };
    let rule = match (decay, rule) {
        (None, "gated") => "linear",
        (None, "gated_delta") => "delta",
        _ => rule,
    };
    let state = x.optional(input::STATE).map(|state| state.transpose(&[0, 1, 3, 2]));
    let inputs = [Some(query), Some(key), Some(value.reshape(&[0, 0, -1])), state, decay, rate];
    let attributes = [
        ("q_num_heads", values.into()),
        ("kv_num_heads", values.into()),
        ("scale", x.float("scale")?.into()),
        ("update_rule", rule.into()),
    ];
    let attention = x.make.op("LinearAttention", inputs, attributes);
    let form = if net.leading == 2 { vec![0, 0, values, value_size] } else { vec![-1, values, value_size] };
    x.output(0, attention.reshape(&form).to_type(x.dtype(0)?));
    if x.has_output(1) {
        x.output(1, attention.output(1).transpose(&[0, 1, 3, 2]));
    }
    Ok(true)
}

/// Returns the update rate of each head of values, `[batch, length, heads]`.
fn rate<'x>(x: &'x Expand, net: &DeltaNet<'x>) -> Result<Option<Expr<'x>>> {
    let [_, values] = net.heads;
    let is_raw = x.word("beta_activation", &[("none", false), ("sigmoid", true)])?;
    let rate = x.optional(input::RATE).map(|rate| rate.to_type(DType::F32).reshape(&[net.batch, -1, values]));
    Ok(rate.map(|rate| if is_raw { rate.sigmoid() } else { rate }))
}

/// Returns the logarithm of the decay, of each head of values or of each element of its keys.
fn decay<'x>(x: &'x Expand, net: &DeltaNet<'x>) -> Result<Option<Expr<'x>>> {
    let is_raw = x.word("gate_activation", &[("none", false), ("qwen", true)])?;
    let Some(mut decay) = x.optional(input::DECAY) else { return Ok(None) };
    let ([_, values], [key_size, _]) = (net.heads, net.sizes);
    let is_of_elements = x.shape(input::DECAY)?.len() == net.leading + 2;
    let form = if is_of_elements { vec![values, 1] } else { vec![values] };
    decay = decay.to_type(DType::F32);
    if is_raw {
        let of_head = |index: usize| x.optional(index).map(|value| value.to_type(DType::F32).reshape(&form));
        let gate = x.make.op("Softplus", [decay.add_optional(of_head(input::DECAY_BIAS))], []);
        decay = match of_head(input::DECAY_LOG) {
            Some(log) => gate * log.exp() * -1.0,
            None => gate * -1.0,
        };
    }
    let size = if is_of_elements { values.saturating_mul(key_size) } else { values };
    Ok(Some(decay.reshape(&[net.batch, -1, size])))
}
