//! Operators of the domain `com.microsoft`, which exporters and onnxruntime's optimizer write, expanded to
//! operators of ONNX.
//!
//! Refused: the outputs Mean and InvStdDev.
//!
//! Spec: <https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md>.

mod attention;
mod bnb;
mod custom;
mod decoder;
mod deform;
mod experts;
mod fused;
mod gemm;
mod group_query;
mod image;
mod legacy;
mod linear;

use crate::graph::Attribute;
use crate::op::CONTRIB_DOMAIN as DOMAIN;
use crate::ops::elementwise::gated::swish;
use crate::ops::prelude::*;
use crate::pass::builder::Term;

/// The families of this shelf.
pub(super) const FAMILIES: &[&[Row]] = &[
    OPS,
    bnb::OPS,
    custom::OPS,
    decoder::OPS,
    deform::OPS,
    experts::OPS,
    fused::OPS,
    group_query::OPS,
    image::OPS,
    legacy::OPS,
    linear::OPS,
];

const OPS: &[Row] = &[
    // `qkv_hidden_sizes` is checked against the weight.
    Row::defined(DOMAIN, "Attention", attention::expand_attention)
        .multiply_adds(attention::multiply_adds)
        .appends(|_, _| vec![(attention::input::PAST, 3)])
        .lowers_to("MatMul, Add, Mul, Softmax, MatMul; Concat for states")
        .limits("a state in a buffer; rotary positions inside; masks that give lengths"),
    Row::defined(DOMAIN, "MultiHeadAttention", |x| attention::expand(x, &attention::MULTI_HEAD))
        .multiply_adds(attention::multi_head_multiply_adds)
        .appends(|_, _| attention::MULTI_HEAD.past.map(|index| (index, 2)).to_vec())
        .lowers_to("Add, Mul, MatMul, Softmax, MatMul; Concat for states")
        .limits(
            "queries, keys and values in one tensor; masks that give lengths; a causal mask over another sequence; a \
             state in a buffer",
        ),
    Row::defined(DOMAIN, "DecoderMaskedMultiHeadAttention", attention::expand_masked)
        .multiply_adds(attention::multi_head_multiply_adds)
        .lowers_to("MatMul, Mul, Add, Softmax, MatMul")
        .limits("self-attention, whose state is in a buffer; a bias"),
    Row::defined(DOMAIN, "Range", expand_range).lowers_to("Range"),
    Row::defined(DOMAIN, "ConvTransposeWithDynamicPads", expand_conv_transpose)
        .multiply_adds(crate::ops::spatial::conv::multiply_adds)
        .lowers_to("ConvTranspose")
        .limits("pads known only at run time"),
    Row::defined(DOMAIN, "GatherND", |x| Ok(x.make.op("GatherND", [x.operand(0), x.operand(1)], [])))
        .lowers_to("GatherND"),
    Row::defined(DOMAIN, "Pad", expand_pad).lowers_to("Pad"),
    Row::defined(DOMAIN, "ExpandDims", |x| Ok(x.operand(0).unsqueeze(&x.int_list(1)?)))
        .lowers_to("Unsqueeze"),
    Row::defined(DOMAIN, "RotaryEmbedding", attention::expand_rotary)
        .lowers_to("Slice, Mul, Sub, Add, Concat")
        .limits("packed batches, a scale"),
    Row::defined(DOMAIN, "Gelu", |x| Ok(gelu(x.operand(0), "none"))).access(Access::Elementwise)
        .lowers_to("Gelu"),
    Row::defined(DOMAIN, "BiasGelu", |x| Ok(gelu(x.operand(0).plus(x.operand(1)), "none")))
        .lowers_to("Add, Gelu"),
    Row::defined(DOMAIN, "FastGelu", |x| Ok(gelu(x.operand(0).add_optional(x.optional(1)), "tanh"))).access(Access::Elementwise)
        .lowers_to("Add, Gelu"),
    Row::defined(DOMAIN, "QuickGelu", |x| Ok(swish(x.operand(0), x.float("alpha")?))).access(Access::Elementwise)
        .lowers_to("x * Sigmoid(alpha * x)"),
    Row::expanded(DOMAIN, "SkipLayerNormalization", |x| skip(x, "LayerNormalization", [x.operand(2)].into_iter().chain(x.optional(3)), 4))
        .lowers_to("Add, LayerNormalization")
        .limits("the outputs mean and inv_std_var"),
    Row::expanded(DOMAIN, "SkipSimplifiedLayerNormalization", |x| skip(x, "RMSNormalization", [x.operand(2)], 3))
        .lowers_to("Add, RMSNormalization")
        .limits("the outputs mean and inv_std_var"),
    // onnxruntime's optimizer writes this operator without a domain.
    Row::defined("", "SimplifiedLayerNormalization", expand_rms)
        .lowers_to("RMSNormalization")
        .limits("the output inv_std_var"),
    Row::expanded(DOMAIN, "QEmbedLayerNormalization", expand_quantized_embed)
        .lowers_to("DequantizeLinear, Gather, Add, LayerNormalization"),
    Row::expanded(DOMAIN, "EmbedLayerNormalization", |x| embed(x, [2, 3, 4, 5, 6].map(|index| x.optional(index)), x.optional(8)))
        .lowers_to("Gather, Add, LayerNormalization"),
    fused_matmul("FusedMatMul"),
    // The older name, without transposed batches.
    fused_matmul("TransposeMatMul"),
    Row::defined(DOMAIN, "FusedGemm", gemm::expand_fused_gemm)
        .multiply_adds(crate::ops::linear::matmul::gemm::multiply_adds)
        .lowers_to("Gemm, the activation")
        .limits("uncommon activations"),
    Row::defined(DOMAIN, "FusedConv", expand_fused_conv)
        .multiply_adds(crate::ops::spatial::conv::multiply_adds)
        .lowers_to("Conv, Add, the activation")
        .limits("uncommon activations"),
];

/// Expands Range to that of ONNX, whose step is not optional.
fn expand_range<'x>(x: &'x Expand) -> Result<Expr<'x>> {
    let (start, limit) = (x.operand(0), x.operand(1));
    let step = x.optional(2).unwrap_or_else(|| 1_i64.with_type_of(start));
    Ok(x.make.op("Range", [start, limit, step].map(Expr::scalar), []))
}

/// Expands Pad, whose pads may be a matrix of one row.
fn expand_pad<'x>(x: &'x Expand) -> Result<Expr<'x>> {
    let value = x.optional(2).map(Expr::scalar);
    let mode = x.word("mode", &["constant", "edge", "reflect"].map(|mode| (mode, mode)))?;
    let inputs = [Some(x.operand(0)), Some(x.operand(1).reshape(&[-1_i64])), value];
    Ok(x.make.op("Pad", inputs, [("mode", mode.into())]))
}

/// Expands a ConvTranspose whose pads are input 2.
fn expand_conv_transpose<'x>(x: &'x Expand) -> Result<Expr<'x>> {
    let mut attributes = crate::ops::spatial::conv::conv_attributes(x);
    attributes.extend(x.optional_ints("output_padding")?.map(|list| ("output_padding", list.into())));
    if x.has_input(2) {
        attributes.push(("pads", x.int_list(2)?.into()));
    }
    let inputs = [Some(x.operand(0)), Some(x.operand(1)), x.optional(3)];
    Ok(x.make.op("ConvTranspose", inputs, attributes))
}

const fn fused_matmul(name: &'static str) -> Row {
    Row::defined(DOMAIN, name, expand_fused_matmul)
        .multiply_adds(fused_multiply_adds)
        .lowers_to("Transpose, MatMul, Mul")
}

fn gelu<'x>(value: Expr<'x>, approximate: &'static str) -> Expr<'x> {
    value.builder.op("Gelu", [value], [("approximate", approximate.into())])
}

/// Returns the epsilon of a normalization, with onnxruntime's default.
fn epsilon(call: &Call) -> Result<(&'static str, Attribute)> {
    Ok(("epsilon", Attribute::Float(call.float("epsilon")?)))
}

/// Returns the sizes of as many last axes of a shape.
fn last_sizes<const N: usize>(shape: &[Dim]) -> Result<[i64; N]> {
    let last = shape.get(shape.len().saturating_sub(N)..).unwrap_or_default();
    let sizes = Dim::known_sizes(last).and_then(|sizes: Vec<i64>| sizes.try_into().ok());
    sizes.ok_or_else(|| Error::unsupported(format!("sizes known only at run time: {}", display_shape(shape))))
}

/// Returns a value normalized along its last axis, by the epsilon of the node.
fn normalized_rows<'x>(x: &'x Expand, value: Expr<'x>, scale: Expr<'x>) -> Result<Expr<'x>> {
    Ok(x.make.op("RMSNormalization", [value, scale], [("axis", Attribute::Int(-1)), epsilon(x)?]))
}

/// Normalizes the sum of input and skip, and of the bias in input `bias`, if present.
fn skip<'x>(
    x: &'x Expand,
    op_type: &'static str,
    parameters: impl IntoIterator<Item = Expr<'x>>,
    bias: usize,
) -> Result<bool> {
    if x.has_output(1) || x.has_output(2) {
        unsupported!("the outputs mean and inv_std_var");
    }
    let sum = x.operand(0).plus(x.operand(1)).add_optional(x.optional(bias));
    x.output(0, x.make.op(op_type, [sum].into_iter().chain(parameters), [epsilon(x)?]));
    x.output(3, sum);
    Ok(true)
}

fn expand_rms<'x>(x: &'x Expand) -> Result<Expr<'x>> {
    if x.has_output(1) {
        unsupported!("the output inv_std_var");
    }
    let attributes = [("axis", x.int("axis")?.into()), epsilon(x)?];
    Ok(x.make.op("RMSNormalization", [x.operand(0), x.operand(1)], attributes))
}

/// The scales are the inputs from 8 on, followed by the zero points, in the order of the tables.
fn expand_quantized_embed(x: &Expand) -> Result<bool> {
    let table = |index: usize| {
        let inputs = [2, 8, 13].map(|first| x.optional(first + index));
        inputs[0].map(|_| x.make.op("DequantizeLinear", inputs, []))
    };
    embed(x, [0, 1, 2, 3, 4].map(table), None)
}

/// Returns the normalized sum of the rows of the tables of words, positions and segments.
fn embed<'x>(
    x: &'x Expand,
    [words, positions, segments, gamma, beta]: [Option<Expr<'x>>; 5],
    position_ids: Option<Expr<'x>>,
) -> Result<bool> {
    let (Some(words), Some(positions)) = (words, positions) else { invalid!("no words or positions") };
    let positions = match position_ids {
        Some(position_ids) => positions.gather(position_ids, 0),
        None => positions.first_of(0, x.operand(0).size(-1)),
    };
    let sum = words.gather(x.operand(0), 0).plus(positions);
    let segments = x.optional(1).zip(segments).map(|(ids, segments)| segments.gather(ids, 0));
    let sum = sum.add_optional(segments);
    let inputs = [Some(sum), gamma, beta];
    x.output(0, x.make.op("LayerNormalization", inputs, [epsilon(x)?]));
    x.check_shape(7, x.shape(0)?)?;
    // The number of valid words; without a mask it is 0 (`embed_layer_norm.cc`).
    let valid = match x.optional(7) {
        Some(mask) => mask.equal(1_i64).cast(DType::I32).reduce("ReduceSum", &[1], false),
        None => x.make.number(0.0, DType::I32).broadcast_to(x.operand(0).size(0).reshape(&[1])),
    };
    x.output(1, valid);
    x.output(2, sum);
    Ok(true)
}

/// Returns the permutation of an operand of FusedMatMul.
fn operand_perm(rank: usize, transposed: bool, transposed_batch: bool) -> Vec<usize> {
    let mut perm: Vec<usize> = (0..rank).collect();
    // With transBatch the rows come before the batch: (a, b, m, k) is stored as (m, a, b, k).
    if transposed_batch && rank > 2 {
        let first = perm.remove(0);
        perm.insert(rank - 2, first);
    }
    if transposed && rank > 1 {
        perm.swap(rank - 2, rank - 1);
    }
    perm
}

fn read_fused_matmul(call: &Call) -> Result<(f32, [Vec<usize>; 2])> {
    let alpha = call.float("alpha")?;
    let (a, b) = (call.shape(0)?.len(), call.shape(1)?.len());
    let a = operand_perm(a, call.flag("transA")?, call.flag_or_false("transBatchA")?);
    let b = operand_perm(b, call.flag("transB")?, call.flag_or_false("transBatchB")?);
    Ok((alpha, [a, b]))
}

/// Each element of the output is a sum over an axis of the left operand.
fn fused_multiply_adds(call: &Call) -> Option<u64> {
    let (_, [a, _]) = read_fused_matmul(call).ok()?;
    let summed = call.shape(0).ok()?.get(*a.last()?)?;
    Some(
        element_count(call.output_shape(0).ok()?)?
            .saturating_mul(element_count(std::slice::from_ref(summed))?),
    )
}

fn expand_fused_matmul<'x>(x: &'x Expand) -> Result<Expr<'x>> {
    let (alpha, [a, b]) = read_fused_matmul(x)?;
    let product = x.operand(0).transpose(&a).matmul(x.operand(1).transpose(&b));
    Ok(if alpha == 1.0 { product } else { product * alpha })
}

/// Returns the activation of a FusedConv: operator and parameters.
fn read_activation(call: &Call) -> Result<(&'static str, Vec<(&'static str, f32)>)> {
    let params = call.optional_floats("activation_params")?.unwrap_or_default();
    let param = |index: usize| {
        let missing = || Error::invalid("too few values").at_part("attribute activation_params");
        params.get(index).copied().ok_or_else(missing)
    };
    let activation = call.string_or("activation", "")?;
    Ok(match activation {
        "" => ("Identity", Vec::new()),
        "Relu" => ("Relu", Vec::new()),
        "Sigmoid" => ("Sigmoid", Vec::new()),
        "Tanh" => ("Tanh", Vec::new()),
        "LeakyRelu" => ("LeakyRelu", vec![("alpha", param(0)?)]),
        "Clip" => ("Clip", vec![("min", param(0)?), ("max", param(1)?)]),
        "HardSigmoid" => ("HardSigmoid", vec![("alpha", param(0)?), ("beta", param(1)?)]),
        other => unsupported!("the activation {other} is not supported"),
    })
}

fn expand_fused_conv<'x>(x: &'x Expand) -> Result<Expr<'x>> {
    let inputs = [x.operand(0), x.operand(1)].into_iter().chain(x.optional(2));
    let conv = x.make.op("Conv", inputs, crate::ops::spatial::conv::conv_attributes(x));
    activate(x, conv.add_optional(x.optional(3)))
}

/// Returns the result of the activation of a fused convolution for its sum.
fn activate<'x>(x: &'x Expand, sum: Expr<'x>) -> Result<Expr<'x>> {
    let (activation, parameters) = read_activation(x)?;
    Ok(match (activation, parameters.as_slice()) {
        // In the newest Clip the bounds are inputs.
        ("Clip", [(_, low), (_, high)]) => sum.clip(*low, *high),
        _ => x.make.op(activation, [sum], parameters.into_iter().map(|(name, number)| (name, number.into()))),
    })
}
