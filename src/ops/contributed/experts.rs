//! MoE: a mixture of experts, of which each token chooses those with the largest router weights.
//!
//! It becomes products with matrices that are gathered for each choice, as current exporters write them, which a
//! fusion (`pass/fuse/experts`) computes for all experts at once.
//!
//! Refused: what onnxruntime does not compute on a processor.

use crate::error::{Result, invalid, unsupported};
use crate::graph::Attribute;
use crate::op::{Access, CONTRIB_DOMAIN, Call, Fact};
use crate::ops::Row;
use crate::pass::expand::{Expand, Operand};
use crate::tensor::Dim;

pub(in crate::ops) const OPS: &[Row] = &[Row::new("MoE", &[1], Access::Any, infer_experts)
    .domain(CONTRIB_DOMAIN)
    .expand(expand_experts)
    .lowers_to("the matrix products of all experts, weighted: 0 for those that a token does not choose")
    .limits(
        "a third matrix of each expert; activation swiglu but with interleaved halves; use_sparse_mixer; weights computed at \
         run time",
    )];

/// Inputs of MoE.
const FIRST: (usize, usize) = (2, 3);
const SECOND: (usize, usize) = (4, 5);
const THIRD: usize = 6;

/// The activation of an expert.
enum Activation {
    /// An operator, with its attributes.
    Op(&'static str, &'static [(&'static str, &'static str)]),
    /// `x * sigmoid(x)`.
    Silu,
    /// Every second element is a gate: `g * sigmoid(alpha * g) * (x + beta)`, with `g` and `x` bounded by `limit`.
    SwiGlu { alpha: f32, beta: f32, limit: Option<f32> },
}

fn read_activation(call: &Call) -> Result<Activation> {
    let interleaved = match call.int_or("swiglu_fusion", 0)? {
        1 => true,
        0 => false,
        other => unsupported!("swiglu_fusion {other}"),
    };
    let alpha = call.float_or("activation_alpha", 1.0)?;
    let beta = call.float_or("activation_beta", 0.0)?;
    let limit = call.float("swiglu_limit")?;
    Ok(match call.string_or("activation_type", "relu")? {
        "identity" => Activation::Op("Identity", &[]),
        "relu" => Activation::Op("Relu", &[]),
        "gelu" => Activation::Op("Gelu", &[("approximate", "tanh")]),
        "silu" => Activation::Silu,
        "swiglu" if interleaved => Activation::SwiGlu { alpha, beta, limit },
        other => unsupported!("the activation {other} in this form"),
    })
}

/// Returns the numbers of choices and of experts.
fn read_counts(call: &Call) -> Result<(i64, i64)> {
    let choices = call.int_or("k", 1)?;
    let Some(experts) = call.shape(1)?.last().and_then(Dim::known) else {
        unsupported!("a free number of experts")
    };
    if !(1..=experts).contains(&choices) {
        invalid!("{choices} choices among {experts} experts");
    }
    Ok((choices, experts))
}

fn infer_experts(call: &Call) -> Result<Vec<Fact>> {
    read_activation(call)?;
    read_counts(call)?;
    call.flag("normalize_routing_weights", false)?;
    if call.flag("use_sparse_mixer", false)? {
        unsupported!("use_sparse_mixer");
    }
    if call.has_input(THIRD) {
        unsupported!("a third matrix of each expert: onnxruntime does not compute it on a processor");
    }
    Ok(vec![call.like(0, call.dtype(0)?)?])
}

fn expand_experts(x: &mut Expand) -> Result<bool> {
    let (choices, _) = read_counts(x)?;
    let Some(width) = x.shape(0)?.last().and_then(Dim::known) else {
        unsupported!("a free number of channels")
    };
    for (matrices, _) in [FIRST, SECOND] {
        x.required_constant(matrices)?;
    }
    let (input, router) = (x.operand(0)?, x.operand(1)?);
    let last = ("axis", Attribute::Int(-1));
    let probabilities = x.op("Softmax", &[router], std::slice::from_ref(&last))?;
    let count = x.ints(&[choices])?;
    let top = x.op_n("TopK", &[Some(probabilities), Some(count)], &[last], 2)?;
    let &[mut weights, chosen] = top.as_slice() else { invalid!("TopK has two outputs") };
    if x.flag("normalize_routing_weights", false)? {
        let axes = x.ints(&[-1])?;
        let sum = x.op("ReduceSum", &[weights, axes], &[])?;
        weights = x.op("Div", &[weights, sum], &[])?;
    }
    let chosen = x.reshape(chosen, &[-1])?;
    let tokens = x.reshape(input, &[-1, 1, width])?;
    let repeats = x.ints(&[1, choices, 1])?;
    let tokens = x.op("Expand", &[tokens, repeats], &[])?;
    let rows = x.reshape(tokens, &[-1, width])?;

    let inner = linear(x, rows, chosen, FIRST)?;
    let inner = activate(x, inner)?;
    let outer = linear(x, inner, chosen, SECOND)?;
    let weights = x.reshape(weights, &[-1, 1])?;
    let weighted = x.op("Mul", &[outer, weights], &[])?;
    let apart = x.reshape(weighted, &[-1, choices, width])?;
    let axes = x.ints(&[1])?;
    let sum = x.op("ReduceSum", &[apart, axes], &[("keepdims", Attribute::Int(0))])?;
    let shape = x.op("Shape", &[input], &[])?;
    let result = x.op("Reshape", &[sum, shape], &[])?;
    x.output(0, result)?;
    Ok(true)
}

/// Emits the linear map of the chosen expert for each row.
fn linear(
    x: &mut Expand,
    rows: Operand,
    chosen: Operand,
    (matrices, bias): (usize, usize),
) -> Result<Operand> {
    let matrices = x.operand(matrices)?;
    let gathered = x.op("Gather", &[matrices, chosen], &[])?;
    let axes = x.ints(&[2])?;
    let columns = x.op("Unsqueeze", &[rows, axes], &[])?;
    let product = x.op("MatMul", &[gathered, columns], &[])?;
    let product = x.op("Squeeze", &[product, axes], &[])?;
    if !x.has_input(bias) {
        return Ok(product);
    }
    let bias = x.operand(bias)?;
    let addend = x.op("Gather", &[bias, chosen], &[])?;
    x.op("Add", &[product, addend], &[])
}

fn activate(x: &mut Expand, inner: Operand) -> Result<Operand> {
    let (alpha, beta, limit) = match read_activation(x)? {
        Activation::Op(op_type, texts) => {
            let attributes: Vec<_> =
                texts.iter().map(|(name, text)| (*name, Attribute::String((*text).into()))).collect();
            return x.op(op_type, &[inner], &attributes);
        }
        Activation::Silu => {
            let gate = x.op("Sigmoid", &[inner], &[])?;
            return x.op("Mul", &[inner, gate], &[]);
        }
        Activation::SwiGlu { alpha, beta, limit } => (alpha, beta, limit),
    };
    let (end, axes, step) = (x.ints(&[i64::MAX])?, x.ints(&[1])?, x.ints(&[2])?);
    let mut halves = Vec::new();
    for first in [0, 1] {
        let start = x.ints(&[first])?;
        halves.push(x.op("Slice", &[inner, start, end, axes, step], &[])?);
    }
    let &[mut gate, mut value] = halves.as_slice() else { invalid!("two halves") };
    if let Some(limit) = limit {
        let (least, most) = (x.scalar_like(0, -limit)?, x.scalar_like(0, limit)?);
        gate = x.op("Min", &[gate, most], &[])?;
        value = x.op("Clip", &[value, least, most], &[])?;
    }
    let scaled = scaled_by(x, gate, alpha)?;
    let open = x.op("Sigmoid", &[scaled], &[])?;
    let swish = x.op("Mul", &[gate, open], &[])?;
    if beta != 0.0 {
        let beta = x.scalar_like(0, beta)?;
        value = x.op("Add", &[value, beta], &[])?;
    }
    x.op("Mul", &[swish, value], &[])
}

fn scaled_by(x: &mut Expand, operand: Operand, factor: f32) -> Result<Operand> {
    if factor == 1.0 {
        return Ok(operand);
    }
    let factor = x.scalar_like(0, factor)?;
    x.op("Mul", &[operand, factor], &[])
}
