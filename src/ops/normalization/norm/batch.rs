//! BatchNormalization.

use super::moment::{center, deviation};
use crate::lower::line_form;
use crate::ncnn::layer::BatchNorm;
use crate::ops::prelude::*;

struct BatchNormAttributes {
    epsilon: f32,
    momentum: f32,
    /// Whether mean and variance are computed from the input.
    training: bool,
    /// Whether there is one mean for each channel, not for each element.
    spatial: bool,
}

/// Returns whether mean and variance are inputs, with one of each for a channel.
pub(super) fn has_statistics(call: &Call) -> bool {
    read_batch_norm(call).is_ok_and(|norm| !norm.training && norm.spatial)
}

fn read_batch_norm(call: &Call) -> Result<BatchNormAttributes> {
    let since = call.since();
    let training = match since {
        1 | 6 => !call.flag("is_test")?,
        7 | 9 => (1..5).any(|output| call.has_output(output)),
        _ => call.flag("training_mode")?,
    };
    Ok(BatchNormAttributes {
        epsilon: call.float("epsilon")?,
        momentum: call.float("momentum")?,
        training,
        spatial: since >= 9 || call.flag("spatial")?,
    })
}

pub(super) fn infer_batch_norm(call: &Call) -> Result<Vec<Fact>> {
    let norm = read_batch_norm(call)?;
    if norm.spatial {
        // A single axis is the batch, with one channel.
        let channels = call.shape(0)?.get(1).unwrap_or(&Dim::ONE);
        for index in 1..5 {
            call.check_shape(index, std::slice::from_ref(channels))?;
        }
    }
    let mut facts = infer_same(call)?;
    let statistics = Fact::new(call.dtype(3)?, call.shape(3)?.to_vec());
    facts.resize(if call.since() >= 14 { 3 } else { 5 }, statistics);
    Ok(facts)
}

/// Expands a node on constants only, as for standardized weights, to arithmetic, which folds.
pub(super) fn expand_batch_norm(expand: &Expand) -> Result<bool> {
    let norm = read_batch_norm(expand)?;
    let dtype = expand.dtype(0)?;
    let is_constant = |index| expand.constant(index).is_some_and(|constant| constant.dtype() == dtype);
    if norm.training || !norm.spatial || !(0..5).all(is_constant) {
        return Ok(false);
    }
    let mut aligned = vec![1; expand.shape(0)?.len()];
    match aligned.get_mut(1) {
        Some(channels) => *channels = -1,
        None => aligned = vec![-1],
    }
    let [x, scale, bias, mean, variance] = [0, 1, 2, 3, 4].map(|index| expand.operand(index));
    let [scale, bias, mean, variance] = [scale, bias, mean, variance].map(|x| x.reshape(&aligned));
    let deviation = (variance + expand.make.number(norm.epsilon, dtype)).sqrt();
    expand.output(0, (x - mean) * (scale / deviation) + bias);
    Ok(true)
}

pub(super) fn lower_batch_norm(lower: &Lower) -> Result<()> {
    let norm = read_batch_norm(lower)?;
    let shape = lower.shape(0)?;
    let [batch, channels, spatial @ ..] = shape else {
        // A single axis is the batch, with one channel.
        if norm.training {
            unsupported!("training over one axis");
        }
        return lower_composed(lower, &norm, &shape![Dim::product(shape)], 0);
    };
    let inner = Dim::product(spatial);
    if norm.training {
        return lower_training(lower, &norm, [batch.clone(), channels.clone(), inner]);
    }
    let all_constant = (1..5).all(|index| lower.constant(index).is_some());
    if all_constant && norm.spatial && batch.is(1) {
        return lower_native(lower, &norm);
    }
    match spatial {
        [] => lower_composed(lower, &norm, shape, 1),
        _ if norm.spatial => lower_composed(lower, &norm, &shape![batch, channels, inner], 1),
        _ => lower_composed(lower, &norm, &shape![batch, channels * inner], 1),
    }
}

/// Emits BatchNorm, whose channels are the outermost axis.
fn lower_native(lower: &Lower, norm: &BatchNormAttributes) -> Result<()> {
    let parameter = |index| lower.required_constant(index).cloned();
    let layer = BatchNorm {
        eps: norm.epsilon,
        slope_data: Some(parameter(1)?),
        bias_data: Some(parameter(2)?),
        mean_data: Some(parameter(3)?),
        var_data: Some(parameter(4)?),
    };
    lower.give(0, lower.input(0).with_outermost(1).compute(|x| x.map(layer)))
}

/// Emits `(x - mean) * (scale / sqrt(variance + epsilon)) + bias`, with parameters along `axis` of the input
/// in `shape`.
fn lower_composed(lower: &Lower, norm: &BatchNormAttributes, shape: &[Dim], axis: usize) -> Result<()> {
    let x = lower.input(0).reshape(shape).isolated();
    let parameters = [1, 2, 3, 4].map(|index| along(lower.input(index), axis, shape.len()));
    let [scale, bias, mean, variance] = parameters;
    lower.give(0, scale_and_shift(norm, x - mean, variance, [scale, bias]))
}

/// Returns a vector along an axis of so many axes.
fn along(vector: Nd, axis: usize, rank: usize) -> Nd {
    vector.reshape(line_form(&Dim::product(&vector.shape()), axis, rank)).isolated()
}

fn scale_and_shift<'l>(
    norm: &BatchNormAttributes,
    centered: Nd<'l>,
    variance: Nd<'l>,
    [scale, bias]: [Nd<'l>; 2],
) -> Nd<'l> {
    let factor = scale.compute_with(variance, |scale, variance| scale / deviation(variance, norm.epsilon));
    centered * factor + bias
}

/// Emits mean and variance of the input, and their update of the running ones.
fn lower_training(lower: &Lower, norm: &BatchNormAttributes, shape: [Dim; 3]) -> Result<()> {
    if lower.since() < 14 || !norm.spatial {
        return Err(Error::unsupported("the node is in training mode").help("export the model for inference"));
    }
    if Dim::product(&shape).is(0) {
        invalid!("the mean of no elements");
    }
    let x = lower.input(0).reshape(shape).isolated();
    let [mean, centered, variance] = center(lower, x, &[0, 2]);
    let [scale, bias] = [1, 2].map(|index| along(lower.input(index), 1, 3));
    lower.give(0, scale_and_shift(norm, centered, variance, [scale, bias]))?;
    for (input, output, current) in [(3, 1, mean), (4, 2, variance)] {
        if lower.has_output(output) {
            let running = along(lower.input(input), 1, 3);
            lower.give(output, running * norm.momentum + current * (1.0 - norm.momentum))?;
        }
    }
    Ok(())
}
