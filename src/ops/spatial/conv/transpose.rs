//! ConvTranspose.

use super::kernel::Kernel;
use super::lower_kernel;
use super::node::{fixed, read_group, read_kernel_shape, split_shape};
use crate::lower::check_count;
use crate::ops::prelude::*;
use crate::ops::spatial::window::{Pads, Window, read_window};

struct ConvTranspose {
    window: Window,
    group: i64,
    output_padding: Vec<i64>,
    /// The sizes of the spatial axes of the output, if the model states them.
    output_shape: Option<Vec<i64>>,
}

fn read_conv_transpose(call: &Call) -> Result<ConvTranspose> {
    let window = read_window(call, read_kernel_shape(call, call.shape(1)?)?)?;
    let rank = window.rank();
    let output_padding = call.optional_ints("output_padding")?.unwrap_or_else(|| vec![0; rank]);
    if output_padding.len() != rank || output_padding.iter().any(|n| *n < 0 || i32::try_from(*n).is_err()) {
        invalid!("output_padding {output_padding:?} does not fit {rank} spatial axes");
    }
    let steps = window.strides.iter().zip(&window.dilations).map(|(stride, dilation)| *stride.max(dilation));
    if let Some((added, step)) = output_padding.iter().zip(steps).find(|(added, step)| *added >= step) {
        invalid!("an output_padding of {added} for a step of {step}");
    }
    let mut output_shape = call.optional_ints("output_shape")?;
    // onnxruntime also accepts the list with batch and channels before the spatial axes.
    if let Some(shape) = output_shape.as_mut().filter(|shape| shape.len() == rank + 2) {
        shape.drain(..2);
    }
    if output_shape.as_ref().is_some_and(|shape| shape.len() != rank || shape.iter().any(|n| *n < 1)) {
        invalid!("output_shape {:?} does not fit {rank} spatial axes", output_shape.unwrap_or_default());
    }
    Ok(ConvTranspose { window, group: read_group(call)?, output_padding, output_shape })
}

impl ConvTranspose {
    /// Returns the size before the padding is cropped.
    fn whole_size(&self, axis: usize, input: &Dim) -> Result<Dim> {
        let added = self.window.extent(axis)?.saturating_add(*self.output_padding.at(axis)?);
        Ok((input - 1) * *self.window.strides.at(axis)? + added)
    }

    fn output_size(&self, axis: usize, input: &Dim) -> Result<Dim> {
        if let Some(shape) = &self.output_shape {
            return Ok(Dim::Known(*shape.at(axis)?));
        }
        match &self.window.pads {
            Pads::Same { .. } => Ok(input * *self.window.strides.at(axis)?),
            Pads::Explicit(pads) => {
                let (begin, end) = *pads.at(axis)?;
                Ok(self.whole_size(axis, input)? - (begin + end))
            }
        }
    }

    /// Returns the numbers of elements cropped before and after an axis, and added after it before the crop.
    fn crops(&self, axis: usize, input: &Dim) -> Result<(i64, i64, i64)> {
        let added = *self.output_padding.at(axis)?;
        if let (Pads::Explicit(pads), None) = (&self.window.pads, &self.output_shape) {
            let (begin, end) = *pads.at(axis)?;
            return Ok((begin, end, added));
        }
        let total = self.whole_size(axis, input)? - self.output_size(axis, input)?;
        let Some(total) = total.known() else {
            return Err(Error::unsupported("output_shape over a size known only at run time"));
        };
        if total < 0 && self.output_shape.is_none() {
            unsupported!(
                "auto_pad with a stride larger than the window: onnxruntime and the specification disagree"
            );
        }
        if total < 0 {
            return Ok((0, 0, added - total));
        }
        let (less, more) = (total / 2, total - total / 2);
        let upper = matches!(self.window.pads, Pads::Same { upper: true });
        Ok(if upper { (less, more, added) } else { (more, less, added) })
    }
}

/// Each element of the input is multiplied by the window and the channels of its group.
pub(super) fn multiply_adds(call: &Call) -> Option<u64> {
    let taps = element_count(call.shape(1).ok()?.get(1..)?)?;
    Some(element_count(call.shape(0).ok()?)?.saturating_mul(taps))
}

pub(super) fn infer_conv_transpose(call: &Call) -> Result<Vec<Fact>> {
    let conv = read_conv_transpose(call)?;
    let (batch, channels, spatial) = split_shape(call.shape(0)?, call.shape(1)?)?;
    let weight = call.shape(1)?;
    if let (Some(have), Some(taken)) = (channels.known(), weight.at(0)?.known())
        && (have != taken || have % conv.group != 0)
    {
        invalid!(
            "{have} channels do not fit a weight of shape {} with {} groups",
            display_shape(weight),
            conv.group
        );
    }
    call.require_equal(channels, weight.at(0)?)?;
    let channels = weight.at(1)? * conv.group;
    call.check_shape(2, std::slice::from_ref(&channels))?;
    let mut shape = vec![batch.clone(), channels];
    for (axis, input) in spatial.iter().enumerate() {
        let size = conv.output_size(axis, input)?;
        if size.known().is_some_and(|size| size < 1) {
            invalid!("a spatial axis of the output has {size} elements");
        }
        shape.push(size);
    }
    Ok(vec![Fact::new(call.dtype(0)?, shape)])
}

pub(super) fn lower_conv_transpose(lower: &Lower) -> Result<()> {
    let conv = read_conv_transpose(lower)?;
    let (_, _, spatial) = split_shape(lower.shape(0)?, lower.shape(1)?)?;
    let mut spans = Vec::with_capacity(spatial.len());
    let mut output_pads = Vec::with_capacity(spatial.len());
    // The layer computes what is cut off, too.
    let (outer, sizes) = lower.output_shape(0)?.split_at(2);
    let mut computed = outer.to_vec();
    for ((axis, input), size) in spatial.iter().enumerate().zip(sizes) {
        let (begin, end, added) = conv.crops(axis, input)?;
        computed.push(size + (begin + end));
        spans.push(conv.window.span(axis, begin, end)?);
        output_pads.push(i32::try_from(added)?);
    }
    check_count(&computed)?;
    let group = usize::try_from(conv.group)?;
    let kernel = Kernel {
        num_output: fixed(lower.output_shape(0)?.at(1)?)?,
        group: i32::try_from(conv.group)?,
        spans,
        output_pads: Some(output_pads),
        weight: lower.constant(1).map(|weight| outputs_first(weight, group)).transpose()?,
        bias: None,
    };
    lower_kernel(lower, kernel, Kernel::deconvolution)
}

/// Returns the weight `[I, O / group, ...]` in ncnn's order: within each group outputs first, then inputs.
fn outputs_first(weight: &Tensor, group: usize) -> Result<Tensor> {
    let shape = weight.shape().to_vec();
    let (inputs, outputs) = (shape.at(0)? / group, *shape.at(1)?);
    if inputs == 1 || outputs == 1 {
        return Ok(weight.clone());
    }
    let area: usize = shape.iter().skip(2).product();
    Tensor::deferred(weight.dtype(), shape.clone(), vec![weight.clone()], move |arrays| {
        let grouped = arrays.at(0)?.reshape(&[group, inputs, outputs, area])?;
        grouped.transpose(&[0, 2, 1, 3])?.reshape(&shape)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn conv(output_padding: i64, pads: Pads, output_shape: Option<i64>) -> ConvTranspose {
        ConvTranspose {
            window: Window { kernel: vec![3], strides: vec![2], dilations: vec![1], pads, ceil: false },
            group: 1,
            output_padding: vec![output_padding],
            output_shape: output_shape.map(|n| vec![n]),
        }
    }

    #[test]
    fn crops_match_the_specification() {
        let explicit = Pads::Explicit(vec![(1, 1)]);
        for (conv, size, crops) in [
            (conv(0, explicit.clone(), None), 5, (1, 1, 0)),
            (conv(1, explicit.clone(), None), 6, (1, 1, 1)),
            (conv(0, explicit.clone(), Some(6)), 6, (1, 0, 0)),
            (conv(0, explicit, Some(8)), 8, (0, 0, 1)),
            (conv(0, Pads::Same { upper: true }, None), 6, (0, 1, 0)),
            (conv(0, Pads::Same { upper: false }, None), 6, (1, 0, 0)),
        ] {
            let input = Dim::Known(3);
            assert_eq!(conv.output_size(0, &input).unwrap(), Dim::Known(size));
            assert_eq!(conv.crops(0, &input).unwrap(), crops);
        }
    }

    #[test]
    fn weights_are_swapped_within_a_group() {
        let weight = Tensor::from_f32(&[4, 2, 1], (0_u8..8).map(f32::from).collect()).unwrap();
        let swapped = outputs_first(&weight, 2).unwrap().load().unwrap();
        assert_eq!(swapped.float_list().unwrap(), [0.0, 2.0, 1.0, 3.0, 4.0, 6.0, 5.0, 7.0]);
        assert_eq!(swapped.shape(), [4, 2, 1]);
    }
}
