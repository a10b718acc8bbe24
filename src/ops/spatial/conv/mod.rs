//! Convolutions.
//!
//! A batch that is not computed element by element (`src/pass/batch.rs`) becomes one more spatial axis with a
//! window of one element, over `[C, N, ...]`. With three spatial axes a blob would have five: the elements of
//! the batch become groups of channels. Spec: <https://onnx.ai/onnx/operators/onnx__Conv.html>,
//! `onnx__ConvTranspose.html`, `onnx__DeformConv.html`.

mod deform;
mod int8;
mod kernel;
mod node;
mod rows;
mod transpose;
mod unfold;

use self::kernel::Kernel;
use self::node::{conv_spans, fixed, infer_biased, read_conv, split_shape};
use super::batch_as_channels;
use super::window::WindowAxis;
use crate::lower::line_form;
use crate::ncnn::Layer;
use crate::ops::prelude::*;

pub(in crate::ops) use self::node::conv_attributes;

pub(in crate::ops) const OPS: &[Row] = &[
    Row::new("Conv", Access::Any, infer_conv)
        .multiply_adds(multiply_adds)
        .batched(|_, index| index == 0)
        .expects(|call, index, _| expected(call, index, 1))
        .expand(unfold::expand_conv)
        .lower(lower_conv)
        .lowers_to(
            "Convolution, Convolution1D, Convolution3D; ConvolutionDepthWise for groups; MatMul with \
            unfolded windows for weights computed at run time over three axes, or over two with a batch",
        )
        .limits("over four axes or more")
        .differs("infinities, which may become NaN in neighbouring windows"),
    Row::new("ConvTranspose", Access::Any, transpose::infer_conv_transpose)
        .multiply_adds(transpose::multiply_adds)
        .batched(|_, index| index == 0)
        .expects(|call, index, _| expected(call, index, 0))
        .expand(unfold::expand_conv_transpose)
        .lower(transpose::lower_conv_transpose)
        .lowers_to(
            "Deconvolution, Deconvolution1D, Deconvolution3D; DeconvolutionDepthWise for groups; \
            MatMul and folded windows for weights computed at run time over three axes, or over two with a \
            batch",
        )
        .limits("over four axes or more"),
    Row::of(NCNN_DOMAIN, "Int8Conv", Access::Any, int8::infer_conv)
        .multiply_adds(multiply_adds)
        .lower(int8::lower_conv)
        .lowers_to("Convolution and ConvolutionDepthWise in int8"),
    Row::of(NCNN_DOMAIN, "Int8Linear", Access::Any, int8::infer_linear)
        .multiply_adds(multiply_adds)
        .lower(int8::lower_linear)
        .lowers_to("InnerProduct and Gemm in int8"),
    Row::new("DeformConv", Access::Any, deform::infer_deform_conv)
        .multiply_adds(multiply_adds)
        .batched(|_, index| matches!(index, 0 | 2 | 4))
        .expand(deform::expand_deform_conv)
        .lower(deform::lower_deform_conv)
        .lowers_to(
            "DeformableConv2D for each group and offset group; MatMul with the sampled columns for \
            weights computed at run time",
        )
        .limits("batches of free size; three axes"),
];

/// The maximum number of weights of a layer that repeats them for each element of a batch: 16 MiB.
const MAX_REPEATED_WEIGHTS: usize = 1 << 22;

/// The product of channels and outputs from which Convolution is faster than Convolution1D
/// (`benches/layers.md`).
const MANY_CHANNELS: u64 = 24 * 24;

/// The same for a result of few positions, where the Reshapes take a larger part of the time.
const MANY_CHANNELS_OF_FEW: u64 = 1 << 11;
/// See [`MANY_CHANNELS_OF_FEW`].
const FEW_POSITIONS: i64 = 64;

/// The terms of a sum, and the outputs, from which Convolution is faster if the runtime does not pack the
/// channels, such as the one of a signal: its spectrum takes a quarter of the time on x86.
const MANY_TERMS: u64 = 1 << 6;
/// See [`MANY_TERMS`].
const MANY_OUTPUTS: u64 = 1 << 5;
/// Channels are packed in multiples of this number.
const PACK: u64 = 4;

pub(in crate::ops) fn multiply_adds(call: &Call) -> Option<u64> {
    multiply_adds_by(call, 1)
}

/// Each element of the output is a sum over the window and the channels of its group; input `weight` has
/// them.
pub(in crate::ops) fn multiply_adds_by(call: &Call, weight: usize) -> Option<u64> {
    let taps = element_count(call.shape(weight).ok()?.get(1..)?)?;
    Some(element_count(call.output_shape(0).ok()?)?.saturating_mul(taps))
}

/// Returns the picture or sound that a weight with this axis of input channels convolves.
fn expected(call: &Call, index: usize, axis: usize) -> Option<Fact> {
    let weight = call.value(1)?.shape.as_deref().filter(|_| index == 0)?;
    let group = if axis == 1 { call.int("group").ok()? } else { 1 };
    let channels = weight.get(axis)?.known()?.checked_mul(group)?;
    let names: &[&str] = match weight.len() {
        3 => &["T"],
        4 => &["H", "W"],
        _ => &["D", "H", "W"],
    };
    let sizes = names.iter().map(|name| Dim::symbol(name));
    let shape: Vec<Dim> = [Dim::ONE, Dim::Known(channels)].into_iter().chain(sizes).collect();
    Some(Fact::new(DType::F32, shape)).filter(|_| (3..=5).contains(&weight.len()))
}

fn infer_conv(call: &Call) -> Result<Vec<Fact>> {
    infer_biased(call, 2)
}

fn lower_conv(lower: &Lower) -> Result<()> {
    let conv = read_conv(lower, lower.shape(1)?)?;
    let (_, _, spatial) = split_shape(lower.shape(0)?, lower.shape(1)?)?;
    let spans = conv_spans(lower, &conv.window, spatial)?;
    let kernel = Kernel {
        num_output: fixed(lower.shape(1)?.at(0)?)?,
        group: i32::try_from(conv.group)?,
        spans,
        output_pads: None,
        weight: lower.constant(1).cloned(),
        bias: None,
    };
    lower_kernel(lower, kernel, Kernel::convolution)
}

/// Returns whether Convolution is faster than Convolution1D with a weight of this shape, at so many
/// positions.
fn is_faster_widened(weight: &[Dim], positions: &Dim) -> bool {
    let sizes = |axes: std::ops::Range<usize>| element_count(weight.get(axes).unwrap_or_default());
    let (Some(outputs), Some(channels), Some(terms)) = (sizes(0..1), sizes(1..2), sizes(1..weight.len()))
    else {
        return false;
    };
    let is_unpacked = channels % PACK != 0;
    let is_short = positions.known().is_some_and(|positions| positions < FEW_POSITIONS);
    outputs.saturating_mul(channels) >= if is_short { MANY_CHANNELS_OF_FEW } else { MANY_CHANNELS }
        || (is_unpacked && terms >= MANY_TERMS && outputs >= MANY_OUTPUTS)
}

/// Emits the layer of `kernel` over input 0, with input 2 as bias.
fn lower_kernel(lower: &Lower, mut kernel: Kernel, layer: fn(Kernel) -> Result<Layer>) -> Result<()> {
    let output = lower.output_shape(0)?.to_vec();
    let batched = !output.at(0)?.is(1);
    if batched && output.len() > 4 {
        return lower_grouped(lower, kernel, layer, &output);
    }
    // Layers over two spatial axes are faster than layers over one, also with the two Reshapes, and have code
    // for the GPU, but for a convolution of few channels.
    let is_slow = kernel.output_pads.is_some() || is_faster_widened(lower.shape(1)?, output.at(2)?);
    let is_faster = kernel.group > 1 || (is_slow && kernel.weight.is_some());
    let widened = batched || (is_faster && kernel.spans.len() == 1);
    let x = channels_first(lower, widened)?;
    let mut form: Vec<Dim> = output.get(1..).unwrap_or_default().to_vec();
    if widened {
        form.insert(1, output.at(0)?.clone());
        // Padding along the batch is 0; a code of a computed padding gives 0 too.
        let begin = kernel.spans.first().map_or(0, |span| span.begin.min(0));
        kernel.spans.insert(0, WindowAxis { begin, end: begin, ..WindowAxis::ONE });
        if let Some(pads) = &mut kernel.output_pads {
            pads.insert(0, 0);
        }
    }
    let mut bottoms = vec![x];
    if kernel.weight.is_none() {
        bottoms.push(weight(lower, widened)?);
    } else if let Some(bias) = lower.constant(2) {
        kernel.bias = Some(bias.clone());
    }
    let (num_output, biased) = (kernel.num_output, kernel.bias.is_some());
    let mut y = match rows::lower_rows(lower, &kernel, layer, x, &form)? {
        Some(y) => y,
        None => lower.layer(layer(kernel)?, &bottoms, form.as_slice()),
    };
    if lower.has_input(2) && !biased {
        y = y + lower.input(2).reshape(line_form(&Dim::Known(num_output.into()), 0, form.len()));
    }
    lower.give(0, if batched { y.transpose(&swap_leading(form.len())) } else { y })
}

/// Emits the layer of `kernel` over three spatial axes and a batch: each element of the batch is a group of
/// channels with a copy of the weights.
fn lower_grouped(
    lower: &Lower,
    mut kernel: Kernel,
    layer: fn(Kernel) -> Result<Layer>,
    output: &[Dim],
) -> Result<()> {
    let batch = fixed(output.at(0)?)?;
    let Some(weight) = kernel.weight.take() else {
        unsupported!("weights computed at run time: ncnn's layers over three axes need constant weights");
    };
    let times = usize::try_from(batch)?;
    if weight.len().saturating_mul(times) > MAX_REPEATED_WEIGHTS {
        unsupported!(
            "a batch of {batch} over three spatial axes repeats {} weights (at most {MAX_REPEATED_WEIGHTS} \
                in all)",
            weight.len()
        );
    }
    kernel.weight = Some(repeated(&weight, times)?);
    kernel.bias = match lower.has_input(2) {
        true => Some(repeated(lower.required_constant(2)?, times)?),
        false => None,
    };
    kernel.group = kernel.group.saturating_mul(batch);
    kernel.num_output = kernel.num_output.saturating_mul(batch);
    let x = lower.input(0).reshape(batch_as_channels(lower.shape(0)?));
    lower.give(0, x.layer(layer(kernel)?, batch_as_channels(output)))
}

/// Repeats a constant `times` times along its first axis.
fn repeated(tensor: &Tensor, times: usize) -> Result<Tensor> {
    let mut shape = tensor.shape().to_vec();
    if let Some(first) = shape.first_mut() {
        *first = first.saturating_mul(times);
    }
    let target = shape.clone();
    Tensor::deferred(tensor.dtype(), shape, vec![tensor.clone()], move |inputs| {
        let one = inputs.at(0)?;
        let rows: Vec<usize> = std::iter::once(times).chain(one.shape().iter().copied()).collect();
        one.broadcast(&rows)?.reshape(&target)
    })
}

/// Returns the permutation that swaps the first two axes.
fn swap_leading(rank: usize) -> Vec<usize> {
    [1, 0].into_iter().chain(2..rank).collect()
}

/// Returns input 0 with its channels outermost: `[C, ...]`, or `[C, N, ...]` if the batch becomes a spatial
/// axis.
fn channels_first<'l>(lower: &'l Lower, widened: bool) -> Result<Nd<'l>> {
    let shape = lower.shape(0)?;
    Ok(match widened {
        true => lower.input(0).transpose(&swap_leading(shape.len())),
        false => lower.input(0).reshape(shape.get(1..).unwrap_or_default()),
    })
}

/// Returns the weight for layers that read it from a bottom.
fn weight<'l>(lower: &'l Lower, widened: bool) -> Result<Nd<'l>> {
    let mut shape = lower.shape(1)?.to_vec();
    if widened {
        shape.insert(2, Dim::ONE);
    }
    if shape.len() > 4 {
        unsupported!("weights computed at run time: ncnn's layers over three axes need constant weights");
    }
    Ok(lower.input(1).reshape(shape))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_of_many_terms_are_convolved_over_two_axes() {
        for (weight, positions, expected) in [
            ([24, 24, 1], 64, true),
            ([23, 24, 3], 64, false),
            ([32, 64, 1], 63, true),
            ([31, 64, 3], 63, false),
            ([258, 1, 256], 63, true),
            ([32, 2, 32], 64, true),
            ([31, 1, 256], 64, false),
            ([64, 1, 63], 64, false),
            ([64, 4, 31], 64, false),
        ] {
            let is_faster = is_faster_widened(&weight.map(Dim::Known), &Dim::Known(positions));
            assert_eq!(is_faster, expected, "{weight:?}");
        }
    }
}
