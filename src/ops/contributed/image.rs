//! Operators on images with their channels last, and others of diffusion models. onnxruntime computes most of them on
//! graphics processors alone.

use crate::op::CONTRIB_DOMAIN as DOMAIN;
use crate::ops::prelude::*;
use crate::ops::spatial::conv::{conv_attributes, conv_shape_of, multiply_adds};
use crate::ops::spatial::pool::pool_shape;
use crate::pass::channels::Layout;

pub(in crate::ops) const OPS: &[Row] = &[
    Row::of(DOMAIN, "BiasAdd", Access::Any, infer_same)
        .formula(|x| Ok(x.operand(0) + x.operand(1) + x.operand(2)))
        .lowers_to("Add"),
    Row::of(DOMAIN, "BiasSplitGelu", Access::Any, infer_bias_split_gelu)
        .formula(expand_bias_split_gelu)
        .lowers_to("Add, Split, Gelu, Mul")
        .limits("a free number of channels"),
    Row::of(DOMAIN, "GroupNorm", Access::Any, infer_group_norm)
        .formula(|x| normalize(x, x.operand(0)))
        .lowers_to("GroupNormalization, Sigmoid, Mul; Transpose for channels that are last"),
    Row::of(DOMAIN, "SkipGroupNorm", Access::Any, infer_group_norm)
        .expand(expand_skip_group_norm)
        .lowers_to("Add, GroupNormalization, Sigmoid, Mul; Transpose for channels that are last"),
    Row::of(DOMAIN, "NhwcConv", Access::Any, infer_conv)
        .multiply_adds(multiply_adds)
        .formula(expand_conv)
        .lowers_to("Transpose, Conv, Transpose"),
    Row::of(DOMAIN, "NhwcFusedConv", Access::Any, infer_fused_conv)
        .multiply_adds(multiply_adds)
        .formula(expand_fused_conv)
        .lowers_to("Transpose, Conv, Transpose, Add, the activation")
        .limits("uncommon activations"),
    Row::of(DOMAIN, "NhwcMaxPool", Access::Any, infer_max_pool)
        .formula(expand_max_pool)
        .lowers_to("Transpose, MaxPool, Transpose"),
];

const LAST: Layout = Layout { channels_last: true };

/// Returns half the number of channels.
fn half(call: &Call) -> Result<i64> {
    match call.shape(0)?.last().and_then(Dim::known) {
        Some(channels) if channels % 2 == 0 => Ok(channels / 2),
        Some(channels) => invalid!("two halves of {channels} channels"),
        None => unsupported!("a free number of channels"),
    }
}

fn infer_bias_split_gelu(call: &Call) -> Result<Vec<Fact>> {
    let mut shape = call.shape(0)?.to_vec();
    if let Some(last) = shape.last_mut() {
        *last = Dim::Known(half(call)?);
    }
    Ok(vec![Fact::new(call.dtype(0)?, shape)])
}

fn expand_bias_split_gelu<'x>(x: &'x Expand) -> Result<Expr<'x>> {
    let half = half(x)?;
    let [left, right] = (x.operand(0) + x.operand(1)).split(-1, [half, half]);
    Ok(left * super::gelu(right, "none"))
}

fn infer_group_norm(call: &Call) -> Result<Vec<Fact>> {
    let fact = call.like(0, call.dtype(0)?)?;
    Ok(vec![fact.clone(), fact])
}

fn expand_skip_group_norm(x: &Expand) -> Result<bool> {
    let layout = Layout::of(x)?;
    let rank = x.shape(0)?.len();
    let skip = x.operand(3);
    let skip = match (x.shape(3)?.len(), layout.channels_last) {
        (2, true) => skip.unsqueeze(&[1, 2]),
        (2, false) => skip.unsqueeze(&[2, 3]),
        _ => skip,
    };
    let bias = x.optional(4).map(|bias| if layout.channels_last { bias } else { bias.along(1, rank) });
    let sum = (x.operand(0) + skip).add_optional(bias);
    x.output(0, normalize(x, sum)?);
    x.output(1, sum);
    Ok(true)
}

/// Returns the normalized groups of channels of `value`, after the activation.
fn normalize<'x>(x: &'x Expand, value: Expr<'x>) -> Result<Expr<'x>> {
    let attributes = [("num_groups", x.int("groups")?.into()), super::epsilon(x)?];
    let swish = match x.int("activation")? {
        0 => false,
        1 => true,
        other => unsupported!("activation {other}"),
    };
    let result = Layout::of(x)?.apply(value, x.shape(0)?.len(), |value| {
        x.make.op("GroupNormalization", [value, x.operand(1), x.operand(2)], attributes)
    });
    Ok(if swish { result * result.sigmoid() } else { result })
}

/// The channels of the weight are last, too, in the kernel for CUDA and in the optimizer that writes the operator
/// (`fusion_nhwc_conv.py`); the description of the operator is that of Conv.
fn infer_conv(call: &Call) -> Result<Vec<Fact>> {
    infer_conv_by(call, &LAST.channels_first(call.shape(1)?))
}

/// The weight is that of Conv.
fn infer_fused_conv(call: &Call) -> Result<Vec<Fact>> {
    infer_conv_by(call, call.shape(1)?)
}

/// Returns the shape of a convolution by a weight that has this shape with channels first.
fn infer_conv_by(call: &Call, weight: &[Dim]) -> Result<Vec<Fact>> {
    let shape = conv_shape_of(call, &LAST.channels_first(call.shape(0)?), weight)?;
    Ok(vec![Fact::new(call.dtype(0)?, LAST.of_channels_first(&shape))])
}

fn expand_conv<'x>(x: &'x Expand) -> Result<Expr<'x>> {
    convolve(x, LAST.move_channels_first(x.operand(1), x.shape(1)?.len()))
}

fn expand_fused_conv<'x>(x: &'x Expand) -> Result<Expr<'x>> {
    super::activate(x, convolve(x, x.operand(1))?.add_optional(x.optional(3)))
}

fn convolve<'x>(x: &'x Expand, weight: Expr<'x>) -> Result<Expr<'x>> {
    let parameters = [weight].into_iter().chain(x.optional(2));
    Ok(LAST.apply(x.operand(0), x.shape(0)?.len(), |data| {
        x.make.op("Conv", [data].into_iter().chain(parameters), conv_attributes(x))
    }))
}

fn infer_max_pool(call: &Call) -> Result<Vec<Fact>> {
    let shape = pool_shape(call, &LAST.channels_first(call.shape(0)?))?;
    Ok(vec![Fact::new(call.dtype(0)?, LAST.of_channels_first(&shape))])
}

fn expand_max_pool<'x>(x: &'x Expand) -> Result<Expr<'x>> {
    let attributes = crate::graph::pairs(&x.node().attributes);
    Ok(LAST.apply(x.operand(0), x.shape(0)?.len(), |data| data.apply("MaxPool", attributes)))
}
