//! LRN, LpNormalization and MeanVarianceNormalization.

use super::moment::center;
use crate::ncnn::layer::{LRN, Normalize, Pooling, binary_op, reduction_op};
use crate::ops::prelude::*;

/// The lower bound of the divisor: a zero vector is unchanged.
const LEAST_NORM: f32 = 1e-37;

struct Lrn {
    alpha: f32,
    beta: f32,
    bias: f32,
    size: i32,
}

fn read_lrn(call: &Call) -> Result<Lrn> {
    let size = i32::try_from(call.int("size")?)?;
    if size < 1 {
        invalid!("size {size} is not positive");
    }
    Ok(Lrn { alpha: call.float("alpha")?, beta: call.float("beta")?, bias: call.float("bias")?, size })
}

pub(super) fn lower_lrn(lower: &Lower) -> Result<()> {
    let Lrn { alpha, beta, bias, size } = read_lrn(lower)?;
    let shape = lower.shape(0)?;
    let [batch, channels, spatial @ ..] = shape else {
        invalid!("a normalization across channels of shape {}", display_shape(shape));
    };
    if batch.is(1) && size % 2 == 1 {
        let x = lower.input(0).reshape(images(channels, spatial)).isolated();
        let layer = LRN { local_size: size, alpha, beta, bias, ..LRN::default() };
        return lower.give(0, x.compute(|x| x.map(layer)));
    }
    // The mean of squares over neighbours is an average pooling along the channels that counts its padding.
    let x = lower.input(0).reshape([batch.clone(), channels.clone(), Dim::product(spatial)]).isolated();
    lower.compute_in_float32();
    let window = Pooling {
        pooling_type: 1,
        kernel_w: 1,
        kernel_h: size,
        pad_top: (size - 1) / 2,
        pad_bottom: size / 2,
        pad_mode: 1,
        avgpool_count_include_pad: 1,
        ..Pooling::default()
    };
    let mean = x.compute(|x| x.square()).layer(window, x.shape());
    lower.give(0, x.compute_with(mean, |x, mean| x / (mean * alpha + bias).with(binary_op::POW, beta)))
}

/// Returns three axes: the channels, then height and width, or all others.
fn images(channels: &Dim, spatial: &[Dim]) -> [Dim; 3] {
    match spatial {
        [h, w] => [channels.clone(), h.clone(), w.clone()],
        _ => [channels.clone(), Dim::ONE, Dim::product(spatial)],
    }
}

pub(super) fn lower_lp_norm(lower: &Lower) -> Result<()> {
    let axis = resolve_axis(lower.int("axis")?, lower.shape(0)?.len())?;
    let x = lower.input(0).with_axes(&[axis]);
    let norm = match lower.int("p")? {
        1 => x.compute(|x| x.abs()).reduce(reduction_op::SUM, &[axis]),
        2 => {
            lower.compute_in_float32();
            let sum = x.compute(|x| x.square()).reduce(reduction_op::SUM, &[axis]);
            sum.power(0.5, Range::NOT_NEGATIVE)
        }
        p => unsupported!("a norm of order {p}"),
    };
    // The reciprocal of an infinite norm is 0, by which a division would be NaN.
    let factor = norm.compute(|norm| norm.maximum(LEAST_NORM)).power(-1.0, Range::NOT_NEGATIVE);
    lower.give(0, x * factor)
}

struct Normalized {
    axis: usize,
    epsilon: f32,
    /// As in ncnn's Normalize: 0 adds to the sum of squares, 1 bounds the norm, 2 bounds the sum of squares.
    eps_mode: i32,
}

fn read_normalize(call: &Call) -> Result<Normalized> {
    let axis = resolve_axis(call.int("axis")?, call.shape(0)?.len())?;
    let eps_mode = i32::try_from(call.int("eps_mode")?)?;
    if !(0..=2).contains(&eps_mode) {
        invalid!("eps_mode is {eps_mode}");
    }
    Ok(Normalized { axis, epsilon: call.float("epsilon")?, eps_mode })
}

/// The layer normalizes over channels, or within each; an axis between others is composed of several layers.
pub(super) fn lower_normalize(lower: &Lower) -> Result<()> {
    let Normalized { axis, epsilon: eps, eps_mode } = read_normalize(lower)?;
    let x = lower.input(0);
    let shape = x.shape();
    let [outer, inner] = Dim::around(&shape, axis);
    let across_channel = outer.is(1);
    if !across_channel && !inner.is(1) {
        return lower.give(0, normalized_by_parts(lower, x.with_axes(&[axis]), axis, eps, eps_mode));
    }
    let channels = if across_channel {
        images(shape.at(axis)?, shape.get(axis + 1..).unwrap_or_default())
    } else {
        shape![outer, 1, shape.at(axis)?]
    };
    let layer = Normalize {
        across_spatial: i32::from(!across_channel),
        channel_shared: 1,
        eps,
        across_channel: i32::from(across_channel),
        eps_mode,
        scale_data: Some(Tensor::from_f32(&[1], vec![1.0])?),
    };
    lower.give(0, x.reshape(channels.clone()).layer(layer, channels))
}

fn normalized_by_parts<'l>(lower: &Lower, x: Nd<'l>, axis: usize, epsilon: f32, eps_mode: i32) -> Nd<'l> {
    lower.compute_in_float32();
    let sum = x.compute(|x| x.square()).reduce(reduction_op::SUM, &[axis]);
    x.compute_with(sum, |x, sum| match eps_mode {
        0 => x / (sum + epsilon).sqrt(),
        1 => x / sum.sqrt().maximum(epsilon),
        _ => x / sum.maximum(epsilon).sqrt(),
    })
}

fn read_mvn(call: &Call) -> Result<Vec<usize>> {
    let axes = call.ints("axes")?;
    let rank = call.shape(0)?.len();
    axes.into_iter().map(|axis| resolve_axis(axis, rank)).collect()
}

pub(super) fn lower_mvn(lower: &Lower) -> Result<()> {
    let axes = read_mvn(lower)?;
    let [_, centered, variance] = center(lower, lower.input(0).for_reduction(&axes), &axes);
    // Unlike the function body in the specification, onnxruntime adds no epsilon: a lane without variance is
    // NaN (`mean_variance_normalization.cc`).
    lower.give(0, centered * variance.power(-0.5, Range::NOT_NEGATIVE))
}
