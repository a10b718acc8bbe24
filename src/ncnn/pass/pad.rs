//! Channels of zeros between convolutions, so that the runtime uses its packed code.

use ndarray::ArrayD;

use super::super::layer::Convolution;
use super::super::{BlobId, Layer, Net, NetLayer};
use super::Wiring;
use crate::error::{At, Result};
use crate::tensor::{Array, Tensor};

/// Channels are packed in multiples of this number in float16, and in float32 with 256 bits.
const PACK: i32 = 8;

/// Channels are packed in multiples of this number in float32.
const SMALL_PACK: i32 = 4;

/// At most one channel is added for this number of channels, which pass a depthwise convolution and are not
/// packed.
const UNPACKED: i32 = 3;
/// The same without a depthwise convolution.
const WITHOUT_DEPTHWISE: i32 = 8;
/// The same for channels that are packed in float32.
const PACKED: i32 = 16;

/// Pads the channels between two convolutions to a multiple of [`PACK`], with weights of zero. Between them
/// may lie functions and depthwise convolutions, which gain most.
pub(super) fn pad_channels(net: &mut Net, wiring: &Wiring) -> Result<bool> {
    let mut changed = false;
    for first in 0..net.layers.len() {
        let Some(path) = path_from(net, wiring, first) else { continue };
        for (index, padded) in path.padded(net)? {
            if let Some(layer) = net.layers.get_mut(index) {
                layer.layer = padded;
            }
        }
        for blob in path.blobs {
            if let Some(blob) = net.blob_mut(blob) {
                // The blob has other elements than the value.
                (blob.shape, blob.is_value) = (blob.shape.with_outermost(i64::from(path.to)), false);
            }
        }
        changed = true;
    }
    Ok(changed)
}

/// Layers from one convolution to another, of which each reads only the one before it.
struct Path {
    /// The indices of the layers, and the blobs between them.
    layers: Vec<usize>,
    blobs: Vec<BlobId>,
    to: i32,
}

/// Returns the path from the convolution at an index, if padding its outputs takes less time.
fn path_from(net: &Net, wiring: &Wiring, first: usize) -> Option<Path> {
    let start = constant_convolution(net.layers.get(first)?)?;
    let from = start.num_output;
    let added = (PACK - from.checked_rem(PACK)?) % PACK;
    let to = from.checked_add(added)?;
    let (mut has_depthwise, mut has_window) = (false, start.kernel_w > 1 || start.kernel_h > 1);
    let mut path = Path { layers: vec![first], blobs: Vec::new(), to };
    let mut at = first;
    while added > 0 && net.layers.len() > path.layers.len() {
        let [top] = net.layers.get(at)?.tops.as_slice() else { return None };
        at = wiring.only_reader(*top)?;
        path.blobs.push(*top);
        path.layers.push(at);
        let layer = net.layers.get(at)?;
        if let Some(end) = constant_convolution(layer) {
            has_window |= end.kernel_w > 1 || end.kernel_h > 1;
            let least = match (from % SMALL_PACK == 0, has_depthwise, has_window) {
                (true, true, _) => PACKED,
                (false, true, _) => UNPACKED,
                (false, false, true) => WITHOUT_DEPTHWISE,
                _ => return None,
            };
            return (added <= from / least).then_some(path);
        }
        match &layer.layer {
            Layer::ConvolutionDepthWise(depthwise) => {
                let is_plain = depthwise.group == from && depthwise.num_output == from;
                if !is_plain || layer.layer.is_int8() || depthwise.weight_data.is_none() {
                    return None;
                }
                has_depthwise = true;
            }
            layer if is_finite_at_zero(layer) => {}
            _ => return None,
        }
    }
    None
}

/// Returns a convolution of float weights that are constant.
fn constant_convolution(layer: &NetLayer) -> Option<&Convolution> {
    match &layer.layer {
        Layer::Convolution(convolution) if !layer.layer.is_int8() => {
            convolution.weight_data.as_ref().map(|_| &**convolution)
        }
        _ => None,
    }
}

/// Returns whether a layer is a function whose result for 0 is finite, also in float16.
fn is_finite_at_zero(layer: &Layer) -> bool {
    let is_function = matches!(
        layer,
        Layer::Clip(_)
            | Layer::ELU(_)
            | Layer::GELU(_)
            | Layer::HardSigmoid(_)
            | Layer::HardSwish(_)
            | Layer::Mish(_)
            | Layer::ReLU(_)
            | Layer::SELU(_)
            | Layer::Sigmoid(_)
            | Layer::Swish(_)
            | Layer::TanH(_)
    );
    is_function && !layer.facts().exceeds_half()
}

impl Path {
    /// Returns the layers with weights, padded, with their indices.
    fn padded(&self, net: &Net) -> Result<Vec<(usize, Layer)>> {
        let padded = |weight: &Option<Tensor>, axis: usize| {
            weight.as_ref().map(|weight| pad(weight, axis, usize::try_from(self.to)?)).transpose()
        };
        let mut layers: Vec<(usize, Layer)> = Vec::new();
        for index in &self.layers {
            let mut layer = net.layers.at(*index)?.layer.clone();
            match &mut layer {
                Layer::Convolution(layer) if layers.is_empty() => {
                    layer.num_output = self.to;
                    layer.weight_data = padded(&layer.weight_data, 0)?;
                    layer.bias_data = padded(&layer.bias_data, 0)?;
                }
                Layer::Convolution(layer) => layer.weight_data = padded(&layer.weight_data, 1)?,
                Layer::ConvolutionDepthWise(layer) => {
                    (layer.num_output, layer.group) = (self.to, self.to);
                    layer.weight_data = padded(&layer.weight_data, 0)?;
                    layer.bias_data = padded(&layer.bias_data, 0)?;
                }
                _ => continue,
            }
            layers.push((*index, layer));
        }
        Ok(layers)
    }
}

/// Returns the elements of a weight with zeros up to the size `to` of an axis.
fn pad(weight: &Tensor, axis: usize, to: usize) -> Result<Tensor> {
    let (mut zeros, mut shape) = (weight.shape().to_vec(), weight.shape().to_vec());
    if let (Some(added), Some(size)) = (zeros.get_mut(axis), shape.get_mut(axis)) {
        *added = to.saturating_sub(*size);
        *size = to;
    }
    Tensor::deferred(weight.dtype(), shape, vec![weight.clone()], move |arrays| {
        let array = arrays.at(0)?;
        let zeros = Array::f32(ArrayD::zeros(zeros.clone())).cast(array.dtype())?;
        Array::concat(&[array, &zeros], axis)
    })
}
