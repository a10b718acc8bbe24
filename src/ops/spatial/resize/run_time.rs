//! Resize by scales computed at run time, if the model states the shape of the output.
//!
//! Each axis is multiplied by a matrix that is computed from its scale. Interpolation is continuous in the
//! scale, so the rounding of the runtime does not matter. Nearest neighbours are not continuous: only those
//! are expanded that follow from one exact quotient.

use super::{Filter, Mode, Nearest, Transform, input_indices, present, read_axes, read_filter};
use crate::common::limits;
use crate::error::{At, Error, Result, invalid, unsupported};
use crate::graph::Attribute;
use crate::op::Call;
use crate::ops::run_time::check_list;
use crate::pass::expand::{Expand, Operand};
use crate::tensor::{Array, DType, Dim, display_shape};

/// Returns the stated shape of the output if scales computed at run time can be expanded in this mode.
pub(super) fn stated_shape<'a>(call: &Call<'a>) -> Result<Option<&'a [Dim]>> {
    let (_, scales, _) = input_indices(call.since());
    let Some(index) = present(call, scales) else { return Ok(None) };
    let filter = read_filter(call)?;
    let known = matches!(
        filter.transform,
        Transform::HalfPixel
            | Transform::HalfPixelSymmetric
            | Transform::PytorchHalfPixel
            | Transform::Asymmetric
    );
    let exact = match filter.mode {
        Mode::Nearest(nearest) => nearest_rule(filter.transform, nearest).is_some(),
        _ => !filter.antialias,
    };
    // Unless the scale of such an axis is 1, onnxruntime and the specification differ.
    let odd = |size: &Dim| size.known().is_none_or(|size| size % 2 == 1 && size > 1);
    let differs = filter.transform == Transform::HalfPixelSymmetric && call.shape(0)?.iter().any(odd);
    if call.constant(index).is_some() || !known || !exact || differs {
        return Ok(None);
    }
    let rank = call.shape(0)?.len();
    Ok(call.declared_shape(0).filter(|shape| shape.len() == rank && shape.iter().all(|size| !size.is(0))))
}

/// Refuses scales of a wrong length, and a stated shape in which axes without a scale change.
pub(super) fn check_scales(call: &Call, stated: &[Dim]) -> Result<()> {
    let (axes, shape) = (read_axes(call)?, call.shape(0)?);
    if let (_, Some(index), _) = input_indices(call.since()) {
        check_list(call, index, axes.len())?;
    }
    let changed = |(axis, (from, to)): (usize, (&Dim, &Dim))| !axes.contains(&axis) && from != to;
    if shape.iter().zip(stated).enumerate().any(changed) {
        invalid!(
            "shape {} is resized to {} along axes other than {axes:?}",
            display_shape(shape),
            display_shape(stated)
        );
    }
    let dtype = call.dtype(0)?;
    if !matches!(read_filter(call)?.mode, Mode::Nearest(_)) && !dtype.is_float() {
        unsupported!("interpolation of {dtype}: the output is rounded");
    }
    Ok(())
}

/// Returns the reason for refusing scales computed at run time.
pub(super) fn why_not(filter: &Filter) -> &'static str {
    match (filter.mode, filter.transform) {
        (Mode::Nearest(nearest), transform) if nearest_rule(transform, nearest).is_none() => {
            "the scales are computed at run time: nearest neighbours depend on the rounding of coordinates"
        }
        (_, Transform::AlignCorners | Transform::HalfPixelSymmetric) => {
            "the scales are computed at run time: for some, onnxruntime and the specification's reference \
                disagree"
        }
        (_, Transform::TfCropAndResize) => "the scales of a region are computed at run time",
        _ if filter.antialias => {
            "the scales are computed at run time: ncnn has no filter of a width known only at run time"
        }
        _ => "the scales are computed at run time, and the shape of the output is not stated",
    }
}

/// A resized axis.
struct Axis {
    input: i64,
    output: i64,
    scale: Operand,
}

pub(super) fn expand_resize(x: &mut Expand) -> Result<bool> {
    let Some(stated) = stated_shape(x)? else { return Ok(false) };
    let filter = read_filter(x)?;
    let outputs: Vec<i64> = stated.iter().filter_map(Dim::known).collect();
    let mut sizes = x.sizes(0)?;
    let axes = read_axes(x)?;
    let (_, Some(index), _) = input_indices(x.since()) else { return Ok(false) };
    let scales = x.operand_as(index, DType::F32)?;
    let mut data = x.operand_as(0, DType::F32)?;
    for (position, axis) in axes.into_iter().enumerate() {
        let (input, output) = (*sizes.at(axis)?, *outputs.at(axis)?);
        if input == 1 && output == 1 {
            continue;
        }
        if usize::try_from(input.saturating_mul(output))? > limits::MATRIX_ELEMENTS {
            unsupported!("a matrix from {input} to {output} elements computed at run time");
        }
        let position = x.ints(&[i64::try_from(position)?])?;
        let scale = x.op("Gather", &[scales, position], &[("axis", Attribute::Int(0))])?;
        let outer: i64 = sizes.iter().take(axis).product();
        let inner: i64 = sizes.iter().skip(axis + 1).product();
        data = x.reshape(data, &[outer, input, inner])?;
        let resized = Axis { input, output, scale };
        data = if let Mode::Nearest(nearest) = filter.mode {
            let indices = nearest_indices(x, filter.transform, nearest, &resized)?;
            x.op("Gather", &[data, indices], &[("axis", Attribute::Int(1))])?
        } else {
            let matrix = matrix(x, &filter, &resized)?;
            x.op("MatMul", &[matrix, data], &[])?
        };
        if let Some(size) = sizes.get_mut(axis) {
            *size = output;
        }
    }
    let result = x.reshape(data, &sizes)?;
    let dtype = x.dtype(0)?;
    let result = if dtype == DType::F32 { result } else { x.cast(result, dtype)? };
    x.output(0, result)?;
    Ok(true)
}

fn list(x: &mut Expand, shape: &[usize], values: Vec<f32>) -> Result<Operand> {
    x.literal(&Array::f32(ndarray::ArrayD::from_shape_vec(shape, values)?))
}

fn scalar(x: &mut Expand, value: f32) -> Result<Operand> {
    list(x, &[1], vec![value])
}

fn float(n: i64) -> f32 {
    num_traits::AsPrimitive::as_(n)
}

/// Emits the constant `shift, 1 + shift, ...` of `count` elements.
fn ramp(x: &mut Expand, shape: &[usize], count: i64, shift: f32) -> Result<Operand> {
    list(x, shape, (0..count).map(|n| float(n) + shift).collect())
}

/// Emits the input coordinate of each output element, as a column.
fn coordinates(x: &mut Expand, transform: Transform, axis: &Axis) -> Result<Operand> {
    let column = [usize::try_from(axis.output)?, 1];
    match transform {
        Transform::PytorchHalfPixel if axis.output == 1 => return list(x, &column, vec![0.0]),
        Transform::Asymmetric => {
            let whole = ramp(x, &column, axis.output, 0.0)?;
            return x.op("Div", &[whole, axis.scale], &[]);
        }
        _ => {}
    }
    let middles = ramp(x, &column, axis.output, 0.5)?;
    let scaled = x.op("Div", &[middles, axis.scale], &[])?;
    let half = scalar(x, 0.5)?;
    let coordinates = x.op("Sub", &[scaled, half], &[])?;
    if transform != Transform::HalfPixelSymmetric {
        return Ok(coordinates);
    }
    // The fraction lost by rounding the size down is distributed to both ends.
    let (whole, middle) = (scalar(x, float(axis.output))?, scalar(x, float(axis.input) / 2.0)?);
    let exact = x.op("Div", &[whole, axis.scale], &[])?;
    let half = x.op("Mul", &[exact, half], &[])?;
    let offset = x.op("Sub", &[middle, half], &[])?;
    x.op("Add", &[coordinates, offset], &[])
}

/// The index of a nearest neighbour: `round((x + offset) / scale) + shift` for output index `x`.
struct NearestRule {
    offset: f32,
    rounding: Rounding,
    shift: f32,
}

enum Rounding {
    Up,
    Down,
    /// Up if the axis shrinks, else down.
    ByScale,
}

/// Returns the rule of a mode. Rounding `q - 0.5` to nearest with ties down is `ceil(q) - 1`.
fn nearest_rule(transform: Transform, nearest: Nearest) -> Option<NearestRule> {
    let rule = |offset, rounding, shift| Some(NearestRule { offset, rounding, shift });
    match (transform, nearest) {
        (Transform::HalfPixel, Nearest::RoundPreferFloor) => rule(0.5, Rounding::Up, -1.0),
        (Transform::Asymmetric, Nearest::Floor) => rule(0.0, Rounding::Down, 0.0),
        (Transform::Asymmetric, Nearest::Ceil) => rule(0.0, Rounding::Up, 0.0),
        (Transform::Asymmetric, Nearest::Simple) => rule(0.0, Rounding::ByScale, 0.0),
        _ => None,
    }
}

/// Emits the input index of each output element.
fn nearest_indices(x: &mut Expand, transform: Transform, nearest: Nearest, axis: &Axis) -> Result<Operand> {
    let Some(rule) = nearest_rule(transform, nearest) else {
        unsupported!("nearest neighbours with scales computed at run time");
    };
    let row = ramp(x, &[usize::try_from(axis.output)?], axis.output, rule.offset)?;
    let quotient = x.op("Div", &[row, axis.scale], &[])?;
    let whole = match rule.rounding {
        Rounding::Up => x.op("Ceil", &[quotient], &[])?,
        Rounding::Down => x.op("Floor", &[quotient], &[])?,
        Rounding::ByScale => {
            let (up, down) = (x.op("Ceil", &[quotient], &[])?, x.op("Floor", &[quotient], &[])?);
            let one = scalar(x, 1.0)?;
            let shrinks = x.op("Less", &[axis.scale, one], &[])?;
            x.op("Where", &[shrinks, up, down], &[])?
        }
    };
    let shift = scalar(x, rule.shift)?;
    let whole = x.op("Add", &[whole, shift], &[])?;
    let inside = clamped(x, whole, axis.input)?;
    x.cast(inside, DType::I64)
}

/// Clamps coordinates to `0..input`.
fn clamped(x: &mut Expand, coordinate: Operand, input: i64) -> Result<Operand> {
    let (zero, last) = (scalar(x, 0.0)?, scalar(x, float(input - 1))?);
    let coordinate = x.op("Max", &[coordinate, zero], &[])?;
    x.op("Min", &[coordinate, last], &[])
}

/// Emits the matrix of an axis, with a row for each output element.
fn matrix(x: &mut Expand, filter: &Filter, axis: &Axis) -> Result<Operand> {
    let coordinate = coordinates(x, filter.transform, axis)?;
    let elements = ramp(x, &[1, usize::try_from(axis.input)?], axis.input, 0.0)?;
    if filter.mode == Mode::Cubic {
        return cubic_matrix(x, filter, axis, coordinate, elements);
    }
    let coordinate = clamped(x, coordinate, axis.input)?;
    let distance = x.op("Sub", &[coordinate, elements], &[])?;
    let distance = x.op("Abs", &[distance], &[])?;
    let one = scalar(x, 1.0)?;
    let weight = x.op("Sub", &[one, distance], &[])?;
    x.op("Relu", &[weight], &[])
}

/// Emits the weights of the four elements around each coordinate, clamped to the axis or excluded beyond it.
fn cubic_matrix(
    x: &mut Expand,
    filter: &Filter,
    axis: &Axis,
    coordinate: Operand,
    elements: Operand,
) -> Result<Operand> {
    let before = x.op("Floor", &[coordinate], &[])?;
    let ratio = x.op("Sub", &[coordinate, before], &[])?;
    let (mut matrix, mut sum): (Option<Operand>, Option<Operand>) = (None, None);
    for step in [-1.0_f32, 0.0, 1.0, 2.0] {
        let shift = scalar(x, step)?;
        let at = x.op("Add", &[before, shift], &[])?;
        let distance = x.op("Sub", &[shift, ratio], &[])?;
        let distance = x.op("Abs", &[distance], &[])?;
        let near = (0.0..=1.0).contains(&step);
        let mut weight = kernel(x, distance, filter.cubic_coeff_a, near)?;
        let inside = clamped(x, at, axis.input)?;
        if filter.exclude_outside {
            let is_inside = x.op("Equal", &[at, inside], &[])?;
            let is_inside = x.cast(is_inside, DType::F32)?;
            weight = x.op("Mul", &[weight, is_inside], &[])?;
            sum = Some(match sum {
                Some(sum) => x.op("Add", &[sum, weight], &[])?,
                None => weight,
            });
        }
        let hit = x.op("Equal", &[inside, elements], &[])?;
        let hit = x.cast(hit, DType::F32)?;
        let part = x.op("Mul", &[hit, weight], &[])?;
        matrix = Some(match matrix {
            Some(matrix) => x.op("Add", &[matrix, part], &[])?,
            None => part,
        });
    }
    let matrix = matrix.ok_or_else(|| Error::internal("a filter has no elements"))?;
    match sum {
        Some(sum) => x.op("Div", &[matrix, sum], &[]),
        None => Ok(matrix),
    }
}

/// Emits the cubic convolution kernel for distances up to 1 (`near`), or from 1 to 2.
fn kernel(x: &mut Expand, distance: Operand, a: f32, near: bool) -> Result<Operand> {
    // Coefficients, highest power first.
    let factors = if near { [a + 2.0, -(a + 3.0), 0.0, 1.0] } else { [a, -5.0 * a, 8.0 * a, -4.0 * a] };
    let mut value: Option<Operand> = None;
    for factor in factors {
        let factor = scalar(x, factor)?;
        value = Some(match value {
            Some(value) => {
                let product = x.op("Mul", &[value, distance], &[])?;
                x.op("Add", &[product, factor], &[])?
            }
            None => factor,
        });
    }
    value.ok_or_else(|| Error::internal("a kernel has no terms"))
}
