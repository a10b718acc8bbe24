//! Operators on images with their channels last, and others of diffusion models. onnxruntime computes most of
//! them only on graphics processors.

use crate::op::CONTRIB_DOMAIN as DOMAIN;
use crate::ops::prelude::*;
use crate::ops::spatial::conv::{conv_attributes, multiply_adds};
use crate::pass::channels::Layout;

pub(in crate::ops) const OPS: &[Row] = &[
    Row::defined(DOMAIN, "BiasAdd", |x| Ok(x.operand(0).plus(x.operand(1)).plus(x.operand(2))))
        .lowers_to("Add"),
    Row::defined(DOMAIN, "BiasSplitGelu", expand_bias_split_gelu)
        .lowers_to("Add, Split, Gelu, Mul")
        .limits("a free number of channels"),
    Row::defined(DOMAIN, "GroupNorm", |x| normalize(x, x.operand(0)))
        .lowers_to("GroupNormalization, Sigmoid, Mul; Transpose for channels that are last"),
    Row::expanded(DOMAIN, "SkipGroupNorm", expand_skip_group_norm)
        .lowers_to("Add, GroupNormalization, Sigmoid, Mul; Transpose for channels that are last"),
    Row::defined(DOMAIN, "NhwcConv", expand_conv)
        .multiply_adds(multiply_adds)
        .lowers_to("Transpose, Conv, Transpose"),
    Row::defined(DOMAIN, "NhwcFusedConv", expand_fused_conv)
        .multiply_adds(multiply_adds)
        .lowers_to("Transpose, Conv, Transpose, Add, the activation")
        .limits("uncommon activations"),
    Row::defined(DOMAIN, "NhwcMaxPool", expand_max_pool).lowers_to("Transpose, MaxPool, Transpose"),
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

fn expand_bias_split_gelu<'x>(x: &'x Expand) -> Result<Expr<'x>> {
    let half = half(x)?;
    let [left, right] = x.operand(0).plus(x.operand(1)).split(-1, [half, half]);
    Ok(left * super::gelu(right, "none"))
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
    let sum = x.operand(0).plus(skip).add_optional(bias);
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

/// The channels of the weight are last, too, in the kernel for CUDA and in the optimizer that writes the
/// operator (`fusion_nhwc_conv.py`); the operator has the description of Conv.
fn expand_conv<'x>(x: &'x Expand) -> Result<Expr<'x>> {
    convolve(x, LAST.move_channels_first(x.operand(1), x.shape(1)?.len()))
}

/// The weight has the layout of Conv.
fn expand_fused_conv<'x>(x: &'x Expand) -> Result<Expr<'x>> {
    super::activate(x, convolve(x, x.operand(1))?.add_optional(x.optional(3)))
}

fn convolve<'x>(x: &'x Expand, weight: Expr<'x>) -> Result<Expr<'x>> {
    let parameters = [weight].into_iter().chain(x.optional(2));
    Ok(LAST.apply(x.operand(0), x.shape(0)?.len(), |data| {
        x.make.op("Conv", [data].into_iter().chain(parameters), conv_attributes(x))
    }))
}

fn expand_max_pool<'x>(x: &'x Expand) -> Result<Expr<'x>> {
    let attributes = crate::graph::pairs(&x.node().attributes);
    Ok(LAST.apply(x.operand(0), x.shape(0)?.len(), |data| x.make.op("MaxPool", [data], attributes)))
}
