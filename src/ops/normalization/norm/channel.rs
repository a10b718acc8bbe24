//! InstanceNormalization and GroupNormalization: mean and variance of the channels of each image. In ncnn,
//! the images of a batch are further channels.

use super::moment::repeat;
use crate::ncnn::Layer;
use crate::ncnn::layer::{GroupNorm, InstanceNorm, binary_op};
use crate::ops::prelude::*;

/// The version of GroupNormalization since which each channel has a scale and a bias; before, each group has.
const SCALES_EACH_CHANNEL: i64 = 21;

fn split_shape<'a>(call: &Call<'a>) -> Result<(&'a Dim, &'a Dim, &'a [Dim])> {
    match call.shape(0)? {
        [batch, channels, spatial @ ..] => Ok((batch, channels, spatial)),
        shape => Err(Error::invalid(format!("a normalization of shape {}", display_shape(shape)))),
    }
}

pub(super) fn infer_instance_norm(call: &Call) -> Result<Vec<Fact>> {
    let (_, channels, _) = split_shape(call)?;
    for index in 1..3 {
        call.check_shape(index, std::slice::from_ref(channels))?;
    }
    infer_same(call)
}

struct GroupNormAttributes {
    epsilon: f32,
    num_groups: i64,
}

fn read_group_norm(call: &Call) -> Result<GroupNormAttributes> {
    let num_groups = call.int("num_groups")?;
    if num_groups < 1 {
        invalid!("num_groups is {num_groups}");
    }
    Ok(GroupNormAttributes { epsilon: call.float("epsilon")?, num_groups })
}

pub(super) fn infer_group_norm(call: &Call) -> Result<Vec<Fact>> {
    let norm = read_group_norm(call)?;
    let (_, channels, _) = split_shape(call)?;
    if let Some(channels) = channels.known()
        && channels % norm.num_groups != 0
    {
        invalid!("{channels} channels in {} groups", norm.num_groups);
    }
    let scaled =
        if call.since() < SCALES_EACH_CHANNEL { Dim::Known(norm.num_groups) } else { channels.clone() };
    for index in 1..3 {
        call.check_shape(index, std::slice::from_ref(&scaled))?;
    }
    infer_same(call)
}

/// Returns the sizes of batch and channels, which the layers need as params.
fn fixed_channels(lower: &Lower) -> Result<(i64, i64)> {
    let (batch, channels, _) = split_shape(lower)?;
    match (batch.known(), channels.known()) {
        (Some(batch), Some(channels)) => Ok((batch, channels)),
        _ => Err(Error::unsupported("the numbers of images and channels must be known")),
    }
}

/// Returns scale and bias as weights over all channels of all images; `None` if one is computed at run time.
fn weights(lower: &Lower, batch: i64, inner: i64) -> Result<Option<(Tensor, Tensor)>> {
    let (Some(scale), Some(bias)) = (lower.constant(1), lower.constant(2)) else { return Ok(None) };
    let (outer, inner) = (usize::try_from(batch)?, usize::try_from(inner)?);
    Ok(Some((repeat(scale, outer, inner)?, repeat(bias, outer, inner)?)))
}

pub(super) fn lower_instance_norm(lower: &Lower) -> Result<()> {
    let epsilon = lower.float("epsilon")?;
    let (_, _, spatial) = split_shape(lower)?;
    let (batch, channels) = fixed_channels(lower)?;
    // InstanceNorm treats a blob of two axes as one channel, and ignores a fourth axis before 2024-08.
    let form = match spatial {
        [h, w] => shape![batch * channels, h, w],
        _ => shape![batch * channels, 1, Dim::product(spatial)],
    };
    let x = lower.input(0).reshape(form).isolated();
    if epsilon > 0.0 && Dim::product(spatial).is(1) {
        return lower_single(lower, x, batch, channels);
    }
    let total = i32::try_from(batch * channels)?;
    lower_scaled(lower, x, [batch, channels, 1], |gamma_data, beta_data| {
        InstanceNorm { channels: total, eps: epsilon, gamma_data, beta_data }.into()
    })
}

/// Emits the layer with scale and bias, each for `inner` consecutive channels; as weights, if they are
/// constant.
fn lower_scaled<'l>(
    lower: &'l Lower,
    x: Nd<'l>,
    [batch, channels, inner]: [i64; 3],
    layer: impl FnOnce(Option<Tensor>, Option<Tensor>) -> Layer,
) -> Result<()> {
    let weights = weights(lower, batch, inner)?;
    let composed = weights.is_none();
    let (scale, bias) = weights.unzip();
    let y = x.compute(|x| x.map(layer(scale, bias)));
    lower.give(0, if composed { scale_channels(lower, y, batch, channels, inner) } else { y })
}

/// Emits the normalization of single elements: only the bias, since the layer's rounding of mean and factor
/// would outweigh it. NaN stays.
fn lower_single<'l>(lower: &'l Lower, x: Nd<'l>, batch: i64, channels: i64) -> Result<()> {
    lower.give(0, scale_channels(lower, x.compute(|x| x.with(binary_op::SUB, x)), batch, channels, 1))
}

/// Returns the scaled and shifted channels by the inputs, with an element for each `inner` consecutive ones.
fn scale_channels<'l>(lower: &'l Lower, y: Nd<'l>, batch: i64, channels: i64, inner: i64) -> Nd<'l> {
    let rest = Dim::product(y.shape().iter().skip(1));
    let y = y.reshape([Dim::Known(batch), Dim::Known(channels / inner), inner * &rest]).isolated();
    let [scale, bias] = [1, 2].map(|index| lower.input(index).reshape(shape![1, channels / inner, 1]));
    y * scale + bias
}

pub(super) fn lower_group_norm(lower: &Lower) -> Result<()> {
    let norm = read_group_norm(lower)?;
    let (_, _, spatial) = split_shape(lower)?;
    let (batch, channels) = fixed_channels(lower)?;
    // Version 18 has a scale for each group, later ones for each channel.
    let inner = if lower.since() < SCALES_EACH_CHANNEL { channels / norm.num_groups } else { 1 };
    let total = batch * channels;
    let form = match spatial {
        [] => shape![total].to_vec(),
        [h, w] => shape![total, h, w].to_vec(),
        _ => shape![total, Dim::product(spatial)].to_vec(),
    };
    let x = lower.input(0).reshape(form).isolated();
    if norm.epsilon > 0.0 && norm.num_groups == channels && Dim::product(spatial).is(1) {
        return lower_single(lower, x, batch, channels);
    }
    let (group, total) = (i32::try_from(batch * norm.num_groups)?, i32::try_from(total)?);
    lower_scaled(lower, x, [batch, channels, inner], |gamma_data, beta_data| {
        GroupNorm { group, channels: total, eps: norm.epsilon, gamma_data, beta_data }.into()
    })
}
