//! The weights that `load_model` reads, and their numbers of elements.

use super::window::Window;
use crate::error::{Result, invalid};
use crate::tensor::{Dim, Tensor};

/// A weight that the runtime reads, and its number of elements if known.
pub(in crate::ncnn) type Expected = (&'static str, Option<i64>);

/// The weights that the runtime reads, in its order.
pub(in crate::ncnn) type Reads = Result<Vec<Expected>>;

/// Returns the weights for the shape of the first bottom.
pub(in crate::ncnn) type Rule<L> = fn(&L, &[Dim]) -> Reads;

/// Returns the outermost size of a bottom.
pub(super) fn outermost(bottom: &[Dim]) -> Option<i64> {
    bottom.first().and_then(Dim::known)
}

/// Returns the innermost size of a bottom.
pub(super) fn innermost(bottom: &[Dim]) -> Option<i64> {
    bottom.last().and_then(Dim::known)
}

/// Returns the product of sizes; each must be positive.
pub(super) fn product(factors: &[i32]) -> Result<i64> {
    factors.iter().try_fold(1_i64, |product, factor| match product.checked_mul(i64::from(*factor)) {
        Some(product) if *factor > 0 => Ok(product),
        Some(_) => invalid!("a size of {factor}"),
        None => invalid!("sizes {factors:?} are too large"),
    })
}

/// Returns the weight, and the bias if it is present.
pub(super) fn with_bias(weight: Option<i64>, bias: &Option<Tensor>, num_output: i32) -> Vec<Expected> {
    let mut expected = vec![("weight_data", weight)];
    expected.extend(bias.as_ref().map(|_| ("bias_data", Some(i64::from(num_output)))));
    expected
}

/// Returns the weights of a layer that has all of them, or none, as it has `weight`.
pub(super) fn if_present(weight: &Option<Tensor>, expected: &[Expected]) -> Vec<Expected> {
    if weight.is_some() { expected.to_vec() } else { Vec::new() }
}

/// Returns the names of weights that a layer has if it has `weight`.
pub(super) fn names_if_present(
    weight: &Option<Tensor>,
    names: &'static [&'static str],
) -> &'static [&'static str] {
    if weight.is_some() { names } else { &[] }
}

/// Returns the factors and the summands of a normalization, if they are present.
pub(super) fn affine(gamma: &Option<Tensor>, size: i32) -> Reads {
    let size = Some(i64::from(size));
    Ok(if_present(gamma, &[("gamma_data", size), ("beta_data", size)]))
}

/// Returns the scales of a layer that multiplies int8.
pub(super) fn int8_scales(weight: &Option<Tensor>, top: &Option<Tensor>, scales: i32) -> Vec<Expected> {
    let of_top = if_present(top, &[("top_blob_int8_scales", Some(1))]);
    let scales = [("weight_data_int8_scales", Some(scales.into())), ("bottom_blob_int8_scales", Some(1))];
    if_present(weight, &[&scales, of_top.as_slice()].concat())
}

/// Returns the weights of a convolution or its transpose; none if the weight is a bottom.
pub(super) fn convolution(
    bottom: &[Dim],
    (num_output, group): (i32, Option<i32>),
    windows: &[Window],
    bias: &Option<Tensor>,
    dynamic_weight: i32,
) -> Reads {
    if dynamic_weight != 0 {
        return Ok(Vec::new());
    }
    let (channels, group) = (outermost(bottom), group.unwrap_or(1));
    if group < 1
        || num_output % group != 0
        || channels.is_some_and(|channels| channels % i64::from(group) != 0)
    {
        invalid!("{num_output} output channels in {group} groups");
    }
    let mut factors = vec![num_output];
    factors.extend(windows.iter().map(|window| window.kernel));
    let per_channel = product(&factors)?;
    let weight = channels.map(|channels| per_channel.saturating_mul(channels / i64::from(group)));
    Ok(with_bias(weight, bias, num_output))
}
