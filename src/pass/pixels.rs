//! Pixels as inputs: the scaling and the order of axes that a program takes care of otherwise.

use ndarray::ArrayD;

use super::builder::{self, Builder, Expr};
use crate::common::int::Int;
use crate::error::{Error, Result};
use crate::graph::{Graph, Node, Value, ValueId};
use crate::tensor::{Array, DType, Dim, Elements};

/// How pixels become the elements of an input: `(pixel * scale - mean) * norm` for each channel. An empty
/// list changes nothing, and one number is that of every channel.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Pixels {
    pub scale: Vec<f64>,
    pub mean: Vec<f64>,
    pub norm: Vec<f64>,
    /// The pixels have their channels in the reverse order.
    pub is_bgr: bool,
    /// Pictures are planes of channels where the model reads channels as the last axis.
    pub are_planes: bool,
}

/// An input that is a picture: four axes, and 1, 3 or 4 channels.
#[derive(Clone, Copy)]
struct Picture {
    id: ValueId,
    /// The axis of the channels.
    axis: usize,
    channels: usize,
    dtype: DType,
}

impl Pixels {
    /// Returns whether pixels are the elements.
    pub fn are_plain(&self) -> bool {
        *self == Pixels::default()
    }

    /// Returns whether elements are not the numbers of pixels.
    fn are_scaled(&self) -> bool {
        *self != Pixels { are_planes: self.are_planes, ..Pixels::default() }
    }

    /// Returns factor and offset of a channel: an element is `(pixel - offset) * factor`.
    ///
    /// # Errors
    ///
    /// A number is not finite, a scale is zero, or a list has another number of channels.
    fn of_channel(&self, channel: usize, channels: usize) -> Result<(f64, f64)> {
        let number = |name: &str, list: &[f64], default: f64| match (list, list.get(channel)) {
            ([], _) => Ok(default),
            ([one], _) => Ok(*one),
            (_, Some(number)) if list.len() == channels => Ok(*number),
            _ => Err(Error::usage(format!(
                "--{name} has {} numbers, and the pictures have {channels} channels",
                list.len()
            ))),
        };
        let (scale, mean) = (number("scale", &self.scale, 1.0)?, number("mean", &self.mean, 0.0)?);
        let norm = number("norm", &self.norm, 1.0)?;
        let (factor, offset) = (scale * norm, mean / scale);
        if !factor.is_normal() || !offset.is_finite() {
            return Err(Error::usage("--scale and --norm are finite numbers other than 0, and so is --mean"));
        }
        Ok((factor, offset))
    }

    /// Returns the elements for pixels.
    ///
    /// The offset is subtracted first: a convolution that pads its input with zeros permits a factor before
    /// it, not an offset.
    fn scaled<'b>(
        &self,
        made: &'b Builder<'b>,
        pixels: Expr<'b>,
        picture: Picture,
        version: i64,
    ) -> Result<Expr<'b>> {
        let Picture { axis, channels, dtype, .. } = picture;
        let order = |channel: usize| if self.is_bgr { channels - 1 - channel } else { channel };
        // In the order of the pixels.
        let numbers = (0..channels).map(|channel| self.of_channel(order(channel), channels));
        let (factors, offsets): (Vec<f64>, Vec<f64>) =
            numbers.collect::<Result<Vec<_>>>()?.into_iter().unzip();
        // Before version 7, an attribute says which axis a list belongs to.
        let (rank, attributes) = match version {
            ..7 => (1, vec![("axis", axis.int().into()), ("broadcast", 1.into())]),
            _ => (4 - axis, Vec::new()),
        };
        // Equal numbers are one.
        let constant = |list: &[f64]| -> Result<Expr> {
            let is_uniform = list.iter().all(|n| list.first() == Some(n));
            let list: Vec<f64> = list.iter().copied().take(if is_uniform { 1 } else { channels }).collect();
            let shape: Vec<usize> = std::iter::once(list.len()).chain(vec![1; rank - 1]).collect();
            let elements = ArrayD::from_shape_vec(shape, list)?;
            Ok(made.cast_literal(&Array::new(DType::F64, Elements::F64(elements)), dtype))
        };
        let mut scaled = pixels;
        for (op_type, list, neutral) in [("Sub", &offsets, 0.0), ("Mul", &factors, 1.0)] {
            if list.iter().any(|number| *number != neutral) {
                scaled = made.op(op_type, [scaled, constant(list)?], attributes.clone());
            }
        }
        if self.is_bgr {
            let order: Vec<i64> = (0..channels)
                .map(|channel| i64::try_from(order(channel)))
                .collect::<std::result::Result<_, _>>()?;
            scaled = scaled.gather(made.ints(&order), axis);
        }
        Ok(scaled)
    }

    /// Returns the pixel that becomes 0 in the first channel.
    pub fn border(&self) -> f64 {
        let first = |list: &[f64], default: f64| list.first().copied().unwrap_or(default);
        first(&self.mean, 0.0) / first(&self.scale, 1.0)
    }
}

/// Makes pixels the elements of the inputs that are pictures: four axes with 1, 3 or 4 channels, and floats
/// if they are scaled.
///
/// # Errors
///
/// No input is a picture, or the numbers do not fit its channels.
pub fn read_pixels(graph: &mut Graph, pixels: &Pixels) -> Result<()> {
    if pixels.are_plain() {
        return Ok(());
    }
    let pictures: Vec<Picture> =
        graph.variable_inputs().into_iter().filter_map(|id| as_picture(graph, id)).collect();
    if pixels.are_scaled() && !pictures.iter().any(|picture| picture.dtype.is_float()) {
        return Err(Error::usage(
            "--mean, --norm, --scale and --bgr are for pictures, and no input is one: floats of four axes with \
             1, 3 or 4 channels",
        ));
    }
    if pixels.are_planes && !pictures.iter().any(|picture| picture.axis == 3) {
        return Err(Error::usage(
            "--chw is for pictures whose last axis is their channels, and no input is one: four axes, the last \
             of 1, 3 or 4 channels",
        ));
    }
    for picture in pictures {
        let id = picture.id;
        read_picture(graph, picture, pixels)
            .map_err(|error| error.at_part(format!("input \"{}\"", graph.value(id).name)))?;
    }
    Ok(())
}

fn as_picture(graph: &Graph, id: ValueId) -> Option<Picture> {
    let value = graph.value(id);
    let [_, a, _, c] = value.shape.as_deref()? else { return None };
    let channels = |size: &Dim| size.known().filter(|n| matches!(n, 1 | 3 | 4));
    let (axis, channels) = channels(a).map(|n| (1, n)).or_else(|| channels(c).map(|n| (3, n)))?;
    Some(Picture { id, axis, channels: usize::try_from(channels).ok()?, dtype: value.dtype? })
}

/// Puts nodes between a new input, which has the name of the old one, and its readers.
fn read_picture(graph: &mut Graph, picture: Picture, pixels: &Pixels) -> Result<()> {
    let id = picture.id;
    let is_scaled = picture.dtype.is_float() && pixels.are_scaled();
    let is_turned = pixels.are_planes && picture.axis == 3;
    if !is_scaled && !is_turned {
        return Ok(());
    }
    let value = graph.value(id);
    let shape = match (is_turned, value.shape.as_deref()) {
        (true, Some([n, h, w, c])) => Some([n, c, h, w].into_iter().cloned().collect()),
        _ => value.shape.clone(),
    };
    let new = Value { name: value.name.clone(), dtype: value.dtype, shape, ..Value::default() };
    let new = graph.add_value(new);
    let version = builder::opset(graph);
    let made = Builder::of_version(graph, version);
    let mut read = made.value(new);
    if is_scaled {
        let axis = if is_turned { 1 } else { picture.axis };
        read = pixels.scaled(&made, read, Picture { axis, ..picture }, version)?;
    }
    if is_turned {
        read = read.transpose(&[0, 2, 3, 1]);
    }
    made.give(read, id);
    let nodes = made.finish()?.add_to(graph, &Node::default())?;
    graph.value_mut(id)?.name = String::new();
    for input in graph.inputs.iter_mut().filter(|input| **input == id) {
        *input = new;
    }
    graph.prepend(nodes);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elements_are_pixels_with_factor_and_offset() {
        let pixels = Pixels {
            scale: vec![1.0 / 255.0],
            mean: vec![0.5, 0.25, 0.0],
            norm: vec![2.0],
            is_bgr: false,
            are_planes: false,
        };
        let (factor, offset) = pixels.of_channel(1, 3).unwrap();
        assert!((factor - 2.0 / 255.0).abs() < 1e-12 && (offset - 63.75).abs() < 1e-9);
        assert!((pixels.border() - 127.5).abs() < 1e-9);
        for (scale, mean, norm) in
            [(vec![0.0], vec![], vec![]), (vec![], vec![1.0, 2.0], vec![]), (vec![], vec![], vec![f64::NAN])]
        {
            let pixels = Pixels { scale, mean, norm, ..Pixels::default() };
            assert!(pixels.of_channel(0, 3).is_err(), "{pixels:?}");
        }
    }
}
