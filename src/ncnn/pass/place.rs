//! What computes on a single place of an image computes on its channels alone.

use super::super::layer::{Convolution, InnerProduct};
use super::super::{BlobId, Layer, Net, NetLayer};
use super::wiring::{Edits, known};
use super::{Wiring, view};
use crate::error::Result;
use crate::ncnn::Blob;

/// Makes an InnerProduct of each Convolution whose bottom is a vector seen as an image of one place.
pub(super) fn convolutions_of_a_place(net: &mut Net) -> Result<bool> {
    let wiring = Wiring::of(net);
    let mut edits = Edits::default();
    for index in 0..net.layers.len() {
        let Some((vector, layer)) = inner_product(net, &wiring, index)? else { continue };
        let Some(old) = net.layers.get(index) else { continue };
        let (name, tops) = (old.name.clone(), old.tops.clone());
        let Some(shape) = tops.first().map(|top| net.blob(*top).shape.clone()) else { continue };
        let Some(reshape) = known(&shape).and_then(|sizes| view::reshape_to(&sizes)) else { continue };
        let Some(blob) = tops.first().map(|top| net.blob(*top).clone()) else { continue };
        let made = net.add_blob(Blob { shape: shape.into_iter().take(1).collect(), ..blob });
        let product = NetLayer { name, layer: layer.into(), bottoms: vec![vector], tops: vec![made] };
        edits.insert_before(index, product);
        if let Some(old) = net.layers.get_mut(index) {
            (old.layer, old.bottoms) = (reshape, vec![made]);
        }
    }
    Ok(edits.apply(net))
}

/// The vector that the Convolution at `index` reads, and the InnerProduct of it.
fn inner_product(net: &Net, wiring: &Wiring, index: usize) -> Result<Option<(BlobId, InnerProduct)>> {
    let Some(old) = net.layers.get(index) else { return Ok(None) };
    let (Layer::Convolution(conv), [bottom]) = (&old.layer, old.bottoms.as_slice()) else { return Ok(None) };
    if conv.kernel_w != 1 || conv.kernel_h != 1 || !is_unpadded(conv) || conv.dynamic_weight != 0 {
        return Ok(None);
    }
    let view = wiring.producer(*bottom).and_then(|place| view::view_of(net, net.layers.get(place)?));
    let Some((vector, _)) = view else { return Ok(None) };
    let one = |size: &crate::tensor::Dim| size.is(1);
    let (image, source) = (&net.blob(*bottom).shape, &net.blob(vector).shape);
    let ([_, h, w], [_]) = (image.as_slice(), source.as_slice()) else { return Ok(None) };
    if !one(h) || !one(w) {
        return Ok(None);
    }
    let Some(weight) = &conv.weight_data else { return Ok(None) };
    let num_output = usize::try_from(conv.num_output)?;
    if num_output == 0 {
        return Ok(None);
    }
    Ok(Some((
        vector,
        InnerProduct {
            num_output: conv.num_output,
            activation_type: conv.activation_type,
            activation_params: conv.activation_params.clone(),
            weight_data: Some(weight.reshaped(&[num_output, weight.len() / num_output])?),
            bias_data: conv.bias_data.clone(),
        },
    )))
}

fn is_unpadded(conv: &Convolution) -> bool {
    [conv.pad_left, conv.pad_right, conv.pad_top, conv.pad_bottom] == [0; 4]
}

/// Lets arithmetic read a vector instead of its view along the outermost axis, with which the runtime lines it up by itself. Functions
/// of each element may stand between the view and the arithmetic.
pub(super) fn vectors_of_channels(net: &mut Net) -> Result<bool> {
    let wiring = Wiring::of(net);
    let mut edits = Edits::default();
    for index in 0..net.layers.len() {
        let Some(side) = channel_side(net, &wiring, index).filter(|side| !edits.removes(side.view)) else {
            continue;
        };
        edits.remove(side.view);
        edits.replace(side.image, side.vector);
        let shape = net.blob(side.vector).shape.clone();
        for blob in side.functions {
            if let Some(blob) = net.blob_mut(blob) {
                blob.shape.clone_from(&shape);
            }
        }
    }
    Ok(edits.apply(net))
}

/// A vector, its view along the outermost axis, and results of functions of that, of which arithmetic reads the last.
struct Side {
    vector: BlobId,
    image: BlobId,
    view: usize,
    functions: Vec<BlobId>,
}

/// The bottom of the layer at `index` that comes from a view of a vector, where nothing else reads what lies between.
fn channel_side(net: &Net, wiring: &Wiring, index: usize) -> Option<Side> {
    let layer = net.layers.get(index)?;
    let (Layer::BinaryOp(binary), [a, b]) = (&layer.layer, layer.bottoms.as_slice()) else { return None };
    if binary.with_scalar != 0 {
        return None;
    }
    let top = known(&net.blob(*layer.tops.first()?).shape)?;
    for (own, other) in [(*a, *b), (*b, *a)] {
        let (shape, whole) = (known(&net.blob(own).shape)?, known(&net.blob(other).shape)?);
        let Some((n, rest)) = shape.split_first() else { continue };
        // `BinaryOp::forward` compares the size with that of the outermost axis first.
        let lines_up = *n > 1 && !rest.is_empty() && rest.iter().all(|size| *size == 1);
        if lines_up
            && whole == top
            && whole.first() == Some(n)
            && let Some(side) = vector_behind(net, wiring, own)
            && known(&net.blob(side.vector).shape)? == [*n]
        {
            return Some(side);
        }
    }
    None
}

/// The vector that a blob comes from.
fn vector_behind(net: &Net, wiring: &Wiring, blob: BlobId) -> Option<Side> {
    let mut functions = Vec::new();
    let mut blob = blob;
    loop {
        wiring.only_reader(blob)?;
        let view = wiring.producer(blob)?;
        let producer = net.layers.get(view)?;
        if let Some((vector, image)) = view::view_of(net, producer) {
            return Some(Side { vector, image, view, functions });
        }
        if !view::is_function(&producer.layer) {
            return None;
        }
        functions.push(blob);
        blob = *producer.bottoms.first()?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ncnn::layer::{BinaryOp, Pooling, Sigmoid, binary_op};
    use crate::tensor::Tensor;

    fn conv(num_output: i32, inputs: usize, kernel_w: i32) -> Convolution {
        let len = usize::try_from(num_output * kernel_w * kernel_w).unwrap() * inputs;
        Convolution {
            num_output,
            kernel_w,
            kernel_h: kernel_w,
            weight_data: Some(Tensor::from_f32(&[len], vec![1.0; len]).unwrap()),
            ..Convolution::default()
        }
    }

    fn kinds(net: &mut Net) -> Vec<&'static str> {
        net.optimise(&Default::default()).unwrap();
        let kinds = net.layers.iter().map(|layer| layer.layer.type_name()).collect();
        net.split();
        net.name();
        net.check().unwrap();
        kinds
    }

    #[test]
    fn a_gate_of_channels_has_no_reshapes() {
        let mut net = Net::default();
        let x = net.push_input("x", &[4, 5, 5]);
        let pooling = Pooling { pooling_type: 1, global_pooling: 1, ..Pooling::default() };
        let means = net.push("means", pooling, &[x], &[4]);
        let image = net.push("image", view::reshape_to(&[4, 1, 1]).unwrap(), &[means], &[4, 1, 1]);
        let hidden = net.push("hidden", conv(2, 4, 1), &[image], &[2, 1, 1]);
        let back = net.push("back", conv(4, 2, 1), &[hidden], &[4, 1, 1]);
        let gate = net.push("gate", Sigmoid {}, &[back], &[4, 1, 1]);
        let y = net.push(
            "y",
            BinaryOp { op_type: binary_op::MUL, ..BinaryOp::default() },
            &[gate, x],
            &[4, 5, 5],
        );
        net.push_output("y", y);
        assert_eq!(kinds(&mut net), ["Input", "Pooling", "InnerProduct", "InnerProduct", "BinaryOp"]);
    }

    #[test]
    fn other_images_stay() {
        let mut net = Net::default();
        let x = net.push_input("x", &[16]);
        let a = net.push("a", Sigmoid {}, &[x], &[16]);
        let image = net.push("image", view::reshape_to(&[4, 2, 2]).unwrap(), &[a], &[4, 2, 2]);
        let y = net.push("y", conv(2, 4, 1), &[image], &[2, 2, 2]);
        net.push_output("y", y);
        assert_eq!(kinds(&mut net), ["Input", "Sigmoid", "Reshape", "Convolution"]);
    }

    #[test]
    fn a_vector_along_another_axis_keeps_its_form() {
        for (sizes, shape) in [([1, 1, 4], [4, 4, 4]), ([1, 4, 1], [4, 4, 4]), ([4, 1, 1], [1, 4, 4])] {
            let mut net = Net::default();
            let (x, v) = (net.push_input("x", &shape), net.push_input("v", &[4]));
            let view = net.push("view", view::reshape_to(&sizes).unwrap(), &[v], &sizes.map(i64::from));
            let y = net.push("y", BinaryOp::default(), &[x, view], &[4, 4, 4]);
            net.push_output("y", y);
            assert_eq!(kinds(&mut net), ["Input", "Input", "Reshape", "BinaryOp"], "{sizes:?}");
        }
    }
}
