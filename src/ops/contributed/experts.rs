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

fn expand_experts(x: &Expand) -> Result<bool> {
    let (choices, _) = read_counts(x)?;
    let Some(width) = x.shape(0)?.last().and_then(Dim::known) else {
        unsupported!("a free number of channels")
    };
    for (matrices, _) in [FIRST, SECOND] {
        x.required_constant(matrices)?;
    }
    let (input, router) = (x.raw_operand(0)?, x.raw_operand(1)?);
    let last = ("axis", Attribute::Int(-1));
    let probabilities = x.raw_op("Softmax", &[router], std::slice::from_ref(&last))?;
    let count = x.raw_ints(&[choices])?;
    let top = x.raw_op_n("TopK", &[Some(probabilities), Some(count)], &[last], 2)?;
    let &[mut weights, chosen] = top.as_slice() else { invalid!("TopK has two outputs") };
    if x.flag("normalize_routing_weights", false)? {
        let axes = x.raw_ints(&[-1])?;
        let sum = x.raw_op("ReduceSum", &[weights, axes], &[])?;
        weights = x.raw_op("Div", &[weights, sum], &[])?;
    }
    let chosen = x.raw_reshape(chosen, &[-1])?;
    let tokens = x.raw_reshape(input, &[-1, 1, width])?;
    let repeats = x.raw_ints(&[1, choices, 1])?;
    let tokens = x.raw_op("Expand", &[tokens, repeats], &[])?;
    let rows = x.raw_reshape(tokens, &[-1, width])?;

    let inner = linear(x, rows, chosen, FIRST)?;
    let inner = activate(x, inner)?;
    let outer = linear(x, inner, chosen, SECOND)?;
    let weights = x.raw_reshape(weights, &[-1, 1])?;
    let weighted = x.raw_op("Mul", &[outer, weights], &[])?;
    let apart = x.raw_reshape(weighted, &[-1, choices, width])?;
    let axes = x.raw_ints(&[1])?;
    let sum = x.raw_op("ReduceSum", &[apart, axes], &[("keepdims", Attribute::Int(0))])?;
    let shape = x.raw_op("Shape", &[input], &[])?;
    let result = x.raw_op("Reshape", &[sum, shape], &[])?;
    x.raw_output(0, result)?;
    Ok(true)
}

/// Emits the linear map of the chosen expert for each row.
fn linear(x: &Expand, rows: Operand, chosen: Operand, (matrices, bias): (usize, usize)) -> Result<Operand> {
    let matrices = x.raw_operand(matrices)?;
    let gathered = x.raw_op("Gather", &[matrices, chosen], &[])?;
    let axes = x.raw_ints(&[2])?;
    let columns = x.raw_op("Unsqueeze", &[rows, axes], &[])?;
    let product = x.raw_op("MatMul", &[gathered, columns], &[])?;
    let product = x.raw_op("Squeeze", &[product, axes], &[])?;
    if !x.has_input(bias) {
        return Ok(product);
    }
    let bias = x.raw_operand(bias)?;
    let addend = x.raw_op("Gather", &[bias, chosen], &[])?;
    x.raw_op("Add", &[product, addend], &[])
}

fn activate(x: &Expand, inner: Operand) -> Result<Operand> {
    let (alpha, beta, limit) = match read_activation(x)? {
        Activation::Op(op_type, texts) => {
            let attributes: Vec<_> =
                texts.iter().map(|(name, text)| (*name, Attribute::String((*text).into()))).collect();
            return x.raw_op(op_type, &[inner], &attributes);
        }
        Activation::Silu => {
            let gate = x.raw_op("Sigmoid", &[inner], &[])?;
            return x.raw_op("Mul", &[inner, gate], &[]);
        }
        Activation::SwiGlu { alpha, beta, limit } => (alpha, beta, limit),
    };
    let (end, axes, step) = (x.raw_ints(&[i64::MAX])?, x.raw_ints(&[1])?, x.raw_ints(&[2])?);
    let mut halves = Vec::new();
    for first in [0, 1] {
        let start = x.raw_ints(&[first])?;
        halves.push(x.raw_op("Slice", &[inner, start, end, axes, step], &[])?);
    }
    let &[mut gate, mut value] = halves.as_slice() else { invalid!("two halves") };
    if let Some(limit) = limit {
        let (least, most) = (x.raw_scalar_like(0, -limit)?, x.raw_scalar_like(0, limit)?);
        gate = x.raw_op("Min", &[gate, most], &[])?;
        value = x.raw_op("Clip", &[value, least, most], &[])?;
    }
    let scaled = scaled_by(x, gate, alpha)?;
    let open = x.raw_op("Sigmoid", &[scaled], &[])?;
    let swish = x.raw_op("Mul", &[gate, open], &[])?;
    if beta != 0.0 {
        let beta = x.raw_scalar_like(0, beta)?;
        value = x.raw_op("Add", &[value, beta], &[])?;
    }
    x.raw_op("Mul", &[swish, value], &[])
}

fn scaled_by(x: &Expand, operand: Operand, factor: f32) -> Result<Operand> {
    if factor == 1.0 {
        return Ok(operand);
    }
    let factor = x.raw_scalar_like(0, factor)?;
    x.raw_op("Mul", &[operand, factor], &[])
}
