//! The weights of the elements along one axis, by the rules of ONNX and of ncnn's Interp.

use num_traits::AsPrimitive;

use super::node::{AxisResize, Filter, Mode, Nearest, Transform};
use crate::ops::prelude::*;

/// The tolerance for equal weights: the precision of coordinates of a few thousand.
const SAME_WEIGHT: f32 = 1e-3;
/// The tolerance for sizes that two readings of the specification compute, in elements.
const SAME_SIZE: f64 = 1e-4;
/// A bound of the rounding error of a coordinate that takes many operations.
const ROUNDING: f32 = 1e-4;

/// Indices of elements, and their weights.
type Row = Vec<(usize, f32)>;

/// The input elements of each output element, with their weights.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct AxisMap {
    pub input: usize,
    pub rows: Vec<Row>,
    /// Whether each output element lies outside the input, and takes the extrapolation value.
    pub outside: Vec<bool>,
}

impl AxisMap {
    /// Returns whether both maps give the same elements the same weights.
    pub fn same(&self, other: &AxisMap) -> bool {
        let weight = |row: &[(usize, f32)], index: usize| -> f32 {
            row.iter().filter(|(at, _)| *at == index).map(|(_, weight)| weight).sum()
        };
        let same_row = |(a, b): (&Row, &Row)| {
            a.iter().chain(b).all(|(at, _)| (weight(a, *at) - weight(b, *at)).abs() < SAME_WEIGHT)
        };
        let inside = !self.outside.iter().chain(&other.outside).any(|outside| *outside);
        inside
            && self.input == other.input
            && self.rows.len() == other.rows.len()
            && self.rows.iter().zip(&other.rows).all(same_row)
    }

    /// Returns the map of the first output elements of an axis of `size`, where elements beyond the end stand
    /// for the last one; `None` for sizes below 1 or more output elements than the map has.
    pub fn within(mut self, size: i64, output: i64) -> Option<AxisMap> {
        let (size, output) = (usize::try_from(size).ok()?, usize::try_from(output).ok()?);
        let last = size.checked_sub(1)?;
        for (index, _) in self.rows.iter_mut().flatten() {
            *index = last.min(*index);
        }
        self.rows.truncate(output);
        self.outside.truncate(output);
        (self.rows.len() == output).then_some(AxisMap { input: size, ..self })
    }

    /// Returns the map as bands of about equally many rows: the first element that a band reads, and the map
    /// from the elements from there on.
    pub fn bands(&self, count: usize) -> Vec<(usize, AxisMap)> {
        let height = self.rows.len().div_ceil(count.max(1)).max(1);
        let bands = self.rows.chunks(height).zip(self.outside.chunks(height));
        let band = |(rows, outside): (&[Row], &[bool])| {
            let read = || rows.iter().flatten().map(|(index, _)| *index);
            let (start, end) = (read().min().unwrap_or(0), read().max().unwrap_or(0) + 1);
            let moved = |row: &Row| row.iter().map(|(index, weight)| (index - start, *weight)).collect();
            let rows = rows.iter().map(moved).collect();
            (start, AxisMap { input: end - start, rows, outside: outside.to_vec() })
        };
        bands.map(band).collect()
    }

    /// Returns the input element of each output element, if each is a copy.
    pub fn copied_elements(&self) -> Option<Vec<i64>> {
        let element = |row: &Row| match row.as_slice() {
            [(at, weight)] if (weight - 1.0).abs() < f32::EPSILON => i64::try_from(*at).ok(),
            _ => None,
        };
        if self.outside.contains(&true) { None } else { self.rows.iter().map(element).collect() }
    }
}

/// Returns the matrix of a map, with a row for each output element.
pub(super) fn matrix(map: AxisMap) -> Result<Tensor> {
    let shape = vec![map.rows.len(), map.input];
    Tensor::deferred(DType::F32, shape.clone(), Vec::new(), move |_| {
        let mut matrix = ndarray::ArrayD::zeros(shape.clone());
        for (row, weights) in map.rows.iter().enumerate() {
            for (column, weight) in weights {
                if let Some(cell) = matrix.get_mut([row, *column].as_slice()) {
                    *cell += *weight;
                }
            }
        }
        Ok(Array::f32(matrix))
    })
}

/// Returns ONNX's map of an axis of `input` elements.
pub(super) fn onnx_map(filter: &Filter, axis: &AxisResize, input: i64) -> Result<AxisMap> {
    let (Some(output), Some(scale)) = (axis.output.known(), axis.scale) else {
        return Err(Error::unsupported("a size known only at run time"));
    };
    if output > limits::RESIZED {
        return Err(Error::limit(format!("an axis is resized to {output} (at most {})", limits::RESIZED)));
    }
    let listed = radius(filter, scale).saturating_mul(2).saturating_mul(output);
    if listed > limits::RESIZED_WEIGHTS {
        return Err(Error::limit(format!(
            "an axis is resized to {output} with {listed} weights (at most {})",
            limits::RESIZED_WEIGHTS
        )));
    }
    let count = usize::try_from(input)?;
    let mut map = AxisMap { input: count, rows: Vec::new(), outside: Vec::new() };
    for x in 0..output {
        let coordinate = input_coordinate(filter.transform, axis, x, input, output, scale)?;
        let last: f32 = (input - 1).as_();
        let outside = filter.transform == Transform::TfCropAndResize && !(0.0..=last).contains(&coordinate);
        map.outside.push(outside);
        map.rows.push(if outside { Vec::new() } else { weights(filter, coordinate, scale, input)? });
    }
    Ok(map)
}

/// Returns the input coordinate of the output element `x`.
fn input_coordinate(
    transform: Transform,
    axis: &AxisResize,
    x: i64,
    input: i64,
    output: i64,
    scale: f32,
) -> Result<f32> {
    let (x, length_original, length_resized): (f32, f32, f32) = (x.as_(), input.as_(), output.as_());
    let half_pixel = (x + 0.5) / scale - 0.5;
    let coordinate = match transform {
        Transform::HalfPixel => half_pixel,
        Transform::PytorchHalfPixel if output > 1 => half_pixel,
        Transform::PytorchHalfPixel => 0.0,
        Transform::HalfPixelSymmetric => {
            let adjustment = length_resized / (scale * length_original);
            if input % 2 == 1 && (adjustment - 1.0).abs() > f32::EPSILON {
                disagree(transform)?;
            }
            length_original / 2.0 * (1.0 - adjustment) + half_pixel
        }
        Transform::Asymmetric => x / scale,
        Transform::TfHalfPixelForNn => (x + 0.5) / scale,
        Transform::AlignCorners if output == 1 => 0.0,
        Transform::AlignCorners => x * (length_original - 1.0) / (length_resized - 1.0),
        Transform::TfCropAndResize => {
            let (start, end) = axis.roi;
            if output > 1 {
                start * (length_original - 1.0)
                    + (x * (end - start) * (length_original - 1.0)) / (length_resized - 1.0)
            } else {
                0.5 * (start + end) * (length_original - 1.0)
            }
        }
    };
    // onnxruntime ignores the region of an axis whose size does not change.
    if transform == Transform::TfCropAndResize && scale == 1.0 && axis.roi != (0.0, 1.0) {
        disagree(transform)?;
    }
    // The reference divides by the unrounded output length, onnxruntime by the rounded one.
    if matches!(transform, Transform::AlignCorners | Transform::TfCropAndResize) {
        let exact = f64::from(scale) * f64::from(length_original);
        if (exact - f64::from(length_resized)).abs() > SAME_SIZE {
            disagree(transform)?;
        }
    }
    Ok(coordinate)
}

fn disagree(transform: Transform) -> Result<()> {
    Err(Error::unsupported(format!(
        "{transform:?} with these sizes: onnxruntime and the specification's reference disagree"
    ))
    .help("export the model with sizes, or with a scale that gives an integer size"))
}

/// Returns the factor of distances: antialias widens the filter of an axis that shrinks.
fn distance_factor(filter: &Filter, scale: f32) -> f64 {
    if filter.antialias { f64::from(scale.min(1.0)) } else { 1.0 }
}

/// Returns the number of elements on each side of a coordinate that may have a weight.
pub(super) fn radius(filter: &Filter, scale: f32) -> i64 {
    let reach = match filter.mode {
        Mode::Nearest(_) => return 1,
        Mode::Linear => 1.0,
        Mode::Cubic => 2.0,
    };
    (reach / distance_factor(filter, scale)).ceil().as_()
}

/// Returns the weights of the elements around a coordinate.
fn weights(filter: &Filter, coordinate: f32, scale: f32, input: i64) -> Result<Row> {
    let floor = coordinate.floor();
    let ratio = f64::from(coordinate - floor);
    let first: i64 = floor.as_();
    let factor = distance_factor(filter, scale);
    let a = f64::from(filter.cubic_coeff_a);
    let kernel: &dyn Fn(f64) -> f64 = match filter.mode {
        Mode::Nearest(nearest) => {
            let at = |coordinate| nearest_index(nearest, coordinate, scale).clamp(0, input - 1);
            // Other coordinates take few operations, and are rounded identically everywhere.
            let long = matches!(filter.transform, Transform::TfCropAndResize | Transform::HalfPixelSymmetric);
            // onnxruntime treats coordinates slightly below a tie as a tie in round_prefer_ceil.
            let near = nearest == Nearest::RoundPreferCeil && ratio != 0.5;
            if (long || near) && at(coordinate - ROUNDING) != at(coordinate + ROUNDING) {
                unsupported!("a nearest neighbour depends on the rounding of a coordinate");
            }
            return Ok(vec![(usize::try_from(at(coordinate))?, 1.0)]);
        }
        Mode::Linear => &|x: f64| (1.0 - x.abs()).max(0.0),
        Mode::Cubic => &move |x: f64| cubic(x.abs(), a),
    };
    let radius = radius(filter, scale);
    if radius > input.saturating_mul(4).max(64) {
        unsupported!("a filter of radius {radius} over an axis of size {input}");
    }
    let mut taps: Vec<(i64, f64)> = Vec::new();
    for step in 1 - radius..=radius {
        let distance: f64 = step.as_();
        let weight = kernel((distance - ratio) * factor);
        let outside = !(0..input).contains(&(first + step));
        if weight != 0.0 && !(outside && filter.exclude_outside) {
            taps.push(((first + step).clamp(0, input - 1), weight));
        }
    }
    let sum: f64 = taps.iter().map(|(_, weight)| weight).sum();
    let mut row = Row::new();
    for (at, weight) in taps {
        let at = usize::try_from(at)?;
        let weight: f32 = (weight / sum).as_();
        match row.last_mut() {
            Some((last, total)) if *last == at => *total += weight,
            _ => row.push((at, weight)),
        }
    }
    Ok(row)
}

/// Returns the index of the nearest neighbour of a coordinate.
fn nearest_index(nearest: Nearest, coordinate: f32, scale: f32) -> i64 {
    let nearest = match nearest {
        Nearest::RoundPreferFloor if coordinate - coordinate.floor() == 0.5 => coordinate.floor(),
        Nearest::RoundPreferFloor => coordinate.round(),
        Nearest::RoundPreferCeil => (coordinate + 0.5).floor(),
        Nearest::Floor => coordinate.floor(),
        Nearest::Ceil => coordinate.ceil(),
        Nearest::Simple if scale < 1.0 => coordinate.ceil(),
        Nearest::Simple => coordinate.trunc(),
    };
    nearest.as_()
}

/// Returns the cubic convolution kernel at distance `x`.
fn cubic(x: f64, a: f64) -> f64 {
    if x <= 1.0 {
        ((a + 2.0) * x - (a + 3.0)) * x * x + 1.0
    } else if x < 2.0 {
        ((x - 5.0) * x + 8.0) * x * a - 4.0 * a
    } else {
        0.0
    }
}

/// The params of Interp that choose its weights.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct InterpMode {
    pub resize_type: i32,
    pub align_corner: i32,
}

impl InterpMode {
    /// Returns the size of the shortest axis of which Interp reads nothing else.
    pub fn least_size(self) -> i64 {
        match self.resize_type {
            1 => 1,
            2 => 2,
            _ => 4,
        }
    }
}

/// The modes of Interp, the fastest first.
pub(super) const INTERP_MODES: [InterpMode; 5] = [
    InterpMode { resize_type: 1, align_corner: 0 },
    InterpMode { resize_type: 2, align_corner: 0 },
    InterpMode { resize_type: 2, align_corner: 1 },
    InterpMode { resize_type: 3, align_corner: 0 },
    InterpMode { resize_type: 3, align_corner: 1 },
];

/// Returns the map of Interp (`interp.cpp`), or `None` if Interp reads beyond the axis or the axis is too
/// long.
pub(super) fn interp_map(mode: InterpMode, input: i64, output: i64) -> Option<AxisMap> {
    if input < mode.least_size() || output > limits::RESIZED || (mode.align_corner == 1 && output == 1) {
        return None;
    }
    let count = usize::try_from(input).ok()?;
    let mut map = AxisMap { input: count, rows: Vec::new(), outside: Vec::new() };
    for x in 0..output {
        let row = if mode.resize_type == 1 {
            let (input_f, output_f, x): (f32, f32, f32) = (input.as_(), output.as_(), x.as_());
            let index: i64 = (x * (input_f / output_f)).as_();
            vec![(index.min(input - 1), 1.0)]
        } else {
            interpolated(mode, input, output, x)
        };
        let elements = row.into_iter().map(|(at, weight)| Some((usize::try_from(at).ok()?, weight)));
        map.rows.push(elements.collect::<Option<_>>()?);
        map.outside.push(false);
    }
    Some(map)
}

/// Returns the weights of bilinear and bicubic Interp: elements beyond an end are clamped to it.
fn interpolated(mode: InterpMode, input: i64, output: i64, x: i64) -> Vec<(i64, f32)> {
    let (w, outw, dx): (f64, f64, f64) = (input.as_(), output.as_(), x.as_());
    let coordinate: f32 = if mode.align_corner == 1 {
        (dx * ((w - 1.0) / (outw - 1.0))).as_()
    } else {
        ((dx + 0.5) * (w / outw) - 0.5).as_()
    };
    let floor = coordinate.floor();
    let (first, fx): (i64, f64) = (floor.as_(), f64::from(coordinate - floor));
    // Bicubic has the coefficient of PyTorch.
    let weight = |step: i64| -> f32 {
        let step: f64 = step.as_();
        let distance = (step - fx).abs();
        if mode.resize_type == 2 { (1.0 - distance).max(0.0).as_() } else { cubic(distance, -0.75).as_() }
    };
    let steps = if mode.resize_type == 2 { 0..=1 } else { -1..=2 };
    steps.map(|step| ((first + step).clamp(0, input - 1), weight(step))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tensor::Dim;

    fn filter(mode: Mode, transform: Transform) -> Filter {
        Filter { mode, transform, cubic_coeff_a: -0.75, exclude_outside: false, antialias: false }
    }

    fn resized(filter: &Filter, input: i64, output: i64) -> Result<AxisMap> {
        let scale: f32 = <i64 as AsPrimitive<f32>>::as_(output) / <i64 as AsPrimitive<f32>>::as_(input);
        let axis = AxisResize { axis: 0, output: Dim::Known(output), scale: Some(scale), roi: (0.0, 1.0) };
        onnx_map(filter, &axis, input)
    }

    #[test]
    fn antialias_over_long_axis_exceeds_the_limit() {
        let smooth = |mode| Filter { antialias: true, ..filter(mode, Transform::HalfPixel) };
        assert_eq!(resized(&smooth(Mode::Linear), 64, 16).unwrap().rows.len(), 16);
        for mode in [Mode::Linear, Mode::Cubic] {
            let error = resized(&smooth(mode), 1 << 24, 3).unwrap_err();
            assert_eq!(error.kind(), crate::error::ErrorKind::Limit);
        }
    }

    #[test]
    fn interp_maps_match_onnx() {
        let floor = Mode::Nearest(Nearest::Floor);
        let prefer_floor = Mode::Nearest(Nearest::RoundPreferFloor);
        let [nearest, linear, corners, cubic, _] = INTERP_MODES;
        for (mode, transform, input, output, interp, same) in [
            (floor, Transform::Asymmetric, 7, 21, nearest, true),
            (prefer_floor, Transform::HalfPixel, 8, 16, nearest, true),
            (prefer_floor, Transform::Asymmetric, 7, 21, nearest, false),
            (Mode::Linear, Transform::HalfPixel, 5, 12, linear, true),
            (Mode::Linear, Transform::PytorchHalfPixel, 12, 5, linear, true),
            (Mode::Linear, Transform::Asymmetric, 5, 10, linear, false),
            (Mode::Linear, Transform::AlignCorners, 5, 12, corners, true),
            (Mode::Cubic, Transform::HalfPixel, 6, 17, cubic, true),
            (Mode::Cubic, Transform::Asymmetric, 6, 12, cubic, false),
        ] {
            let map = interp_map(interp, input, output).unwrap();
            assert_eq!(
                resized(&filter(mode, transform), input, output).unwrap().same(&map),
                same,
                "{mode:?} {transform:?}"
            );
        }
    }

    #[test]
    fn nearest_modes_break_ties() {
        for (nearest, coordinate, at) in [
            (Nearest::RoundPreferFloor, 0.5, 0),
            (Nearest::RoundPreferFloor, 1.5, 1),
            (Nearest::RoundPreferCeil, 0.5, 1),
            (Nearest::Floor, -0.25, -1),
            (Nearest::Ceil, 0.25, 1),
        ] {
            assert_eq!(nearest_index(nearest, coordinate, 2.0), at, "{nearest:?} {coordinate}");
        }
        assert_eq!(nearest_index(Nearest::Simple, 1.25, 0.5), 2);
        assert_eq!(nearest_index(Nearest::Simple, 1.25, 2.0), 1);
    }
}
