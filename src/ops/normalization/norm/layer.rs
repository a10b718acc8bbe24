//! LayerNormalization and RMSNormalization over the last axes.

use super::moment::{center, deviation, repeat};
use crate::ncnn::layer::{CACHES, LayerNorm, RMSNorm, reduction_op};
use crate::ops::prelude::*;

struct LayerNormAttributes {
    /// The first of the normalized axes.
    axis: usize,
    epsilon: f32,
}

fn read_layer_norm(call: &Call) -> Result<LayerNormAttributes> {
    let axis = call.int("axis")?;
    let epsilon = call.float("epsilon")?;
    Ok(LayerNormAttributes { axis: resolve_axis(axis, call.shape(0)?.len())?, epsilon })
}

pub(super) fn infer_layer_norm(call: &Call) -> Result<Vec<Fact>> {
    let norm = read_layer_norm(call)?;
    let shape = call.shape(0)?.to_vec();
    check_scales(call, norm.axis)?;
    let mut reduced = shape.clone();
    reduced.iter_mut().skip(norm.axis).for_each(|size| *size = Dim::ONE);
    Ok(vec![
        Fact::new(call.dtype(0)?, shape),
        Fact::new(DType::F32, reduced.clone()),
        Fact::new(DType::F32, reduced),
    ])
}

pub(super) fn infer_rms_norm(call: &Call) -> Result<Vec<Fact>> {
    check_scales(call, read_layer_norm(call)?.axis)?;
    infer_same(call)
}

/// Checks that scale and bias broadcast to the normalized axes; onnxruntime also accepts all of the input.
fn check_scales(call: &Call, axis: usize) -> Result<()> {
    let shape = call.shape(0)?;
    if axis >= shape.len() {
        return Err(Error::invalid(format!("axis {axis} of {} axes", shape.len())));
    }
    call.check_broadcasts(1, shape)?;
    call.check_broadcasts(2, shape)
}

pub(super) fn lower_layer_norm(lower: &Lower) -> Result<()> {
    let norm = read_layer_norm(lower)?;
    let x = lower.input(0).rows(norm.axis);
    let last = x.shape().len() - 1;
    let size = x.size(last);
    // A row of one element becomes the bias, which the layer's rounding would outweigh.
    if size.is(1) || (1..3).any(|output| lower.has_output(output)) {
        let [mean, centered, variance] = center(lower, x, &[last]);
        let deviation = variance.compute(|variance| deviation(variance, norm.epsilon));
        lower.give(0, affine(lower, centered / deviation)?)?;
        lower.give(1, mean)?;
        return if lower.has_output(2) {
            lower.give(2, deviation.compute(|x| x.reciprocal()))
        } else {
            Ok(())
        };
    }
    let Some(row) = size.known() else { unsupported!("the sizes of the normalized axes must be known") };
    let affine_size = i32::try_from(row)?;
    let weights = if is_plain(lower)? { None } else { weights(lower, norm.axis, affine_size)? };
    let composed = weights.is_none() && !is_plain(lower)?;
    let (gamma_data, beta_data) = weights.unzip();
    let layer = LayerNorm { affine_size, eps: norm.epsilon, gamma_data, beta_data };
    let y = x.compute(|x| x.map(layer));
    lower.give(0, if composed { affine(lower, y)? } else { y })
}

/// Returns whether the scale is 1 and there is no bias, as in fused normalizations.
fn is_plain(lower: &Lower) -> Result<bool> {
    Ok(match lower.constant(1).filter(|scale| scale.len() == 1) {
        Some(scale) => !lower.has_input(2) && scale.load_listed()?.scalar_f32()? == 1.0,
        None => false,
    })
}

/// Returns whether a parameter has the shape of a row: the axes from `axis` on.
fn is_row(call: &Call, axis: usize, index: usize) -> Result<bool> {
    let inner = |shape: &[Dim]| shape.iter().skip_while(|size| size.is(1)).cloned().collect::<Vec<_>>();
    let shape = call.shape(0)?;
    Ok(inner(call.shape(index)?) == inner(shape.get(axis..).unwrap_or_default()))
}

/// Returns scale and bias as weights, if they are constants with an element for each position of a row, or
/// one for all.
fn weights(lower: &Lower, axis: usize, affine_size: i32) -> Result<Option<(Tensor, Tensor)>> {
    let size = usize::try_from(affine_size)?;
    let vector = |index: usize| match lower.constant(index) {
        Some(tensor) if is_row(lower, axis, index)? => Ok(Some(tensor.clone())),
        Some(tensor) if tensor.len() == 1 => repeat(tensor, size, 1).map(Some),
        _ => Ok(None),
    };
    let Some(scale) = vector(1)? else { return Ok(None) };
    if !lower.has_input(2) {
        let zeros = Tensor::deferred(DType::F32, vec![size], Vec::new(), move |_| {
            Ok(Array::f32(ndarray::ArrayD::zeros(vec![size])))
        })?;
        return Ok(Some((scale, zeros)));
    }
    Ok(vector(2)?.map(|bias| (scale, bias)))
}

/// Returns the product with the scale and the sum with the bias: inputs 1 and 2, which are broadcast.
fn affine<'l>(lower: &'l Lower, y: Nd<'l>) -> Result<Nd<'l>> {
    let y = y.reshape(lower.shape(0)?) * lower.input(1);
    Ok(if lower.has_input(2) { y + lower.input(2) } else { y })
}

pub(super) fn lower_rms_norm(lower: &Lower) -> Result<()> {
    let norm = read_layer_norm(lower)?;
    let x = lower.input(0).rows(norm.axis);
    let last = x.shape().len() - 1;
    if let Some(layer) = rms_layer(lower, &norm, &x.size(last))? {
        return lower.give(0, x.compute(|x| x.map(layer)));
    }
    lower.compute_in_float32();
    let mean = x.compute(|x| x.square()).reduce(reduction_op::MEAN, &[last]);
    let y = x.compute_with(mean, |x, mean| x / deviation(mean, norm.epsilon));
    lower.give(0, if is_plain(lower)? { y } else { y.reshape(lower.shape(0)?) * lower.input(1) })
}

/// Returns ncnn's layer, if every supported release has it and the scale has an element for each position of
/// a row, or is 1.
fn rms_layer(lower: &Lower, norm: &LayerNormAttributes, size: &Dim) -> Result<Option<RMSNorm>> {
    let Some(affine_size) = size.known().and_then(|size| i32::try_from(size).ok()) else { return Ok(None) };
    let gamma = lower.constant(1).filter(|_| matches!(is_row(lower, norm.axis, 1), Ok(true)));
    // The root is an estimate in releases without caches, and the layer is not needed for a weight.
    if gamma.is_none() && !(is_plain(lower)? && lower.release() >= CACHES) {
        return Ok(None);
    }
    let layer = RMSNorm { affine_size, eps: norm.epsilon, gamma_data: gamma.cloned() };
    Ok(Some(layer).filter(|layer| layer.since() <= lower.release()))
}
