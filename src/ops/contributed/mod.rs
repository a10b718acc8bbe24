//! Operators of the domain `com.microsoft`, which exporters and onnxruntime's optimizer write, expanded to
//! ONNX's own operators.
//!
//! Refused: the outputs Mean and InvStdDev.
//!
//! Spec: <https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md>.

mod attention;
pub(in crate::ops) mod experts;
mod gemm;
pub(in crate::ops) mod group_query;

use crate::error::{Error, Result, unsupported};
use crate::graph::Attribute;
use crate::op::{Access, CONTRIB_DOMAIN as DOMAIN, Call, Fact};
use crate::ops::Row;
use crate::pass::expand::{Expand, Operand};
use crate::tensor::{DType, Dim};

pub(in crate::ops) const OPS: &[Row] = &[
    // `past_present_share_buffer` affects only memory; `qkv_hidden_sizes` is checked against the weight.
    Row::new("Attention", &[1], Access::Any, attention::infer_attention)
        .domain(DOMAIN)
        .expand(attention::expand_attention)
        .multiply_adds(attention::multiply_adds)
        .ignore(&["past_present_share_buffer"])
        .lowers_to("MatMul, Add, Mul, Softmax, MatMul")
        .limits("past and present states; rotary positions inside; masks that give lengths"),
    Row::new("MultiHeadAttention", &[1], Access::Any, attention::infer_multi_head)
        .domain(DOMAIN)
        .expand(attention::expand_multi_head)
        .multiply_adds(attention::multi_head_multiply_adds)
        .lowers_to("Add, Mul, MatMul, Softmax, MatMul")
        .limits(
            "queries, keys and values in one tensor; masks that give lengths; a causal mask of free length",
        ),
    Row::new("RotaryEmbedding", &[1], Access::Any, attention::infer_rotary)
        .domain(DOMAIN)
        .expand(attention::expand_rotary)
        .lowers_to("Slice, Mul, Sub, Add, Concat")
        .limits("packed batches, a scale, positions given by an offset"),
    Row::new("Gelu", &[1], Access::Elementwise, infer_like_input)
        .domain(DOMAIN)
        .expand(expand_gelu)
        .lowers_to("Gelu"),
    Row::new("BiasGelu", &[1], Access::Any, infer_like_input)
        .domain(DOMAIN)
        .expand(expand_bias_gelu)
        .lowers_to("Add, Gelu"),
    Row::new("FastGelu", &[1], Access::Elementwise, infer_like_input)
        .domain(DOMAIN)
        .expand(expand_fast_gelu)
        .lowers_to("Add, Gelu"),
    Row::new("QuickGelu", &[1], Access::Elementwise, infer_quick_gelu)
        .domain(DOMAIN)
        .expand(expand_quick_gelu)
        .lowers_to("x * Sigmoid(alpha * x)"),
    Row::new("SkipLayerNormalization", &[1], Access::Any, infer_skip)
        .domain(DOMAIN)
        .expand(expand_skip)
        .lowers_to("Add, LayerNormalization")
        .limits("the outputs mean and inv_std_var"),
    Row::new("SkipSimplifiedLayerNormalization", &[1], Access::Any, infer_skip)
        .domain(DOMAIN)
        .expand(expand_skip_rms)
        .lowers_to("Add, RMSNormalization")
        .limits("the outputs mean and inv_std_var"),
    // onnxruntime's optimizer writes this operator without a domain.
    Row::new("SimplifiedLayerNormalization", &[1], Access::Any, infer_rms)
        .expand(expand_rms)
        .ignore(&["stash_type"])
        .lowers_to("RMSNormalization")
        .limits("the output inv_std_var"),
    Row::new("EmbedLayerNormalization", &[1], Access::Any, infer_embed)
        .domain(DOMAIN)
        .expand(expand_embed)
        .lowers_to("Gather, Add, LayerNormalization")
        .limits("the output mask_index; positions of free length"),
    Row::new("FusedMatMul", &[1], Access::Any, infer_fused_matmul)
        .domain(DOMAIN)
        .expand(expand_fused_matmul)
        .lowers_to("Transpose, MatMul, Mul"),
    Row::new("FusedGemm", &[1], Access::Any, gemm::infer_fused_gemm)
        .domain(DOMAIN)
        .expand(gemm::expand_fused_gemm)
        .lowers_to("Gemm, the activation")
        .limits("uncommon activations"),
    Row::new("FusedConv", &[1], Access::Any, infer_fused_conv)
        .domain(DOMAIN)
        .expand(expand_fused_conv)
        .lowers_to("Conv, Add, the activation")
        .limits("uncommon activations"),
    Row::new("SparseAttention", &[1], Access::Any, refuse_sparse_attention)
        .domain(DOMAIN)
        .limits(NO_SPARSE_ATTENTION),
];

const NO_SPARSE_ATTENTION: &str = "attention to blocks of keys that a sparse layout selects for each head: ncnn's attention has no \
                                   such layout, and a dense mask of it is not implemented";

fn refuse_sparse_attention(_: &Call) -> Result<Vec<Fact>> {
    Err(Error::unsupported(NO_SPARSE_ATTENTION))
}

fn like_input(call: &Call) -> Result<Fact> {
    Ok(Fact::new(call.dtype(0)?, call.shape(0)?.to_vec()))
}

fn infer_like_input(call: &Call) -> Result<Vec<Fact>> {
    Ok(vec![like_input(call)?])
}

fn gelu(x: &mut Expand, operand: Operand, approximate: &'static str) -> Result<Operand> {
    let approximate = Attribute::String(approximate.into());
    x.op("Gelu", &[operand], &[("approximate", approximate)])
}

fn expand_gelu(x: &mut Expand) -> Result<bool> {
    let input = x.operand(0)?;
    let result = gelu(x, input, "none")?;
    x.output(0, result)?;
    Ok(true)
}

fn expand_bias_gelu(x: &mut Expand) -> Result<bool> {
    let (a, b) = (x.operand(0)?, x.operand(1)?);
    let sum = x.op("Add", &[a, b], &[])?;
    let result = gelu(x, sum, "none")?;
    x.output(0, result)?;
    Ok(true)
}

fn expand_fast_gelu(x: &mut Expand) -> Result<bool> {
    let mut input = x.operand(0)?;
    if x.has_input(1) {
        let bias = x.operand(1)?;
        input = x.op("Add", &[input, bias], &[])?;
    }
    let result = gelu(x, input, "tanh")?;
    x.output(0, result)?;
    Ok(true)
}

fn infer_quick_gelu(call: &Call) -> Result<Vec<Fact>> {
    call.float("alpha")?;
    infer_like_input(call)
}

fn expand_quick_gelu(x: &mut Expand) -> Result<bool> {
    let input = x.operand(0)?;
    let alpha = x.float_or("alpha", 1.702)?;
    let alpha = x.scalar_like(0, alpha)?;
    let scaled = x.op("Mul", &[input, alpha], &[])?;
    let gate = x.op("Sigmoid", &[scaled], &[])?;
    let result = x.op("Mul", &[input, gate], &[])?;
    x.output(0, result)?;
    Ok(true)
}

/// Returns the epsilon of a normalization, with onnxruntime's default.
fn epsilon(call: &Call, default: f32) -> Result<(&'static str, Attribute)> {
    Ok(("epsilon", Attribute::Float(call.float_or("epsilon", default)?)))
}

fn infer_skip(call: &Call) -> Result<Vec<Fact>> {
    call.float("epsilon")?;
    refuse_statistics(call)?;
    let fact = like_input(call)?;
    Ok(vec![fact.clone(), Fact::unranked(DType::F32), Fact::unranked(DType::F32), fact])
}

fn refuse_statistics(call: &Call) -> Result<()> {
    if call.has_output(1) || call.has_output(2) {
        unsupported!("the outputs mean and inv_std_var");
    }
    Ok(())
}

fn expand_skip(x: &mut Expand) -> Result<bool> {
    let sum = skip_sum(x, 4)?;
    let epsilon = epsilon(x, 1e-12)?;
    let mut inputs = vec![sum, x.operand(2)?];
    if x.has_input(3) {
        inputs.push(x.operand(3)?);
    }
    let result = x.op("LayerNormalization", &inputs, &[epsilon])?;
    x.output(0, result)?;
    x.output(3, sum)?;
    Ok(true)
}

fn expand_skip_rms(x: &mut Expand) -> Result<bool> {
    let sum = skip_sum(x, 3)?;
    let epsilon = epsilon(x, 1e-12)?;
    let gamma = x.operand(2)?;
    let result = x.op("RMSNormalization", &[sum, gamma], &[epsilon])?;
    x.output(0, result)?;
    x.output(3, sum)?;
    Ok(true)
}

/// Emits the sum of input and skip, and of the bias in input `bias`, if given.
fn skip_sum(x: &mut Expand, bias: usize) -> Result<Operand> {
    let (input, skip) = (x.operand(0)?, x.operand(1)?);
    let sum = x.op("Add", &[input, skip], &[])?;
    if !x.has_input(bias) {
        return Ok(sum);
    }
    let bias = x.operand(bias)?;
    x.op("Add", &[sum, bias], &[])
}

fn infer_rms(call: &Call) -> Result<Vec<Fact>> {
    call.float("epsilon")?;
    call.int("axis")?;
    if call.has_output(1) {
        unsupported!("the output inv_std_var");
    }
    Ok(vec![like_input(call)?, Fact::unranked(DType::F32)])
}

fn expand_rms(x: &mut Expand) -> Result<bool> {
    let (input, scale) = (x.operand(0)?, x.operand(1)?);
    let axis = ("axis", Attribute::Int(x.int_or("axis", -1)?));
    let epsilon = epsilon(x, 1e-5)?;
    let result = x.op("RMSNormalization", &[input, scale], &[axis, epsilon])?;
    x.output(0, result)?;
    Ok(true)
}

fn infer_embed(call: &Call) -> Result<Vec<Fact>> {
    call.float("epsilon")?;
    call.int("mask_index_type")?;
    if call.has_output(1) {
        unsupported!("the output mask_index");
    }
    let mut shape = call.shape(0)?.to_vec();
    shape.extend(call.shape(2)?.last().cloned());
    let fact = Fact::new(call.dtype(2)?, shape);
    Ok(vec![fact.clone(), Fact::unranked(DType::I32), fact])
}

fn expand_embed(x: &mut Expand) -> Result<bool> {
    let (ids, words, positions) = (x.operand(0)?, x.operand(2)?, x.operand(3)?);
    let words = x.op("Gather", &[words, ids], &[])?;
    let positions = if x.has_input(8) {
        let position_ids = x.operand(8)?;
        x.op("Gather", &[positions, position_ids], &[])?
    } else {
        let Some(length) = x.shape(0)?.last().and_then(Dim::known) else {
            unsupported!("positions of a sequence of free length");
        };
        let (start, end, axes) = (x.ints(&[0])?, x.ints(&[length])?, x.ints(&[0])?);
        x.op("Slice", &[positions, start, end, axes], &[])?
    };
    let mut sum = x.op("Add", &[words, positions], &[])?;
    if x.has_input(1) && x.has_input(4) {
        let (segment_ids, segments) = (x.operand(1)?, x.operand(4)?);
        let segments = x.op("Gather", &[segments, segment_ids], &[])?;
        sum = x.op("Add", &[sum, segments], &[])?;
    }
    let (gamma, beta) = (x.operand(5)?, x.operand(6)?);
    let epsilon = epsilon(x, 1e-12)?;
    let result = x.op("LayerNormalization", &[sum, gamma, beta], &[epsilon])?;
    x.output(0, result)?;
    x.output(2, sum)?;
    Ok(true)
}

/// Returns the permutation of an operand of FusedMatMul.
fn operand_perm(rank: usize, transposed: bool, transposed_batch: bool) -> Vec<usize> {
    let mut perm: Vec<usize> = (0..rank).collect();
    // With transBatch the first axis comes after the other batch axes: (b, s, m, k) is stored as (s, m, b,
    // k).
    if transposed_batch && rank > 2 {
        let first = perm.remove(0);
        perm.insert(rank - 2, first);
        perm = (0..rank).map(|axis| perm.iter().position(|p| *p == axis).unwrap_or(axis)).collect();
    }
    if transposed && rank > 1 {
        perm.swap(rank - 2, rank - 1);
    }
    perm
}

fn read_fused_matmul(call: &Call) -> Result<(f32, [Vec<usize>; 2])> {
    let alpha = call.float_or("alpha", 1.0)?;
    let (a, b) = (call.shape(0)?.len(), call.shape(1)?.len());
    let a = operand_perm(a, call.flag("transA", false)?, call.flag("transBatchA", false)?);
    let b = operand_perm(b, call.flag("transB", false)?, call.flag("transBatchB", false)?);
    Ok((alpha, [a, b]))
}

fn infer_fused_matmul(call: &Call) -> Result<Vec<Fact>> {
    let (_, [a, b]) = read_fused_matmul(call)?;
    let seen = |index: usize, perm: &[usize]| -> Result<Vec<Dim>> {
        let shape = call.shape(index)?;
        Ok(perm.iter().filter_map(|axis| shape.get(*axis).cloned()).collect())
    };
    let shape = crate::ops::linear::matmul::matmul_shape(call, &seen(0, &a)?, &seen(1, &b)?)?;
    Ok(vec![Fact::new(call.dtype(0)?, shape)])
}

fn expand_fused_matmul(x: &mut Expand) -> Result<bool> {
    let (alpha, perms) = read_fused_matmul(x)?;
    let mut operands = Vec::new();
    for (index, perm) in perms.iter().enumerate() {
        let operand = x.operand(index)?;
        let perm =
            perm.iter().map(|axis| i64::try_from(*axis)).collect::<std::result::Result<Vec<_>, _>>()?;
        operands.push(x.op("Transpose", &[operand], &[("perm", Attribute::Ints(perm))])?);
    }
    let mut result = x.op("MatMul", &operands, &[])?;
    if alpha != 1.0 {
        let alpha = x.scalar_like(0, alpha)?;
        result = x.op("Mul", &[result, alpha], &[])?;
    }
    x.output(0, result)?;
    Ok(true)
}

/// Returns the activation of a FusedConv: operator and attributes.
fn read_activation(call: &Call) -> Result<(&'static str, Vec<(&'static str, Attribute)>)> {
    let params = call.floats("activation_params")?.unwrap_or_default();
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
        "LeakyRelu" => ("LeakyRelu", vec![("alpha", Attribute::Float(param(0)?))]),
        "Clip" => ("Clip", vec![("min", Attribute::Float(param(0)?)), ("max", Attribute::Float(param(1)?))]),
        "HardSigmoid" => (
            "HardSigmoid",
            vec![("alpha", Attribute::Float(param(0)?)), ("beta", Attribute::Float(param(1)?))],
        ),
        other => unsupported!("the activation {other} is not supported"),
    })
}

fn infer_fused_conv(call: &Call) -> Result<Vec<Fact>> {
    read_activation(call)?;
    Ok(vec![Fact::new(call.dtype(0)?, crate::ops::spatial::conv::conv_shape(call, call.shape(1)?)?)])
}

fn expand_fused_conv(x: &mut Expand) -> Result<bool> {
    let (activation, mut attributes) = read_activation(x)?;
    let mut inputs = vec![x.operand(0)?, x.operand(1)?];
    if x.has_input(2) {
        inputs.push(x.operand(2)?);
    }
    let conv = crate::ops::spatial::conv::conv_attributes(x);
    let mut result = x.op("Conv", &inputs, &conv)?;
    if x.has_input(3) {
        let addend = x.operand(3)?;
        result = x.op("Add", &[result, addend], &[])?;
    }
    let mut inputs = vec![result];
    if activation == "Clip" {
        // In the newest Clip the bounds are inputs.
        for (_, bound) in std::mem::take(&mut attributes) {
            if let Attribute::Float(bound) = bound {
                inputs.push(x.scalar_like(0, bound)?);
            }
        }
    }
    let result = x.op(activation, &inputs, &attributes)?;
    x.output(0, result)?;
    Ok(true)
}
