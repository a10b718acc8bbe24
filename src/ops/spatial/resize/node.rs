//! The attributes and inputs of a node: its filter, and the sizes and scales of its axes.

use num_traits::AsPrimitive;

use super::ratio::Ratio;
use crate::error::ErrorKind;
use crate::op::axes_or_all;
use crate::ops::prelude::*;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mode {
    Nearest(Nearest),
    Linear,
    Cubic,
}

/// The choice between two neighbours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Nearest {
    RoundPreferFloor,
    RoundPreferCeil,
    Floor,
    Ceil,
    /// Before version 11: `Ceil` if the axis shrinks, else `Floor`.
    Simple,
}

/// The map from output coordinates to input coordinates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Transform {
    HalfPixel,
    HalfPixelSymmetric,
    PytorchHalfPixel,
    AlignCorners,
    Asymmetric,
    TfHalfPixelForNn,
    TfCropAndResize,
}

/// `keep_aspect_ratio_policy`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Policy {
    Stretch,
    NotLarger,
    NotSmaller,
}

/// The interpolation of an axis.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Filter {
    pub mode: Mode,
    pub transform: Transform,
    pub cubic_coeff_a: f32,
    pub exclude_outside: bool,
    pub antialias: bool,
}

pub(super) struct Resize {
    pub filter: Filter,
    pub extrapolation_value: f32,
    pub axes: Vec<AxisResize>,
}

/// The resizing of one axis.
#[derive(Clone, Debug)]
pub(super) struct AxisResize {
    pub axis: usize,
    pub output: Dim,
    /// Output size over input size, the scale of coordinates; `None` if it is known only at run time.
    pub scale: Option<f32>,
    /// Start and end of the resized region, relative to the size of the axis.
    pub roi: (f32, f32),
}

impl Resize {
    /// Returns whether the axis is unchanged.
    pub fn keeps(&self, input: &Dim, axis: &AxisResize) -> bool {
        let whole = self.filter.transform != Transform::TfCropAndResize || axis.roi == (0.0, 1.0);
        let unscaled = axis.scale.is_none_or(|scale| (scale - 1.0).abs() < f32::EPSILON);
        whole && unscaled && axis.output == *input
    }
}

pub(super) fn read_filter(call: &Call) -> Result<Filter> {
    let since = call.since();
    let cubic_coeff_a = call.float_or("cubic_coeff_a", -0.75)?;
    let exclude_outside = call.flag_or_false("exclude_outside")?;
    let antialias = call.flag_or_false("antialias")?;
    let nearest = if since < 11 {
        Nearest::Simple
    } else {
        let words = [
            ("round_prefer_floor", Nearest::RoundPreferFloor),
            ("", Nearest::RoundPreferFloor),
            ("round_prefer_ceil", Nearest::RoundPreferCeil),
            ("floor", Nearest::Floor),
            ("ceil", Nearest::Ceil),
        ];
        call.word("nearest_mode", &words)?
    };
    let mode = match call.string("mode")? {
        "nearest" => Mode::Nearest(nearest),
        "linear" | "bilinear" => Mode::Linear,
        "cubic" if since >= 11 => Mode::Cubic,
        other => invalid!("unknown mode \"{other}\""),
    };
    let transform = if since < 11 {
        Transform::Asymmetric
    } else {
        let words = [
            ("half_pixel", Transform::HalfPixel),
            ("half_pixel_symmetric", Transform::HalfPixelSymmetric),
            ("pytorch_half_pixel", Transform::PytorchHalfPixel),
            ("align_corners", Transform::AlignCorners),
            ("asymmetric", Transform::Asymmetric),
            ("tf_half_pixel_for_nn", Transform::TfHalfPixelForNn),
            ("tf_crop_and_resize", Transform::TfCropAndResize),
        ];
        call.word("coordinate_transformation_mode", &words)?
    };
    let nearest = matches!(mode, Mode::Nearest(_));
    if nearest && antialias {
        invalid!("antialias with mode nearest");
    }
    if !nearest && transform == Transform::TfHalfPixelForNn {
        unsupported!("tf_half_pixel_for_nn with a mode other than nearest");
    }
    Ok(Filter { mode, transform, cubic_coeff_a, exclude_outside, antialias })
}

/// Returns the indices of the inputs roi, scales and sizes.
pub(super) fn input_indices(since: i64) -> (Option<usize>, Option<usize>, Option<usize>) {
    match since {
        7 => (None, None, None),
        9 | 10 => (None, Some(1), None),
        _ => (Some(1), Some(2), Some(3)),
    }
}

/// Returns `index` if that input is present and not empty.
fn present(call: &Call, index: Option<usize>) -> Option<usize> {
    let index = index.filter(|index| call.has_input(*index))?;
    let empty = call.shape(index).is_ok_and(|shape| shape.first().is_some_and(|size| size.is(0)));
    (!empty).then_some(index)
}

/// The regions, scales and sizes of a node, of which it has some.
pub(super) struct Requested {
    pub roi: Option<Vec<f32>>,
    pub scales: Option<Vec<f32>>,
    pub sizes: Option<Vec<Dim>>,
    /// Whether the sizes come from the declared shape, because they are computed at run time.
    pub declared: bool,
}

pub(super) fn read_resize(call: &Call) -> Result<Resize> {
    let filter = read_filter(call)?;
    let shape = call.shape(0)?;
    let axes = axes_or_all(call, shape.len())?;
    let (roi, scales, sizes) = input_indices(call.since());
    let roi = match present(call, roi) {
        Some(index) if filter.transform == Transform::TfCropAndResize => {
            let why = "the region is computed at run time: elements at its edge depend on the rounding of \
                coordinates";
            Some(known_floats(call, index, why)?)
        }
        None if filter.transform == Transform::TfCropAndResize => invalid!("roi is missing"),
        _ => None,
    };
    let scales = match present(call, scales) {
        Some(index) => Some(known_floats(call, index, "the scales are computed at run time")?),
        None => attribute_scales(call)?,
    };
    let sizes = match (&scales, present(call, sizes)) {
        (None, Some(index)) => Some((read_sizes(call, index, &axes)?, call.dims(index).is_err())),
        (Some(_), Some(_)) => invalid!("it has both scales and sizes"),
        (None, None) => invalid!("it has neither scales nor sizes"),
        (Some(_), None) => None,
    };
    let (sizes, declared) = sizes.map_or((None, false), |(sizes, declared)| (Some(sizes), declared));
    resize_of(call, filter, shape, &axes, &Requested { roi, scales, sizes, declared })
}

/// Returns the scales that version 7 has as an attribute.
pub(super) fn attribute_scales(call: &Call) -> Result<Option<Vec<f32>>> {
    if call.since() > 7 {
        return Ok(None);
    }
    call.floats("scales").map(Some)
}

/// Returns the resizing of a value of this shape.
pub(super) fn resize_of(
    call: &Call,
    filter: Filter,
    shape: &[Dim],
    resized_axes: &[usize],
    requested: &Requested,
) -> Result<Resize> {
    let extrapolation_value = call.float_or("extrapolation_value", 0.0)?;
    let policies = [
        ("stretch", Policy::Stretch),
        ("not_larger", Policy::NotLarger),
        ("not_smaller", Policy::NotSmaller),
    ];
    let policy = call.word_or("keep_aspect_ratio_policy", "stretch", &policies)?;
    let Requested { roi, scales, sizes, declared } = requested;
    let count = resized_axes.len();
    let found = scales.as_ref().map(Vec::len).or(sizes.as_ref().map(Vec::len)).unwrap_or(0);
    if found != count || roi.as_ref().is_some_and(|roi| roi.len() != 2 * count) {
        invalid!("scales, sizes or roi do not match {count} axes");
    }
    let mut axes = Vec::with_capacity(count);
    for (i, axis) in resized_axes.iter().enumerate() {
        let input = shape.at(*axis)?;
        let (output, scale) = match (scales, sizes) {
            (Some(scales), _) => (scaled(input, *scales.at(i)?)?, Some(*scales.at(i)?)),
            (_, Some(sizes)) => (sizes.at(i)?.clone(), quotient(sizes.at(i)?, input)?),
            (None, None) => invalid!("it has neither scales nor sizes"),
        };
        let roi = match roi {
            Some(roi) => (*roi.at(i)?, *roi.at(count + i)?),
            None => (0.0, 1.0),
        };
        axes.push(AxisResize { axis: *axis, output, scale, roi });
    }
    if sizes.is_some() && policy != Policy::Stretch {
        let scale = if *declared { declared_scale(shape, &axes)? } else { common_scale(policy, &axes)? };
        keep_aspect_ratio(shape, scale, &mut axes)?;
    }
    Ok(Resize { filter, extrapolation_value, axes })
}

/// Returns the elements of an input that must be constant, or an error with the reason `why`.
fn known_floats(call: &Call, index: usize, why: &str) -> Result<Vec<f32>> {
    match call.float_list(index) {
        Err(error) if error.kind() == ErrorKind::Unsupported && call.constant(index).is_none() => {
            Err(Error::unsupported(why).caused_by(error))
        }
        list => list,
    }
}

/// Returns the requested sizes; if they are computed at run time, the declared sizes of the output.
fn read_sizes(call: &Call, index: usize, axes: &[usize]) -> Result<Vec<Dim>> {
    let error = match call.dims(index) {
        Ok(sizes) => return Ok(sizes),
        Err(error) => error,
    };
    call.check_list(index, axes.len())?;
    match call.declared_instead_of(index) {
        Some(declared) if declared.len() == call.shape(0)?.len() => {
            axes.iter().map(|axis| declared.at(*axis).cloned()).collect()
        }
        _ => Err(error),
    }
}

/// Returns `floor(input * scale)` with the rounding of onnxruntime.
fn scaled(input: &Dim, scale: f32) -> Result<Dim> {
    if !scale.is_finite() || scale <= 0.0 {
        invalid!("scale {scale} is not positive and finite");
    }
    if let Some(input) = input.known() {
        let input: f32 = input.as_();
        return Ok(Dim::Known((input * scale).floor().as_()));
    }
    let unknown = || Error::unsupported(format!("scale {scale} of a size known only at run time"));
    Ok(Ratio::of(scale).ok_or_else(unknown)?.output(input))
}

/// Returns the scale from `input` to `output`, if it is known.
fn quotient(output: &Dim, input: &Dim) -> Result<Option<f32>> {
    if let (Some(output), Some(input)) = (output.known(), input.known()) {
        if output < 1 || input < 1 {
            return Err(Error::invalid(format!("an axis of size {input} is resized to {output}")));
        }
        let (output, input): (f32, f32) = (output.as_(), input.as_());
        return Ok(Some(output / input));
    }
    Ok(output.exact_div(input).and_then(|scale| scale.known()).map(|scale| scale.as_()))
}

fn scales_of(axes: &[AxisResize]) -> Result<Vec<f32>> {
    let scales: Option<Vec<f32>> = axes.iter().map(|axis| axis.scale).collect();
    scales.ok_or_else(|| Error::unsupported("keep_aspect_ratio_policy with sizes known only at run time"))
}

/// Returns the common scale of all axes: the smallest or the largest.
fn common_scale(policy: Policy, axes: &[AxisResize]) -> Result<f32> {
    let scales = scales_of(axes)?.into_iter();
    Ok(match policy {
        Policy::NotLarger => scales.fold(f32::INFINITY, f32::min),
        _ => scales.fold(0.0, f32::max),
    })
}

/// Returns the common scale of all axes if the requested sizes are computed at run time. The scale gives one
/// axis exactly its requested size, so it is one of the quotients of the declared sizes; often only one
/// quotient gives the whole declared shape.
fn declared_scale(shape: &[Dim], axes: &[AxisResize]) -> Result<f32> {
    let mut found: Vec<f32> = Vec::new();
    for scale in scales_of(axes)? {
        let gives = |axis: &AxisResize| Ok(rounded(shape.at(axis.axis)?, scale)? == axis.output);
        let gives_all = !axes.iter().map(gives).collect::<Result<Vec<_>>>()?.contains(&false);
        if gives_all && !found.iter().any(|other| other.to_bits() == scale.to_bits()) {
            found.push(scale);
        }
    }
    match found.as_slice() {
        [scale] => Ok(*scale),
        _ => Err(Error::unsupported(format!(
            "sizes computed at run time: {} scales give the declared shape of the output",
            found.len()
        ))),
    }
}

/// Returns the output size of an axis for a common scale.
fn rounded(input: &Dim, scale: f32) -> Result<Dim> {
    let Some(input) = input.known() else {
        unsupported!("keep_aspect_ratio_policy with sizes known only at run time");
    };
    let input: f32 = input.as_();
    Ok(Dim::Known((scale * input + 0.5).floor().as_()))
}

fn keep_aspect_ratio(shape: &[Dim], scale: f32, axes: &mut [AxisResize]) -> Result<()> {
    for axis in axes {
        axis.output = rounded(shape.at(axis.axis)?, scale)?;
        axis.scale = Some(scale);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scaled_rounds_down() {
        for (input, scale, output) in [(4, 0.6, 2), (10, 0.7, 7), (3, 2.0, 6), (9, 1.0 / 3.0, 3)] {
            assert_eq!(scaled(&Dim::Known(input), scale).unwrap(), Dim::Known(output), "{input} * {scale}");
        }
        assert_eq!(scaled(&Dim::symbol("H"), 2.0).unwrap().to_string(), "2*H");
        assert_eq!(scaled(&Dim::symbol("H"), 0.5).unwrap().to_string(), "floor_div(H, 2)");
    }
}
