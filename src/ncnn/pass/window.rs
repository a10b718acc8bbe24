//! Convolutions as other layers of the same result that the runtime computes in less time.
//!
//! The conditions are those under which neither x86 nor ARM64 takes longer (`benches/layers.md`).

use ndarray::Axis;
use smallvec::smallvec;

use super::super::layer::is_transformed;
use super::super::layer::window::Window;
use super::super::layer::{Concat, Convolution, ConvolutionDepthWise, Deconvolution, ShuffleChannel};
use super::super::{Blob, Layer, Net, NetLayer};
use super::Wiring;
use super::wiring::Edits;
use crate::error::{At, Result};
use crate::tensor::{Tensor, move_elements};

/// The number of channels above which the product of a transposed convolution takes less time.
const FEW_CHANNELS: i64 = 16;

/// The number of outputs up to which it does.
const FEW_OUTPUTS: i32 = 7;

/// The taps from which it does for four outputs; the runtime has code for smaller windows.
const MANY_TAPS: i32 = 49;

/// The numbers of outputs of a channel for which one layer for each takes less time. The runtime has code for
/// groups of four.
const OUTPUTS_OF_CHANNEL: [i32; 2] = [2, 3];

/// Replaces a convolution of few outputs by a transposed convolution of the turned kernel. The runtime
/// computes the one as a product with a column for each tap and channel, the other as a product with a column
/// for each tap and output.
pub(super) fn transpose_few_outputs(net: &mut Net, _: &Wiring) -> Result<bool> {
    // Without arithmetic in float16, ARM64 computes transposed convolutions element by element.
    if net.precise {
        return Ok(false);
    }
    let mut changed = false;
    for index in 0..net.layers.len() {
        let Some(layer) = net.layers.get(index) else { continue };
        let Layer::Convolution(convolution) = &layer.layer else { continue };
        let has_many = net.channels(layer).is_some_and(|channels| channels > FEW_CHANNELS);
        let Some(transposed) = transposed(convolution).filter(|_| has_many && !layer.layer.is_int8()) else {
            continue;
        };
        let transposed = transposed?;
        if let Some(layer) = net.layers.get_mut(index) {
            layer.layer = transposed.into();
            changed = true;
        }
    }
    Ok(changed)
}

/// Returns the transposed convolution of the same result, if it takes less time.
fn transposed(from: &Convolution) -> Option<Result<Deconvolution>> {
    let windows = from.windows();
    let weight = from.weight_data.as_ref()?;
    let taps = from.kernel_w.checked_mul(from.kernel_h)?;
    let is_fast = match from.num_output {
        1 => taps > 1,
        4 => taps >= MANY_TAPS,
        outputs => taps > 1 && outputs <= FEW_OUTPUTS && !is_transformed(&windows),
    };
    let cut = |window: &Window| {
        let reach = window.kernel.checked_sub(1)?.checked_mul(window.dilation)?;
        let (begin, end) = window.pads;
        let fits = window.stride == 1 && (0..=reach).contains(&begin) && (0..=reach).contains(&end);
        fits.then_some((reach - begin, reach - end))
    };
    let [h, w] = windows.as_slice() else { return None };
    let ((pad_top, pad_bottom), (pad_left, pad_right)) = (cut(h)?, cut(w)?);
    if !is_fast || from.pad_value != 0.0 {
        return None;
    }
    Some(turned(weight, taps).map(|weight| Deconvolution {
        num_output: from.num_output,
        kernel_w: from.kernel_w,
        kernel_h: from.kernel_h,
        dilation_w: from.dilation_w,
        dilation_h: from.dilation_h,
        pad_left,
        pad_right,
        pad_top,
        pad_bottom,
        activation_type: from.activation_type,
        activation_params: from.activation_params.clone(),
        weight_data: Some(weight),
        bias_data: from.bias_data.clone(),
        ..Deconvolution::default()
    }))
}

/// Returns a weight with the taps of each kernel in reverse order.
fn turned(weight: &Tensor, taps: i32) -> Result<Tensor> {
    let (shape, taps) = (weight.shape().to_vec(), usize::try_from(taps)?);
    let kernels = weight.len().checked_div(taps).unwrap_or(0);
    Tensor::deferred(weight.dtype(), shape.clone(), vec![weight.clone()], move |arrays| {
        let kernels = arrays.at(0)?.reshape(&[kernels, taps])?;
        let turned = move_elements!(&kernels, elements => {
            let mut elements = elements.clone();
            elements.invert_axis(Axis(1));
            elements.as_standard_layout().into_owned()
        });
        turned.reshape(&shape)
    })
}

/// Replaces a depthwise convolution of several outputs for each channel by a layer for each of them, and
/// interleaves their tops.
pub(super) fn split_depthwise(net: &mut Net, _: &Wiring) -> Result<bool> {
    let mut edits = Edits::default();
    for index in 0..net.layers.len() {
        let Some(old) = net.layers.get(index) else { continue };
        let (Layer::ConvolutionDepthWise(from), [top]) = (&old.layer, old.tops.as_slice()) else { continue };
        let Some((times, weight)) = outputs_of_channel(net, old, from) else { continue };
        let (old, from) = (old.clone(), (**from).clone());
        let joined = Blob { is_value: false, name: String::new(), ..net.blob(*top).clone() };
        let part = Blob { shape: joined.shape.with_outermost(i64::from(from.group)), ..joined.clone() };
        let mut parts = Vec::new();
        for at in 0..times {
            let layer = ConvolutionDepthWise {
                num_output: from.group,
                weight_data: Some(every(&weight, times, at)?),
                bias_data: from.bias_data.as_ref().map(|bias| every(bias, times, at)).transpose()?,
                ..from.clone()
            };
            let top = net.add_blob(part.clone());
            parts.push(top);
            edits.insert_before(index, NetLayer { layer: layer.into(), tops: smallvec![top], ..old.clone() });
        }
        let top = net.add_blob(joined);
        let layer = Concat::default().into();
        edits.insert_before(index, NetLayer { layer, bottoms: parts.into(), tops: smallvec![top], ..old });
        if let Some(layer) = net.layers.get_mut(index) {
            let shuffle = ShuffleChannel { group: i32::try_from(times)?, ..ShuffleChannel::default() };
            (layer.layer, layer.bottoms) = (shuffle.into(), smallvec![top]);
        }
    }
    Ok(edits.apply(net))
}

/// Returns the number of outputs for each channel, and the weight, of a depthwise convolution that takes less
/// time as several.
fn outputs_of_channel(net: &Net, layer: &NetLayer, from: &ConvolutionDepthWise) -> Option<(usize, Tensor)> {
    let weight = from.weight_data.clone().filter(|_| !layer.layer.is_int8())?;
    let is_depthwise = net.channels(layer)? == i64::from(from.group);
    let mut times = OUTPUTS_OF_CHANNEL.into_iter();
    let times = times.find(|times| from.group.checked_mul(*times) == Some(from.num_output))?;
    is_depthwise.then_some((usize::try_from(times).ok()?, weight))
}

/// Returns the rows of a weight whose index has the remainder `at` by `times`.
fn every(weight: &Tensor, times: usize, at: usize) -> Result<Tensor> {
    let mut shape = weight.shape().to_vec();
    if let Some(rows) = shape.first_mut() {
        *rows /= times;
    }
    let (target, taps) = (shape.clone(), shape.iter().skip(1).product());
    Tensor::deferred(weight.dtype(), shape, vec![weight.clone()], move |arrays| {
        let rows = arrays.at(0)?;
        let grouped = rows.reshape(&[rows.shape().at(0)? / times, times, taps])?;
        grouped.gather(1, &[at])?.reshape(&target)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn weights_are_turned_and_divided() {
        let weight = Tensor::from_f32(&[4, 1, 1, 3], (0_u8..12).map(f32::from).collect()).unwrap();
        let list = |tensor: Tensor| tensor.load().unwrap().float_list().unwrap();
        let turned = [2.0, 1.0, 0.0, 5.0, 4.0, 3.0, 8.0, 7.0, 6.0, 11.0, 10.0, 9.0];
        assert_eq!(list(super::turned(&weight, 3).unwrap()), turned);
        assert_eq!(list(every(&weight, 2, 1).unwrap()), [3.0, 4.0, 5.0, 9.0, 10.0, 11.0]);
    }
}
