//! Normalization of rows, groups, channels and positions, and Softmax.

use ndarray::{Axis, Slice};
use num_traits::AsPrimitive;

use super::Mat;
use super::array::{axis, bottom, shaped, size, weight};
use super::elementwise::{along_outermost, outermost};
use crate::error::{At, Result, invalid, unsupported};
use crate::ncnn::Layer;
use crate::ncnn::layer::{BatchNorm, GroupNorm, LRN, MVN, Normalize};
use crate::tensor::Tensor;

/// Computes a layer that normalizes.
pub(super) fn compute(layer: &Layer, bottoms: &[&Mat]) -> Result<Mat> {
    let bottom = bottom(bottoms, 0)?;
    match layer {
        Layer::BatchNorm(l) => batch_norm(l, bottom),
        Layer::GroupNorm(l) => group_norm(l, bottom),
        Layer::InstanceNorm(l) => {
            let eps = f64::from(l.eps);
            let top = by_rows(bottom, channel_len(bottom)?, |row| standardize(row, eps))?;
            affine_outermost(top, &l.gamma_data, &l.beta_data)
        }
        Layer::LayerNorm(l) => {
            let (inner, len) = inner_axes(bottom, l.affine_size)?;
            let eps = f64::from(l.eps);
            let top = by_rows(bottom, len, |row| standardize(row, eps))?;
            affine_inner(top, inner, len, &l.gamma_data, &l.beta_data)
        }
        Layer::LRN(l) => local_response(l, bottom),
        Layer::MVN(l) => mean_variance(l, bottom),
        Layer::Normalize(l) => normalize(l, bottom),
        Layer::RMSNorm(l) => {
            let (inner, len) = inner_axes(bottom, l.affine_size)?;
            let eps = f64::from(l.eps);
            let top = by_rows(bottom, len, |row| divide(row, (mean_square(row) + eps).sqrt()))?;
            affine_inner(top, inner, len, &l.gamma_data, &None)
        }
        Layer::Softmax(l) => {
            if l.axis != 0 && l.fixbug0 == 0 {
                invalid!("an axis without fixbug0");
            }
            softmax(bottom, axis(l.axis, bottom.ndim())?)
        }
        _ => unsupported!("{} as a normalization", layer.type_name()),
    }
}

/// Applies a function to each `len` adjacent elements.
fn by_rows(bottom: &Mat, len: usize, function: impl Fn(&mut [f64])) -> Result<Mat> {
    let mut elements: Vec<f64> = bottom.iter().copied().collect();
    elements.chunks_mut(len.max(1)).for_each(function);
    shaped(bottom.shape(), elements)
}

/// Returns the number of elements of each channel, which only blobs of three or four axes have.
fn channel_len(bottom: &Mat) -> Result<usize> {
    match bottom.shape() {
        [_, inner @ ..] if matches!(inner.len(), 2 | 3) => Ok(inner.iter().product()),
        sizes => unsupported!("channels of {} axes", sizes.len()),
    }
}

/// Returns the number of inner axes that have `affine_size` elements together, and that number.
///
/// The outermost axis is none of them, unless it is the only one. If no axes have as many elements, they are
/// all of these.
fn inner_axes(bottom: &Mat, affine_size: i32) -> Result<(usize, usize)> {
    let inner = match bottom.shape() {
        [] => invalid!("a bottom without axes"),
        [_] => bottom.shape(),
        [_, inner @ ..] => inner,
    };
    let wanted = size(affine_size)?;
    let mut len = 1;
    for (index, size) in inner.iter().rev().enumerate() {
        len *= size;
        if len == wanted {
            return Ok((index + 1, len));
        }
    }
    Ok((inner.len(), len))
}

/// Multiplies by weights of the `axes` innermost axes, of `len` elements, and adds others, if present.
fn affine_inner(
    top: Mat,
    axes: usize,
    len: usize,
    gamma: &Option<Tensor>,
    beta: &Option<Tensor>,
) -> Result<Mat> {
    let outer = top.ndim().saturating_sub(axes);
    let sizes: Vec<usize> = top.shape().iter().skip(outer).copied().collect();
    let read = |data: &Option<Tensor>| shaped(&sizes, weight(data, len)?);
    let top = if gamma.is_some() { top * read(gamma)? } else { top };
    Ok(if beta.is_some() { top + read(beta)? } else { top })
}

/// Multiplies by weights along the outermost axis and adds others, if present.
fn affine_outermost(top: Mat, gamma: &Option<Tensor>, beta: &Option<Tensor>) -> Result<Mat> {
    let read = |data: &Option<Tensor>| along_outermost(data, &top, false);
    let gamma = gamma.is_some().then(|| read(gamma)).transpose()?;
    let beta = beta.is_some().then(|| read(beta)).transpose()?;
    let top = if let Some(gamma) = gamma { top * gamma } else { top };
    Ok(if let Some(beta) = beta { top + beta } else { top })
}

/// Subtracts the mean.
fn center(row: &mut [f64]) {
    let count: f64 = row.len().as_();
    let mean = row.iter().sum::<f64>() / count;
    row.iter_mut().for_each(|x| *x -= mean);
}

/// Makes the mean 0 and the variance almost 1.
fn standardize(row: &mut [f64], eps: f64) {
    center(row);
    divide(row, (mean_square(row) + eps).sqrt());
}

fn sum_square(row: &[f64]) -> f64 {
    row.iter().map(|x| x * x).sum()
}

fn mean_square(row: &[f64]) -> f64 {
    let count: f64 = row.len().as_();
    sum_square(row) / count
}

fn divide(row: &mut [f64], divisor: f64) {
    row.iter_mut().for_each(|x| *x /= divisor);
}

/// Computes a BatchNorm; a deviation of 0 counts as 0.0001.
fn batch_norm(layer: &BatchNorm, bottom: &Mat) -> Result<Mat> {
    let eps = f64::from(layer.eps);
    let read = |data| along_outermost(data, bottom, false);
    let deviation = read(&layer.var_data)?.mapv(|var| match (var + eps).sqrt() {
        0.0 => 0.0001,
        deviation => deviation,
    });
    let scaled = (bottom - read(&layer.mean_data)?) / deviation * read(&layer.slope_data)?;
    Ok(scaled + read(&layer.bias_data)?)
}

/// Computes a GroupNorm, whose groups are of adjacent channels.
fn group_norm(layer: &GroupNorm, bottom: &Mat) -> Result<Mat> {
    let (groups, channels) = (size(layer.group)?, size(layer.channels)?);
    if outermost(bottom)? != channels || channels.checked_rem(groups) != Some(0) {
        invalid!("{channels} channels in {groups} groups, for a bottom of {:?}", bottom.shape());
    }
    let eps = f64::from(layer.eps);
    let top = by_rows(bottom, bottom.len() / groups, |row| standardize(row, eps))?;
    affine_outermost(top, &layer.gamma_data, &layer.beta_data)
}

/// Computes an MVN, over each channel or all of them.
fn mean_variance(layer: &MVN, bottom: &Mat) -> Result<Mat> {
    let channel = channel_len(bottom)?;
    let len = if layer.across_channels != 0 { bottom.len() } else { channel };
    let eps = f64::from(layer.eps);
    by_rows(bottom, len, |row| {
        center(row);
        if layer.normalize_variance != 0 {
            divide(row, mean_square(row).sqrt() + eps);
        }
    })
}

/// Computes a Normalize: over all elements, each channel or each position, or not at all.
fn normalize(layer: &Normalize, bottom: &Mat) -> Result<Mat> {
    let channel = channel_len(bottom)?;
    let eps = f64::from(layer.eps);
    let norm: fn(f64, f64) -> f64 = match layer.eps_mode {
        0 => |sum, eps| (sum + eps).sqrt(),
        1 => |sum, eps| sum.sqrt().max(eps),
        2 => |sum, eps| sum.max(eps).sqrt(),
        mode => invalid!("an eps_mode of {mode}"),
    };
    let unit = |row: &mut [f64]| divide(row, norm(sum_square(row), eps));
    let top = match (layer.across_spatial != 0, layer.across_channel != 0) {
        (true, true) => by_rows(bottom, bottom.len(), unit)?,
        (true, false) => by_rows(bottom, channel, unit)?,
        (false, true) => {
            let sums = bottom.mapv(|x| x * x).sum_axis(Axis(0));
            bottom / sums.mapv(|sum| norm(sum, eps))
        }
        (false, false) => return Ok(bottom.clone()),
    };
    let scale = if layer.channel_shared != 0 {
        shaped(&[1], weight(&layer.scale_data, 1)?)?
    } else {
        along_outermost(&layer.scale_data, bottom, false)?
    };
    Ok(top * scale)
}

/// Computes an LRN, with windows of `local_size` channels, or as wide and high in each channel.
///
/// An even window has one element more before the element that it is for. Up to release 20260526 it has one
/// channel more after it, and is then larger than `local_size`, by which the sum is divided.
fn local_response(layer: &LRN, bottom: &Mat) -> Result<Mat> {
    if bottom.ndim() != 3 {
        unsupported!("an LRN over {} axes", bottom.ndim());
    }
    let window = size(layer.local_size)?;
    if window == 0 {
        invalid!("a local_size of 0");
    }
    let width = f64::from(layer.local_size);
    let squares = bottom.mapv(|x| x * x);
    let (sums, count) = match layer.region_type {
        0 => (window_sums(&squares, 0, window)?, width),
        1 => (window_sums(&window_sums(&squares, 1, window)?, 2, window)?, width.powi(2)),
        region => invalid!("a region_type of {region}"),
    };
    let (alpha, beta, bias) = (f64::from(layer.alpha), f64::from(layer.beta), f64::from(layer.bias));
    Ok(bottom * sums.mapv(|sum| libm::pow(bias + alpha / count * sum, -beta)))
}

/// Returns the sums over windows along an axis, each with half of its elements before its own.
fn window_sums(blob: &Mat, axis: usize, window: usize) -> Result<Mat> {
    let len = *blob.shape().at(axis)?;
    let mut sums = blob.clone();
    for (index, mut sum) in sums.axis_iter_mut(Axis(axis)).enumerate() {
        let from = index.saturating_sub(window / 2);
        let to = len.min((index + window).saturating_sub(window / 2));
        sum.assign(&blob.slice_axis(Axis(axis), Slice::from(from..to)).sum_axis(Axis(axis)));
    }
    Ok(sums)
}

/// Computes the Softmax along an axis.
fn softmax(bottom: &Mat, axis: usize) -> Result<Mat> {
    let mut top = bottom.clone();
    for mut lane in top.lanes_mut(Axis(axis)) {
        let max = lane.fold(f64::NEG_INFINITY, |max, x| max.max(*x));
        lane.mapv_inplace(|x| libm::exp(x - max));
        let sum = lane.sum();
        lane.mapv_inplace(|x| x / sum);
    }
    Ok(top)
}
