//! The attributes and inputs of a node: its windows, groups and shapes.

use crate::graph::Attribute;
use crate::ops::prelude::*;
use crate::ops::spatial::window::{Pads, Window, WindowAxis, read_window};

pub(super) struct Conv {
    pub window: Window,
    pub group: i64,
}

/// Returns the size of the window: `kernel_shape`, or the spatial sizes of the weight.
pub(super) fn read_kernel_shape(call: &Call, weight: &[Dim]) -> Result<Vec<i64>> {
    let spatial = weight.get(2..).unwrap_or_default();
    if let Some(kernel) = call.optional_ints("kernel_shape")? {
        let differs = |(n, size): (&i64, &Dim)| size.known().is_some_and(|size| size != *n);
        if kernel.len() != spatial.len() || kernel.iter().zip(spatial).any(differs) {
            invalid!("kernel_shape {kernel:?} does not match a weight of shape {}", display_shape(weight));
        }
        return Ok(kernel);
    }
    Dim::known_sizes(spatial).ok_or_else(|| {
        Error::unsupported("kernel_shape is missing, and the sizes of the weight are known only at run time")
    })
}

pub(super) fn read_group(call: &Call) -> Result<i64> {
    match call.int("group")? {
        group if group < 1 => Err(Error::invalid(format!("group {group} is not positive"))),
        group => Ok(group),
    }
}

pub(super) fn read_conv(call: &Call, weight: &[Dim]) -> Result<Conv> {
    Ok(Conv { window: read_window(call, read_kernel_shape(call, weight)?)?, group: read_group(call)? })
}

/// Splits the shape of the input into batch, channels and spatial axes. The weight must have as many axes.
pub(super) fn split_shape<'a>(shape: &'a [Dim], weight: &[Dim]) -> Result<(&'a Dim, &'a Dim, &'a [Dim])> {
    match shape {
        [batch, channels, spatial @ ..] if !spatial.is_empty() && weight.len() == shape.len() => {
            Ok((batch, channels, spatial))
        }
        _ => Err(Error::invalid(format!(
            "an input of shape {} does not fit a weight of shape {}",
            display_shape(shape),
            display_shape(weight)
        ))),
    }
}

/// Infers the convolution of input 0 with input 1; input `bias` must have one element for each channel.
pub(super) fn infer_biased(call: &Call, bias: usize) -> Result<Vec<Fact>> {
    let shape = conv_shape(call)?;
    call.check_shape(bias, std::slice::from_ref(shape.at(1)?))?;
    Ok(vec![Fact::new(call.dtype(0)?, shape)])
}

/// Returns the shape of the convolution of input 0 with input 1.
pub(super) fn conv_shape(call: &Call) -> Result<Vec<Dim>> {
    let (data, weight) = (call.shape(0)?, call.shape(1)?);
    let conv = read_conv(call, weight)?;
    let (batch, channels, spatial) = split_shape(data, weight)?;
    let taken = weight.at(1)? * conv.group;
    if let (Some(have), Some(taken)) = (channels.known(), taken.known())
        && have != taken
    {
        invalid!(
            "{have} channels do not fit a weight of shape {} with {} groups",
            display_shape(weight),
            conv.group
        );
    }
    call.require_equal(channels, &taken)?;
    if weight.at(0)?.known().is_some_and(|made| made % conv.group != 0) {
        invalid!("{} output channels are not divisible into {} groups", weight.at(0)?, conv.group);
    }
    let mut shape = vec![batch.clone(), weight.at(0)?.clone()];
    shape.extend(conv.window.output_sizes(spatial)?);
    Ok(shape)
}

/// Returns the attributes of the node that it shares with Conv.
pub(in crate::ops) fn conv_attributes(call: &Call) -> Vec<(&'static str, Attribute)> {
    ["auto_pad", "dilations", "group", "kernel_shape", "pads", "strides"]
        .into_iter()
        .filter_map(|name| Some((name, call.node().attributes.get(name)?.clone())))
        .collect()
}

/// Returns [`conv_attributes`] with this number of groups.
pub(super) fn grouped_attributes(call: &Call, group: i64) -> Vec<(&'static str, Attribute)> {
    let mut attributes = conv_attributes(call);
    attributes.retain(|(name, _)| *name != "group");
    attributes.push(("group", group.into()));
    attributes
}

/// Code of a padding computed at run time as in TensorFlow (`convolution.cpp`, make_padding).
const SAME_UPPER: i32 = -233;
/// As [`SAME_UPPER`], with an odd element before the axis.
const SAME_LOWER: i32 = -234;

/// Returns the window along each axis; the layer computes padding that depends on free sizes.
pub(super) fn conv_spans(lower: &Lower, window: &Window, spatial: &[Dim]) -> Result<Vec<WindowAxis>> {
    let error = match window.spans(spatial) {
        Ok(spans) => return Ok(spans),
        Err(error) => error,
    };
    let Pads::Same { upper } = window.pads else { return Err(error) };
    let three = spatial.len() == 3 || !lower.shape(0)?.at(0)?.is(1);
    // Convolution3D pads the depth as SAME_UPPER for both codes.
    if three && !upper {
        return Err(error);
    }
    window.covering_spans(spatial, if upper { SAME_UPPER } else { SAME_LOWER })?.ok_or(error)
}

/// Returns a number of channels, which ncnn needs as a param.
pub(super) fn fixed(size: &Dim) -> Result<i32> {
    match size.known() {
        Some(size) => Ok(i32::try_from(size)?),
        None => Err(Error::unsupported(format!("the number of channels {size} is known only at run time"))),
    }
}
