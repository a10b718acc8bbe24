//! LayerNormalization and RMSNormalization over the last axes.

use super::moment::{center, deviation, repeat};
use crate::lower::extended;
use crate::ncnn::layer::{CACHES, LayerNorm, RMSNorm, binary_op, reduction_op};
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

/// Returns the input as rows to normalize: any blob whose innermost axis is a row, with up to three axes if
/// the layer supports them.
fn rows(lower: &Lower, axis: usize) -> Result<(BlobId, Dim)> {
    let shape = lower.shape(0)?.to_vec();
    let size = Dim::product(shape.iter().skip(axis));
    let held = lower.blob(0)?;
    let form = lower.form(held);
    if (2..=3).contains(&form.len()) && form.last() == Some(&size) {
        return Ok((held, size));
    }
    let rows = Dim::product(shape.iter().take(axis));
    Ok((lower.blob_as(0, &[rows, size.clone()])?, size))
}

pub(super) fn lower_layer_norm(lower: &Lower) -> Result<()> {
    let norm = read_layer_norm(lower)?;
    let (x, size) = rows(lower, norm.axis)?;
    let form = lower.form(x);
    // A row of one element becomes the bias, which the layer's rounding would outweigh.
    if size.is(1) || (1..3).any(|output| lower.has_output(output)) {
        let last = form.len() - 1;
        let (mean, centered, variance) = center(lower, x, &[last])?;
        let deviation = lower.compute(deviation(variance, norm.epsilon))?;
        let y = lower.compute(centered / deviation)?;
        let y = affine(lower, norm.axis, y, &size)?;
        lower.set(0, y)?;
        lower.set(1, mean)?;
        if lower.has_output(2) {
            lower.set(2, deviation.reciprocal())?;
        }
        return Ok(());
    }
    let affine_size = match size.known() {
        Some(size) => i32::try_from(size)?,
        None => {
            return Err(Error::unsupported("the sizes of the normalized axes must be known"));
        }
    };
    let weights = if is_plain(lower)? { None } else { weights(lower, norm.axis, affine_size)? };
    let composed = weights.is_none() && !is_plain(lower)?;
    let (gamma_data, beta_data) = weights.unzip();
    let layer = LayerNorm { affine_size, eps: norm.epsilon, gamma_data, beta_data };
    let mut y = lower.map(layer, x)?;
    if composed {
        y = affine(lower, norm.axis, y, &size)?;
    }
    lower.set(0, y)
}

/// Returns whether the scale is 1 and there is no bias, as in fused normalizations.
fn is_plain(lower: &Lower) -> Result<bool> {
    Ok(match lower.constant(1).filter(|scale| scale.len() == 1) {
        Some(scale) => !lower.has_input(2) && scale.load_listed()?.scalar_f32()? == 1.0,
        None => false,
    })
}

/// Returns whether a parameter has the shape of a row: that of the axes from `axis` on.
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

/// Emits the product with the scale and the sum with the bias of inputs 1 and 2.
fn affine(lower: &Lower, axis: usize, y: BlobId, size: &Dim) -> Result<BlobId> {
    let y = with_parameter(lower, axis, y, size, 1, binary_op::MUL)?;
    if lower.has_input(2) { with_parameter(lower, axis, y, size, 2, binary_op::ADD) } else { Ok(y) }
}

/// Emits arithmetic of the rows `y` with input `index`, which is broadcast to them.
fn with_parameter(
    lower: &Lower,
    axis: usize,
    y: BlobId,
    size: &Dim,
    index: usize,
    op_type: i32,
) -> Result<BlobId> {
    let parameter = lower.shape(index)?.to_vec();
    let form = lower.form(y);
    if is_row(lower, axis, index)? {
        let row = extended(std::slice::from_ref(size), form.len());
        let parameter = lower.blob_as(index, &row)?;
        return lower.compute(y.with(op_type, parameter));
    }
    // The parameter has unit axes, or lacks axes: both are extended to the same rank, without leading unit
    // axes.
    let shape = lower.shape(0)?.to_vec();
    let mut full = extended(&parameter, shape.len());
    let mut whole = shape;
    while whole.len() > 4 && whole.first().is_some_and(|d| d.is(1)) && full.first().is_some_and(|d| d.is(1)) {
        whole.remove(0);
        full.remove(0);
    }
    if whole.len() != full.len() || whole.len() > 4 {
        return Err(Error::unsupported(format!("a parameter is broadcast within the axes from {axis} on")));
    }
    let y = lower.reshape(y, &whole)?;
    let parameter = lower.blob_as(index, &full)?;
    lower.reshape(y.with(op_type, parameter), &form)
}

pub(super) fn lower_rms_norm(lower: &Lower) -> Result<()> {
    let norm = read_layer_norm(lower)?;
    let (x, size) = rows(lower, norm.axis)?;
    if let Some(layer) = rms_layer(lower, &norm, &size)? {
        return lower.set(0, x.map(layer));
    }
    let last = lower.form(x).len() - 1;
    lower.compute_in_float32();
    let mean = lower.reduce(reduction_op::MEAN, x.square(), &[last])?;
    let y = lower.compute(x / deviation(mean, norm.epsilon))?;
    let y = if is_plain(lower)? { y } else { with_parameter(lower, norm.axis, y, &size, 1, binary_op::MUL)? };
    lower.set(0, y)
}

/// Returns ncnn's layer, if every supported release has it and the scale has an element for each position of
/// a row, or is 1.
fn rms_layer(lower: &Lower, norm: &LayerNormAttributes, size: &Dim) -> Result<Option<RMSNorm>> {
    let Some(affine_size) = size.known().and_then(|size| i32::try_from(size).ok()) else { return Ok(None) };
    let gamma = lower.constant(1).filter(|_| matches!(is_row(lower, norm.axis, 1), Ok(true)));
    // The root is an estimate in releases before those with caches, and the layer is not needed for a weight.
    if gamma.is_none() && !(is_plain(lower)? && lower.release() >= CACHES) {
        return Ok(None);
    }
    let layer = RMSNorm { affine_size, eps: norm.epsilon, gamma_data: gamma.cloned() };
    Ok(Some(layer).filter(|layer| layer.since() <= lower.release()))
}
