//! Resize of free sizes: Interp, if it is right for every size.

use num_traits::AsPrimitive;

use super::axis::{INTERP_MODES, InterpMode, interp_map, onnx_map};
use super::blocks::{Blocks, Lengthened};
use super::node::{AxisResize, Filter, Mode, Resize, Transform};
use super::plane::{interpolate, is_long, is_plane, refuse};
use super::product::{computes_weights, multiply_free};
use super::ratio::Ratio;
use super::shrink::shrink;
use crate::ops::prelude::*;

/// The sizes for which weights are compared.
const TRIED_SIZES: [i64; 6] = [4, 5, 7, 32, 63, 250];
/// The largest size for which the rounding of coordinates is checked.
const MAX_TRIED: i64 = 1 << 14;
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
fn growth(input: &Dim, axis: &AxisResize) -> Growth {
    if let Some(scale) = axis.scale.filter(|scale| scale.fract() == 0.0 && *scale >= 1.0) {
        return Growth::Times(scale.as_());
    }
    if let Some(output) = axis.output.known() {
        return Growth::To(output);
    }
    let one = Dim::ONE;
    let two = Dim::Known(2);
    let halves = [(&axis.output + &one).floor_div(&two), (&axis.output - &one).floor_div(&two) + &one];
    if halves.contains(input) { Growth::Doubled } else { Growth::Any }
}

/// Lowers a Resize of free sizes.
pub(super) fn lower_free(
    lower: &Lower,
    resize: &Resize,
    shape: &[Dim],
    changed: &[AxisResize],
) -> Result<()> {
    // Every interpolation of a single element is that element.
    let one = |axis: &AxisResize| shape.get(axis.axis).is_some_and(|size| size.is(1));
    if resize.filter.transform != Transform::TfCropAndResize && changed.iter().all(one) {
        return lower.give(0, lower.input(0).broadcast(lower.output_shape(0)?));
    }
    let mut changed = changed.to_vec();
    for axis in &mut changed {
        divide_exactly(lower, resize, shape, axis)?;
    }
    if let Some(shrunk) = shrink(lower, resize, &changed)? {
        return lower.give(0, shrunk);
    }
    let (firsts, mut left): (Vec<AxisResize>, Vec<AxisResize>) =
        changed.into_iter().partition(|axis| takes_first(resize, axis));
    let mut x = cut(lower.input(0), &firsts);
    // The innermost two axes at once, each of the others separately.
    while let Some(last) = left.pop() {
        let above = left.pop_if(|above| is_plane(&x.shape(), above.axis, last.axis));
        let axes: Vec<AxisResize> = above.into_iter().chain([last]).collect();
        x = resize_axes(lower, resize, x, &axes)?;
    }
    lower.give(0, x)
}

/// Requires a size to be a multiple of the divisor of its scale, if coordinates depend on how the result is
/// rounded.
fn divide_exactly(lower: &Lower, resize: &Resize, shape: &[Dim], axis: &mut AxisResize) -> Result<()> {
    let depends = matches!(resize.filter.transform, Transform::AlignCorners | Transform::HalfPixelSymmetric);
    if let Some(ratio) = axis.scale.and_then(Ratio::of).filter(|ratio| depends && ratio.from > 1) {
        lower.require(SizeCondition::multiple(shape.at(axis.axis)?, ratio.from))?;
        // It is the quotient of the sizes.
        axis.scale = None;
    }
    Ok(())
}

/// Returns the first elements along axes, as many as their outputs have.
fn cut<'l>(x: Nd<'l>, axes: &[AxisResize]) -> Nd<'l> {
    axes.iter().fold(x, |x, axis| x.first(axis.axis, &axis.output))
}

/// Resizes an axis, or the innermost two.
fn resize_axes<'l>(lower: &'l Lower, resize: &Resize, x: Nd<'l>, axes: &[AxisResize]) -> Result<Nd<'l>> {
    let rules: Vec<Growth> = axes.iter().map(|axis| growth(&x.size(axis.axis), axis)).collect();
    let matches = |mode: &InterpMode| {
        rules.iter().zip(axes).all(|(rule, axis)| interp_matches(resize, axis, *rule, *mode))
    };
    if let Some(mode) = INTERP_MODES.into_iter().find(|mode| is_long(x, axes, *mode) && matches(mode)) {
        for (axis, rule) in axes.iter().zip(&rules) {
            if *rule == Growth::Any
                && !TRIED_SIZES.into_iter().all(|input| maps_match(resize, axis, mode, input, 1))
            {
                lower.require(SizeCondition::at_least(&axis.output, 2))?;
            }
        }
        let by_scale = rules.iter().all(|rule| matches!(rule, Growth::Times(_)));
        let scales = axes.iter().map(|axis| axis.scale.filter(|_| by_scale)).collect::<Option<Vec<_>>>();
        return interpolate(lower, x, axes, mode, scales);
    }
    if lies_between_corners(resize, x, axes) {
        return between_corners(lower, resize, x, axes);
    }
    if let Some(lengthened) = Lengthened::of(lower, resize, axes)? {
        let (longer, longer_axes) = lengthened.lengthen(x, axes);
        if is_long(longer, &longer_axes, lengthened.mode) {
            return Ok(cut(interpolate(lower, longer, &longer_axes, lengthened.mode, None)?, axes));
        }
    }
    match axes {
        [axis] => match Blocks::of(lower, resize, axis)? {
            Some(blocks) => blocks.resize(lower, x, axis),
            None if computes_weights(&resize.filter) => multiply_free(lower, x, axis, &resize.filter),
            None => Err(refuse()),
        },
        [above, last] => {
            let x = resize_axes(lower, resize, x, std::slice::from_ref(above))?;
            resize_axes(lower, resize, x, std::slice::from_ref(last))
        }
        _ => Err(refuse()),
    }
}

/// Returns whether [`between_corners`] is right.
fn lies_between_corners(resize: &Resize, x: Nd, axes: &[AxisResize]) -> bool {
    let is_exact = |axis: &AxisResize| {
        axis.scale.is_none() || matches!(growth(&x.size(axis.axis), axis), Growth::Times(_))
    };
    let filter = resize.filter;
    let is_asymmetric = filter.mode == Mode::Linear && filter.transform == Transform::Asymmetric;
    is_asymmetric && !filter.antialias && axes.iter().all(is_exact)
}

/// Resizes by asymmetric coordinates: with a copy of the last element after it, element `i` of `m` is element
/// `i` of `m + 1` with aligned corners.
fn between_corners<'l>(lower: &'l Lower, resize: &Resize, x: Nd<'l>, axes: &[AxisResize]) -> Result<Nd<'l>> {
    let x = axes.iter().fold(x, |x, axis| x.join(x.last(axis.axis, 1), axis.axis));
    let longer = axes.iter().map(|axis| AxisResize { output: &axis.output + 1, scale: None, ..axis.clone() });
    let filter = Filter { transform: Transform::AlignCorners, ..resize.filter };
    let resize = Resize { filter, extrapolation_value: 0.0, axes: longer.collect() };
    Ok(cut(resize_axes(lower, &resize, x, &resize.axes)?, axes))
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
        // With a scale, Interp multiplies by its reciprocal.
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
        let half = (&h - 1).floor_div(2) + 1;
        let axis = |output: Dim, scale| AxisResize { axis: 2, output, scale, roi: (0.0, 1.0) };
        assert_eq!(growth(&half, &axis(h.clone(), None)), Growth::Doubled);
        assert_eq!(growth(&h, &axis(&h * 2, Some(2.0))), Growth::Times(2));
        assert_eq!(growth(&h, &axis(Dim::Known(7), None)), Growth::To(7));
        assert_eq!(growth(&h, &axis(Dim::symbol("P"), None)), Growth::Any);
        assert!(is_nearest_exact(Growth::Times(2)));
    }
}
