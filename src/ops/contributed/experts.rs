//! MoE: a mixture of experts, of which each token chooses those with the largest router weights.
//!
//! It becomes products with matrices that are gathered for each choice, as current exporters write them, which a
//! fusion (`pass/fuse/experts`) computes for all experts at once.
//!
//! Refused: what onnxruntime does not compute on a processor.

use crate::op::CONTRIB_DOMAIN;
use crate::ops::prelude::*;

pub(in crate::ops) const OPS: &[Row] = &[Row::of(CONTRIB_DOMAIN, "MoE", Access::Any, infer_experts)
    .formula(expand_experts)
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
    let interleaved = match call.int("swiglu_fusion")? {
        1 => true,
        0 => false,
        other => unsupported!("swiglu_fusion {other}"),
    };
    let alpha = call.float("activation_alpha")?;
    let beta = call.float("activation_beta")?;
    let limit = call.given_float("swiglu_limit")?;
    Ok(match call.string("activation_type")? {
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
    let choices = call.int("k")?;
    let Some(experts) = call.shape(1)?.last().and_then(Dim::known) else {
        unsupported!("a free number of experts")
    };
    if !(1..=experts).contains(&choices) {
        invalid!("{choices} choices among {experts} experts");
    }
    Ok((choices, experts))
}

fn infer_experts(call: &Call) -> Result<Vec<Fact>> {
    if call.flag("use_sparse_mixer")? {
        unsupported!("use_sparse_mixer");
    }
    if call.has_input(THIRD) {
        unsupported!("a third matrix of each expert: onnxruntime does not compute it on a processor");
    }
    Ok(vec![call.like(0, call.dtype(0)?)?])
}

fn expand_experts<'x>(x: &'x Expand) -> Result<Expr<'x>> {
    let (choices, _) = read_counts(x)?;
    let Some(width) = x.shape(0)?.last().and_then(Dim::known) else {
        unsupported!("a free number of channels")
    };
    for (matrices, _) in [FIRST, SECOND] {
        x.required_constant(matrices)?;
    }
    let input = x.operand(0);
    let probabilities = x.operand(1).softmax(-1);
    let [mut weights, chosen] =
        x.make.op_n("TopK", [probabilities, x.make.ints(&[choices])], [("axis", (-1).into())]);
    if x.flag("normalize_routing_weights")? {
        weights = weights / weights.reduce("ReduceSum", &[-1], true);
    }
    let chosen = chosen.reshape(&[-1]);
    let tokens = input.reshape(&[-1, 1, width]).broadcast(&[1, choices, 1]);
    let inner = activate(x, linear(x, tokens.reshape(&[-1, width]), chosen, FIRST))?;
    let weighted = linear(x, inner, chosen, SECOND) * weights.reshape(&[-1, 1]);
    let sum = weighted.reshape(&[-1, choices, width]).reduce("ReduceSum", &[1], false);
    Ok(sum.reshape_to(input.shape()))
}

/// Returns the linear map of the chosen expert for each row.
fn linear<'x>(x: &'x Expand, rows: Expr<'x>, chosen: Expr<'x>, (matrices, bias): (usize, usize)) -> Expr<'x> {
    let matrices = x.operand(matrices).gather(chosen, 0);
    let product = matrices.matmul(rows.unsqueeze(&[2])).squeeze(&[2]);
    product.add_optional(x.optional(bias).map(|bias| bias.gather(chosen, 0)))
}

fn activate<'x>(x: &'x Expand, inner: Expr<'x>) -> Result<Expr<'x>> {
    let (alpha, beta, limit) = match read_activation(x)? {
        Activation::Op(op_type, texts) => {
            return Ok(inner.apply(op_type, texts.iter().map(|(name, text)| (*name, (*text).into()))));
        }
        Activation::Silu => return Ok(inner * inner.sigmoid()),
        Activation::SwiGlu { alpha, beta, limit } => (alpha, beta, limit),
    };
    let [mut gate, mut value] = [0, 1].map(|first| inner.slice_by(1, first, i64::MAX, 2));
    if let Some(limit) = limit {
        (gate, value) = (gate.min(limit), value.clip(-limit, limit));
    }
    let swish = gate * (if alpha == 1.0 { gate } else { gate * alpha }).sigmoid();
    Ok(swish * if beta == 0.0 { value } else { value + beta })
}
