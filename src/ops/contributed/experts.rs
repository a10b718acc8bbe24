//! MoE and QMoE: a mixture of experts, of which each token chooses the ones with the largest router weights.
//!
//! It becomes products with matrices that are gathered for each choice, as current exporters write them,
//! which a fusion (`pass/fuse/experts`) computes for all experts at once.
//!
//! Refused: nodes that onnxruntime does not compute on a processor.

use crate::op::CONTRIB_DOMAIN;
use crate::ops::elementwise::gated::swish;
use crate::ops::prelude::*;
use crate::ops::quantized::packed::{check_bits, middle, padded, unpack};

pub(in crate::ops) const OPS: &[Row] = &[
    Row::defined(CONTRIB_DOMAIN, "MoE", expand_experts)
        .lowers_to("the matrix products of all experts, weighted: 0 for those that a token does not choose")
        .limits(
            "a third matrix of each expert; activation swiglu but with interleaved halves; use_sparse_mixer; weights \
             computed at run time",
        ),
    Row::defined(CONTRIB_DOMAIN, "QMoE", expand_quantized_experts)
        .lowers_to("as MoE, with matrices of floats")
        .limits(
            "as MoE; weights of floats, or in the order of one processor; routing weights that are not normalized, or \
             in an input apart from the choices",
        ),
];

/// Inputs of MoE: the matrices and the biases.
const LAYERS: [(usize, usize); 2] = [(2, 3), (4, 5)];
const THIRD: usize = 6;

/// The inputs of a layer of QMoE.
struct Quantized {
    matrices: usize,
    scales: usize,
    bias: usize,
    zero_points: usize,
    bits: &'static str,
}

const QUANTIZED: [Quantized; 2] = [
    Quantized { matrices: 2, scales: 3, bias: 4, zero_points: 11, bits: "fc1_expert_weight_bits" },
    Quantized { matrices: 5, scales: 6, bias: 7, zero_points: 12, bits: "fc2_expert_weight_bits" },
];
/// The first of the inputs of QMoE that are refused, after the inputs of a third layer.
const ROUTER_WEIGHTS: usize = 14;

/// The matrices of each expert, `[experts, outputs, inputs]`, and their biases.
type Layer<'x> = (Expr<'x>, Option<Expr<'x>>);

/// The activation of an expert.
enum Activation {
    /// An operator, with its attributes.
    Op(&'static str, &'static [(&'static str, &'static str)]),
    /// `x * sigmoid(x)`.
    Silu,
    /// Every second element is a gate: `g * sigmoid(alpha * g) * (x + beta)`, with `g` and `x` bounded by
    /// `limit`.
    SwiGlu { alpha: f32, beta: f32, limit: Option<f32> },
}

fn read_activation(call: &Call) -> Result<Activation> {
    let fusion = call.int("swiglu_fusion")?;
    let alpha = call.float("activation_alpha")?;
    let beta = call.float("activation_beta")?;
    let limit = call.optional_float("swiglu_limit")?;
    Ok(match call.string("activation_type")? {
        // The only one of interleaved halves.
        "swiglu" if fusion == 1 => Activation::SwiGlu { alpha, beta, limit },
        other if fusion != 0 => unsupported!("the activation {other} with swiglu_fusion {fusion}"),
        "identity" => Activation::Op("Identity", &[]),
        "relu" => Activation::Op("Relu", &[]),
        "gelu" => Activation::Op("Gelu", &[("approximate", "tanh")]),
        "silu" => Activation::Silu,
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

fn expand_experts<'x>(x: &'x Expand) -> Result<Expr<'x>> {
    if x.flag("use_sparse_mixer")? {
        unsupported!("use_sparse_mixer");
    }
    if x.has_input(THIRD) {
        unsupported!("a third matrix of each expert: onnxruntime does not compute it on a processor");
    }
    for (matrices, _) in LAYERS {
        x.required_constant(matrices)?;
    }
    mix(x, LAYERS.map(|(matrices, bias)| (x.operand(matrices), x.optional(bias))))
}

fn expand_quantized_experts<'x>(x: &'x Expand) -> Result<Expr<'x>> {
    let third = [8, 9, 10, 13];
    if third.iter().any(|index| x.has_input(*index)) {
        unsupported!("a third matrix of each expert");
    }
    if x.flag("use_sparse_mixer")? || x.string("quant_type")? != "int" || x.int("weights_prepacked")? > 0 {
        unsupported!("use_sparse_mixer, weights of floats, or in the order of one processor");
    }
    if !x.flag("normalize_routing_weights")? {
        unsupported!("routing weights as they are: onnxruntime normalizes them on a processor all the same");
    }
    if (ROUTER_WEIGHTS..x.input_count()).any(|index| x.has_input(index)) {
        unsupported!("weights of experts that are not the scores of the router");
    }
    let [first, second] = &QUANTIZED;
    mix(x, [dequantize(x, first)?, dequantize(x, second)?])
}

/// Returns a layer of QMoE with matrices of floats.
fn dequantize<'x>(x: &'x Expand, layer: &Quantized) -> Result<Layer<'x>> {
    x.required_constant(layer.matrices)?;
    let bits = x.optional_int(layer.bits)?.map_or_else(|| x.int("expert_weight_bits"), Ok)?;
    check_bits(bits)?;
    let [experts, outputs, bytes] = *x.sizes(layer.matrices)?.as_slice() else {
        invalid!("matrices of other than three axes");
    };
    let inputs = bytes.saturating_mul(8).checked_div(bits).unwrap_or(0);
    let block = x.optional_int("block_size")?.filter(|size| *size > 0);
    let blocks = block.map_or(1, |size| inputs.checked_div(size).unwrap_or(1));
    let rows = experts.saturating_mul(outputs);
    let levels = unpack(x, layer.matrices, bits, [rows, blocks, inputs.checked_div(blocks).unwrap_or(0)]);
    let zero = if !x.has_input(layer.zero_points) {
        x.make.number(middle(bits).into(), DType::F32)
    } else if block.is_some() {
        unpack(x, layer.zero_points, bits, [rows, padded(blocks, bits), 1]).slice(1, 0, blocks)
    } else {
        let zeros = unpack(x, layer.zero_points, bits, [experts, padded(outputs, bits), 1]);
        zeros.slice(1, 0, outputs).reshape(&[rows, 1, 1])
    };
    let scale = x.operand_as(layer.scales, DType::F32).reshape(&[rows, blocks, 1]);
    let matrices = ((levels - zero) * scale).reshape(&[experts, outputs, inputs]).cast(x.dtype(0)?);
    Ok((matrices, x.optional(layer.bias)))
}

/// Returns the sum of the results of the chosen experts, weighted.
fn mix<'x>(x: &'x Expand, [first, second]: [Layer<'x>; 2]) -> Result<Expr<'x>> {
    let (choices, experts) = read_counts(x)?;
    let Some(width) = x.shape(0)?.last().and_then(Dim::known) else {
        unsupported!("a free number of channels")
    };
    let input = x.operand(0);
    let probabilities = x.operand(1).softmax(-1);
    // Of equal probabilities, the ones of the last experts come first (`moe_cpu.cc`).
    let reversed = probabilities.slice_by(-1, -1, i64::MIN, -1);
    let mut weights = x.make.op("TopK", [reversed, x.make.ints(&[choices])], [("axis", (-1).into())]);
    let indices = weights.output(1);
    if x.flag("normalize_routing_weights")? {
        weights = weights / weights.reduce("ReduceSum", &[-1], true);
    }
    let chosen = x.make.ints(&[experts - 1]) - indices.reshape(&[-1]);
    let tokens = input.reshape(&[-1, 1, width]).broadcast(&[1, choices, 1]);
    let inner = activate(x, linear(tokens.reshape(&[-1, width]), chosen, first))?;
    let weighted = linear(inner, chosen, second) * weights.reshape(&[-1, 1]);
    let sum = weighted.reshape(&[-1, choices, width]).reduce("ReduceSum", &[1], false);
    Ok(sum.reshape_to(input.shape()))
}

/// Returns the linear map of the chosen expert for each row.
fn linear<'x>(rows: Expr<'x>, chosen: Expr<'x>, (matrices, bias): Layer<'x>) -> Expr<'x> {
    let product = matrices.gather(chosen, 0).matmul(rows.unsqueeze(&[2])).squeeze(&[2]);
    product.add_optional(bias.map(|bias| bias.gather(chosen, 0)))
}

fn activate<'x>(x: &'x Expand, inner: Expr<'x>) -> Result<Expr<'x>> {
    let (alpha, beta, limit) = match read_activation(x)? {
        Activation::Op(op_type, texts) => {
            return Ok(x.make.op(op_type, [inner], texts.iter().map(|(name, text)| (*name, (*text).into()))));
        }
        Activation::Silu => return Ok(swish(inner, 1.0)),
        Activation::SwiGlu { alpha, beta, limit } => (alpha, beta, limit),
    };
    let [mut gate, mut value] = [0, 1].map(|first| inner.slice_by(1, first, i64::MAX, 2));
    if let Some(limit) = limit {
        (gate, value) = (gate.minimum(limit), value.clip(-limit, limit));
    }
    Ok(swish(gate, alpha) * if beta == 0.0 { value } else { value + beta })
}
