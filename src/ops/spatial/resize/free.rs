//! Resize of free sizes: Interp, if it is right for every size.

use num_traits::AsPrimitive;

use super::axis::{INTERP_MODES, InterpMode, interp_map, onnx_map};
use super::lower::is_plane;
use super::shrink::shrink;
use super::{AxisResize, Resize, Transform};
use crate::error::{At, Error, Result};
use crate::lower::Lower;
use crate::ncnn::layer::Interp;
use crate::ops::shape::resized;
use crate::tensor::{Dim, SizeCondition};

/// The sizes for which weights are compared.
const TRIED_SIZES: [i64; 6] = [4, 5, 7, 32, 63, 250];
/// The largest size for which the rounding of coordinates is checked.
const MAX_TRIED: i64 = 1 << 14;
/// The first release whose Interp does not read beyond axes that are shorter than its filter (`interp.cpp`).
const INTERP_STAYS_WITHIN: u32 = 20_261_020;
/// `Interp::resize_type`.
const NEAREST: i32 = 1;

/// The relation of output size to input size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Growth {
    Times(i64),
    /// `2 * n` or `2 * n - 1`.
    Doubled,
    /// A known size.
    To(i64),
    Any,
}

impl Growth {
    /// Returns output sizes to check for an input size.
    fn outputs(self, input: i64) -> Vec<i64> {
        match self {
            Growth::Times(factor) => vec![input.saturating_mul(factor)],
            Growth::Doubled => vec![2 * input - 1, 2 * input],
            Growth::To(output) => vec![output],
            Growth::Any => vec![input * 2, input * 2 - 1, input * 3 + 1, input / 2 + 2, input + 1],
        }
    }
}

/// Returns the relation of output to input size of an axis.
fn growth(input: &Dim, axis: &AxisResize) -> Result<Growth> {
    if let Some(scale) = axis.scale.filter(|scale| scale.fract() == 0.0 && *scale >= 1.0) {
        return Ok(Growth::Times(scale.as_()));
    }
    if let Some(output) = axis.output.known() {
        return Ok(Growth::To(output));
    }
    let one = Dim::Known(1);
    let two = Dim::Known(2);
    let halves =
        [axis.output.add(&one)?.floor_div(&two)?, axis.output.sub(&one)?.floor_div(&two)?.add(&one)?];
    Ok(if halves.contains(input) { Growth::Doubled } else { Growth::Any })
}

/// Lowers a Resize of free sizes.
pub(super) fn lower_free(
    lower: &mut Lower,
    resize: &Resize,
    shape: &[Dim],
    changed: &[AxisResize],
) -> Result<()> {
    let refuse = || {
        Error::unsupported("no layer computes this interpolation of a size known only at run time")
            .help("fix the size with --input-shape")
    };
    // Every interpolation of a single element is that element.
    let one = |axis: &AxisResize| shape.get(axis.axis).is_some_and(|size| size.is(1));
    if resize.filter.transform != Transform::TfCropAndResize && changed.iter().all(one) {
        let blob = lower.blob(0)?;
        let to = lower.output_shape(0)?.to_vec();
        let top = lower.broadcast_to(blob, shape, &to)?;
        return lower.set(0, top);
    }
    if let Some(shrunk) = shrink(lower, resize, shape, changed)? {
        return lower.set(0, shrunk);
    }
    let (firsts, changed): (Vec<AxisResize>, Vec<AxisResize>) =
        changed.iter().cloned().partition(|axis| takes_first(resize, axis));
    let (mut x, mut shape) = (lower.blob(0)?, shape.to_vec());
    for axis in firsts {
        let (alone, place) = lower.alone(x, &shape, axis.axis)?;
        x = lower.crop(alone, place, 0, Some(1), &axis.output)?;
        shape = resized(&shape, axis.axis, axis.output);
    }
    let (height, width) = match changed.as_slice() {
        [] => return lower.set(0, x),
        [width] if is_plane(&shape, width.axis, width.axis) => (None, width),
        [height, width] if is_plane(&shape, height.axis, width.axis) => (Some(height), width),
        _ => return Err(refuse()),
    };
    let axes: Vec<&AxisResize> = height.into_iter().chain([width]).collect();
    let rules = axes.iter().map(|axis| growth(shape.at(axis.axis)?, axis)).collect::<Result<Vec<_>>>()?;
    let matches = |mode: &InterpMode| {
        rules.iter().zip(&axes).all(|(rule, axis)| interp_matches(resize, axis, *rule, *mode))
    };
    let is_long = |mode: &InterpMode| {
        let mut sizes = axes.iter().filter_map(|axis| shape.get(axis.axis)?.known());
        sizes.all(|size| size >= mode.least_size())
    };
    let mode = INTERP_MODES.into_iter().find(|mode| is_long(mode) && matches(mode)).ok_or_else(refuse)?;
    for axis in axes.iter().filter(|_| lower.release() < INTERP_STAYS_WITHIN) {
        lower.require(SizeCondition::at_least(shape.at(axis.axis)?, mode.least_size()))?;
    }
    for (axis, rule) in axes.iter().zip(&rules) {
        if *rule == Growth::Any
            && !TRIED_SIZES.into_iter().all(|input| maps_match(resize, axis, mode, input, 1))
        {
            lower.require(SizeCondition::at_least(&axis.output, 2))?;
        }
    }
    let first = axes.first().map_or(0, |axis| axis.axis);
    let outer = Dim::product(shape.iter().take(first))?;
    let mut form = vec![outer.clone()];
    let mut top = vec![outer];
    for axis in &axes {
        form.push(shape.at(axis.axis)?.clone());
        top.push(axis.output.clone());
    }
    let mut bottoms = vec![lower.reshape(x, &form)?];
    let mut layer =
        Interp { resize_type: mode.resize_type, align_corner: mode.align_corner, ..Interp::default() };
    let by_scale = rules.iter().all(|rule| matches!(rule, Growth::Times(_)));
    if by_scale {
        layer.height_scale = height.and_then(|axis| axis.scale).unwrap_or(1.0);
        layer.width_scale = width.scale.unwrap_or(1.0);
    } else {
        let height = height.map_or(Dim::Known(1), |axis| axis.output.clone());
        match (height.known(), width.output.known()) {
            (Some(height), Some(width)) => {
                (layer.output_height, layer.output_width) = (i32::try_from(height)?, i32::try_from(width)?);
            }
            _ => {
                bottoms.push(lower.plane(&height, &width.output).ok_or_else(refuse)?);
                layer.dynamic_target_size = 1;
                // The second bottom determines the size. With a param other than 0, nearest divides by the
                // size (`interp.cpp`, forward).
                (layer.output_height, layer.output_width) = (1, 1);
            }
        }
    }
    let y = lower.emit(layer, &bottoms, &top)?;
    lower.set(0, y)
}

/// Returns whether Interp computes the weights of ONNX for every size with this growth.
fn interp_matches(resize: &Resize, axis: &AxisResize, rule: Growth, mode: InterpMode) -> bool {
    if mode.resize_type == NEAREST && !is_nearest_exact(rule) {
        return false;
    }
    let matches = |input, output| maps_match(resize, axis, mode, input, output);
    TRIED_SIZES.into_iter().all(|input| rule.outputs(input).into_iter().all(|output| matches(input, output)))
}

/// Returns the axis with known sizes.
fn with_sizes(axis: &AxisResize, input: i64, output: i64) -> AxisResize {
    let (to, from): (f32, f32) = (output.as_(), input.as_());
    let scale = axis.scale.unwrap_or(to / from);
    AxisResize { output: Dim::Known(output), scale: Some(scale), ..axis.clone() }
}

/// Returns whether Interp computes the weights of ONNX for these sizes.
fn maps_match(resize: &Resize, axis: &AxisResize, mode: InterpMode, input: i64, output: i64) -> bool {
    let map = onnx_map(&resize.filter, &with_sizes(axis, input, output), input);
    matches!((map, interp_map(mode, input, output)), (Ok(map), Some(interp)) if map.same(&interp))
}

/// Returns whether the only element of the result is the first one, for every size of the axis.
fn takes_first(resize: &Resize, axis: &AxisResize) -> bool {
    let is_first = |input: i64| {
        let map = onnx_map(&resize.filter, &with_sizes(axis, input, 1), input);
        map.is_ok_and(|map| map.copied_elements().is_some_and(|elements| elements == [0]))
    };
    axis.output.is(1) && TRIED_SIZES.into_iter().all(is_first)
}

/// Returns whether nearest neighbours do not depend on the rounding of coordinates.
fn is_nearest_exact(rule: Growth) -> bool {
    match rule {
        // Given a scale, Interp multiplies by its reciprocal.
        Growth::Times(factor) => {
            let scale: f32 = factor.as_();
            let step = 1.0 / scale;
            let exact = |x: i64| {
                let x_f: f32 = x.as_();
                let index: i64 = (x_f * step).as_();
                index == x / factor
            };
            (0..MAX_TRIED).all(exact)
        }
        // Coordinates are integers only if they are exact: for twice the size, or at the ends.
        Growth::Doubled => true,
        Growth::To(_) | Growth::Any => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn growth_recognizes_doubled_sizes() {
        let h = Dim::symbol("H");
        let half =
            h.sub(&Dim::Known(1)).unwrap().floor_div(&Dim::Known(2)).unwrap().add(&Dim::Known(1)).unwrap();
        let axis = |output: Dim, scale| AxisResize { axis: 2, output, scale, roi: (0.0, 1.0) };
        assert_eq!(growth(&half, &axis(h.clone(), None)).unwrap(), Growth::Doubled);
        assert_eq!(growth(&h, &axis(h.mul(&Dim::Known(2)).unwrap(), Some(2.0))).unwrap(), Growth::Times(2));
        assert_eq!(growth(&h, &axis(Dim::Known(7), None)).unwrap(), Growth::To(7));
        assert_eq!(growth(&h, &axis(Dim::symbol("P"), None)).unwrap(), Growth::Any);
        assert!(is_nearest_exact(Growth::Times(2)));
    }
}
