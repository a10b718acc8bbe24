//! Int8 convolutions and linear maps, made by `pass::quantized` and by operators on quantized values.
//!
//! The inputs are the data in float32, the weight in int8, the reciprocals of the weight's quantization
//! scales, and the bias. The attribute `scale` is the reciprocal of the data's quantization scale, `zero` the
//! level of padded elements. Without a scale, the data of a linear map are rounded by their range.

use super::kernel::Kernel;
use super::node::{conv_shape, conv_spans, fixed, read_conv, split_shape};
use num_traits::AsPrimitive;

use crate::ncnn::layer::{
    Convolution, ConvolutionDepthWise, Gemm, InnerProduct, broadcast_type_c, is_transformed,
};
use crate::ncnn::{Layer, WINOGRAD};
use crate::op::required;
use crate::ops::prelude::*;
use crate::ops::spatial::window::WindowAxis;
use crate::tensor::Border;

/// Returns the attributes `scale` and `zero`.
fn read_scale(call: &Call) -> Result<(Option<f32>, i64)> {
    Ok((call.optional_float("scale")?, call.int("zero")?))
}

pub(super) fn infer_conv(call: &Call) -> Result<Vec<Fact>> {
    Ok(vec![Fact::new(DType::F32, conv_shape(call)?)])
}

pub(super) fn infer_linear(call: &Call) -> Result<Vec<Fact>> {
    let (rows, outputs) = (call.shape(0)?.at(0)?.clone(), call.shape(1)?.at(0)?.clone());
    Ok(vec![Fact::new(DType::F32, vec![rows, outputs])])
}

pub(super) fn lower_conv(lower: &Lower) -> Result<()> {
    let conv = read_conv(lower, lower.shape(1)?)?;
    let (scale, zero) = read_scale(lower)?;
    let scale = required(scale, "scale")?;
    let (_, _, spatial) = split_shape(lower.shape(0)?, lower.shape(1)?)?;
    let mut spans = conv_spans(lower, &conv.window, spatial)?;
    let mut x = lower.input(0).reshape(lower.shape(0)?.get(1..).unwrap_or_default());
    if zero != 0 {
        x = pad(x, &mut spans, AsPrimitive::<f32>::as_(zero) / scale)?;
    }
    let kernel = Kernel {
        num_output: fixed(lower.shape(1)?.at(0)?)?,
        group: i32::try_from(conv.group)?,
        spans,
        output_pads: None,
        weight: Some(lower.required_constant(1)?.clone()),
        bias: Some(lower.required_constant(3)?.clone()),
    };
    let weight_data_int8_scales = Some(lower.required_constant(2)?.clone());
    let bottom_blob_int8_scales = Some(Tensor::from_f32(&[1], vec![scale])?);
    let layer: Layer = match kernel.convolution()? {
        Layer::Convolution(layer) => {
            let overflows =
                is_transformed(&layer.windows()) && winograd_overflows(lower.required_constant(1)?)?;
            let featmask = if overflows { WINOGRAD } else { 0 };
            Convolution { weight_data_int8_scales, bottom_blob_int8_scales, featmask, ..*layer }.into()
        }
        Layer::ConvolutionDepthWise(layer) => {
            ConvolutionDepthWise { weight_data_int8_scales, bottom_blob_int8_scales, ..*layer }.into()
        }
        _ => return Err(Error::internal("an int8 convolution over other than two axes")),
    };
    lower.give(0, x.layer(layer, lower.output_shape(0)?.get(1..).unwrap_or_default()))
}

/// The factor of the sums of Winograd's transforms (`convolution_3x3_winograd_int8.h`): sums of its kernels
/// are multiples of 24 along each axis. Sums wrap around at 32 bits, so only the last ones, which are divided
/// by the factor, must fit.
const GROWTH: i64 = 24 * 24;

/// Returns whether the sums of an output may overflow 32 bits in Winograd's transforms.
fn winograd_overflows(weight: &Tensor) -> Result<bool> {
    let weights = weight.load_listed()?.int_list()?;
    let outputs = weight.shape().first().copied().unwrap_or(1).max(1);
    let largest =
        weights.chunks((weights.len() / outputs).max(1)).map(|row| row.iter().map(|w| w.abs()).sum::<i64>());
    Ok(largest.max().unwrap_or(0).saturating_mul(LARGEST * GROWTH) > i64::from(i32::MAX))
}

/// The largest magnitude of an integer in ncnn's int8 layers.
const LARGEST: i64 = 127;

/// Pads height and width with `value` by a separate layer, and removes the padding from `spans`: packed
/// int8 padding with negative values is wrong in the runtime (`padding_x86.cpp`, forward_int8).
fn pad<'l>(x: Nd<'l>, spans: &mut [WindowAxis], value: f32) -> Result<Nd<'l>> {
    if spans.iter().any(|span| span.begin < 0 || span.end < 0) {
        return Err(Error::unsupported("int8 padding that depends on sizes known only at run time"));
    }
    let around = spans.iter().zip(1..).map(|(span, axis)| (axis, [span.begin, span.end].map(Dim::from)));
    let padded = x.pad(&around.collect::<Vec<_>>(), Border::Constant(value));
    spans.iter_mut().for_each(|span| (span.begin, span.end) = (0, 0));
    Ok(padded)
}

pub(super) fn lower_linear(lower: &Lower) -> Result<()> {
    let (scale, _) = read_scale(lower)?;
    let outputs = lower.shape(1)?.at(0)?.clone();
    let Some(scale) = scale else { return lower_by_range(lower, &outputs) };
    let layer = InnerProduct {
        num_output: fixed(&outputs)?,
        weight_data: Some(lower.required_constant(1)?.clone()),
        bias_data: Some(lower.required_constant(3)?.clone()),
        weight_data_int8_scales: Some(lower.required_constant(2)?.clone()),
        bottom_blob_int8_scales: Some(Tensor::from_f32(&[1], vec![scale])?),
        ..InnerProduct::default()
    };
    // A single row is a blob of one axis.
    let (rows, size) = (lower.shape(0)?.at(0)?.clone(), lower.shape(0)?.at(1)?.clone());
    let form = |size: Dim| if rows.is(1) { vec![size] } else { vec![rows.clone(), size] };
    lower.give(0, lower.input(0).reshape(form(size)).layer(layer, form(outputs)))
}

/// Emits the product of the weight and the transposed rows, transposed back: Gemm has a scale for each row of
/// its first factor, and rounds the second one by its range.
fn lower_by_range(lower: &Lower, outputs: &Dim) -> Result<()> {
    let (rows, size) = (lower.shape(0)?.at(0)?.clone(), lower.shape(0)?.at(1)?.clone());
    let layer = Gemm {
        transB: 1,
        constantC: 1,
        constantM: fixed(outputs)?,
        constantK: fixed(&size)?,
        constant_broadcast_type_C: broadcast_type_c::M,
        output_transpose: 1,
        A_data: Some(lower.required_constant(1)?.clone()),
        C_data: Some(lower.required_constant(3)?.clone()),
        A_data_int8_scales: Some(lower.required_constant(2)?.clone()),
        quantize_term: Gemm::INT8_ROWS,
        ..Gemm::default()
    };
    let x = lower.input(0).reshape([rows.clone(), size]);
    lower.give(0, x.layer(lower.newer(layer), [rows, outputs.clone()]))
}
