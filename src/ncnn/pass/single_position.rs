//! Simplification of layers over images with a single position to layers over vectors.

use smallvec::smallvec;

use super::super::layer::InnerProduct;
use super::super::{BlobId, Layer, Net, NetLayer};
use super::wiring::{Edits, known};
use super::{Wiring, view};
use crate::error::Result;
use crate::ncnn::Blob;

/// Replaces each Convolution over a vector viewed as an image of one position by an InnerProduct. Elementwise
/// functions may lie between the view and the Convolution.
pub(super) fn flatten_position(net: &mut Net, wiring: &Wiring) -> Result<bool> {
    let mut edits = Edits::default();
    for index in 0..net.layers.len() {
        let Some(old) = net.layers.get(index) else { continue };
        let ([bottom], [top]) = (old.bottoms.as_slice(), old.tops.as_slice()) else { continue };
        let Some(layer) = inner_product(net, old)? else { continue };
        let Some((vector, side)) = read_vector(net, wiring, *bottom) else { continue };
        let (bottom, name, blob) = (*bottom, old.name.clone(), net.blob(*top).clone());
        let (provenance, float32) = (old.provenance.clone(), old.float32);
        let Some(reshape) = known(&blob.shape).and_then(|sizes| view::reshape_to(&sizes)) else { continue };
        let vector = match side {
            None => vector,
            Some(side) => {
                side.flatten(net, &mut edits);
                bottom
            }
        };
        let product = net.add_blob(Blob {
            is_value: false,
            shape: blob.shape.iter().take(1).cloned().collect(),
            ..blob
        });
        let (bottoms, tops) = (smallvec![vector], smallvec![product]);
        let layer = NetLayer { name, layer: layer.into(), bottoms, tops, float32, provenance };
        edits.insert_before(index, layer);
        // If another such Convolution follows, it finds this Reshape at the same index.
        if let Some(old) = net.layers.get_mut(index) {
            (old.layer, old.bottoms) = (reshape, smallvec![product]);
        }
    }
    Ok(edits.apply(net))
}

/// Returns the vector that an image of one position is computed from, and the operand if elementwise
/// functions lie between the vector and the image.
fn read_vector(net: &Net, wiring: &Wiring, image: BlobId) -> Option<(BlobId, Option<Side>)> {
    let [c, 1, 1] = *known(&net.blob(image).shape)?.as_slice() else { return None };
    let is_vector = |blob: BlobId| known(&net.blob(blob).shape).is_some_and(|sizes| sizes == [c]);
    let producer = wiring.producer(image)?;
    if let Some((vector, _)) = view::view_of(net, producer) {
        return is_vector(vector).then_some((vector, None));
    }
    let side = source_vector(net, wiring, image)?;
    is_vector(side.vector).then_some((side.vector, Some(side)))
}

/// Returns a Convolution over a single position as an InnerProduct.
fn inner_product(net: &Net, layer: &NetLayer) -> Result<Option<InnerProduct>> {
    let Layer::Convolution(conv) = &layer.layer else { return Ok(None) };
    let one_position = |blob: &BlobId| matches!(known(&net.blob(*blob).shape).as_deref(), Some([_, 1, 1]));
    let num_output = usize::try_from(conv.num_output)?;
    let unpadded = [conv.pad_left, conv.pad_right, conv.pad_top, conv.pad_bottom] == [0; 4];
    let is_product = conv.kernel_w == 1 && conv.kernel_h == 1 && unpadded && num_output > 0;
    if !is_product || conv.dynamic_weight != 0 || !layer.tops.iter().all(one_position) {
        return Ok(None);
    }
    let Some(weight) = &conv.weight_data else { return Ok(None) };
    Ok(Some(InnerProduct {
        num_output: conv.num_output,
        activation_type: conv.activation_type,
        activation_params: conv.activation_params.clone(),
        weight_data: Some(weight.reshaped(&[num_output, weight.len() / num_output])?),
        bias_data: conv.bias_data.clone(),
        weight_data_int8_scales: conv.weight_data_int8_scales.clone(),
        bottom_blob_int8_scales: conv.bottom_blob_int8_scales.clone(),
    }))
}

/// Replaces the view of a vector along the outermost axis by the vector in arithmetic, which broadcasts it
/// along that axis. Elementwise functions may lie between the view and the arithmetic.
pub(super) fn broadcast_channels(net: &mut Net, wiring: &Wiring) -> Result<bool> {
    let mut edits = Edits::default();
    for index in 0..net.layers.len() {
        let Some(side) = channel_side(net, wiring, index).filter(|side| !edits.removes(side.view)) else {
            continue;
        };
        side.flatten(net, &mut edits);
    }
    Ok(edits.apply(net))
}

/// An operand computed by elementwise functions from the view of a vector along the outermost axis.
struct Side {
    vector: BlobId,
    image: BlobId,
    /// The index of the layer of the view.
    view: usize,
    /// The index of the layer that reads the view.
    reader: usize,
    /// The tops of the functions.
    functions: Vec<BlobId>,
}

impl Side {
    /// Applies the functions to the vector instead of the view.
    fn flatten(self, net: &mut Net, edits: &mut Edits) {
        edits.remove(self.view, Some(self.reader));
        edits.replace(self.image, self.vector);
        let shape = net.blob(self.vector).shape.clone();
        for blob in self.functions {
            if let Some(blob) = net.blob_mut(blob) {
                blob.shape.clone_from(&shape);
            }
        }
    }
}

/// Returns the bottom of the layer at `index` that is computed from a view of a vector, without other
/// readers.
fn channel_side(net: &Net, wiring: &Wiring, index: usize) -> Option<Side> {
    let layer = net.layers.get(index)?;
    let (Layer::BinaryOp(binary), [a, b]) = (&layer.layer, layer.bottoms.as_slice()) else { return None };
    if binary.with_scalar != 0 {
        return None;
    }
    let top = known(&net.blob(*layer.tops.first()?).shape)?;
    for (vector, other) in [(*a, *b), (*b, *a)] {
        let (shape, whole) = (known(&net.blob(vector).shape)?, known(&net.blob(other).shape)?);
        let Some((n, rest)) = shape.split_first() else { continue };
        // `BinaryOp::forward` compares the size with that of the outermost axis first.
        let broadcasts = *n > 1 && !rest.is_empty() && rest.iter().all(|size| *size == 1);
        if broadcasts
            && whole == top
            && whole.first() == Some(n)
            && let Some(side) = source_vector(net, wiring, vector)
            && known(&net.blob(side.vector).shape)? == [*n]
        {
            return Some(side);
        }
    }
    None
}

/// Returns the vector that a blob is computed from.
fn source_vector(net: &Net, wiring: &Wiring, blob: BlobId) -> Option<Side> {
    let mut functions = Vec::new();
    let mut blob = blob;
    loop {
        let reader = wiring.only_reader(blob)?;
        let view = wiring.producer(blob)?;
        if let Some((vector, image)) = view::view_of(net, view) {
            return Some(Side { vector, image, view, reader, functions });
        }
        let producer = net.layers.get(view)?;
        if !producer.layer.facts().is_function() {
            return None;
        }
        functions.push(blob);
        blob = *producer.bottoms.first()?;
    }
}
