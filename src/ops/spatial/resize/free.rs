//! Resize of sizes that are not fixed: Interp where it is right for whatever size.

use num_traits::AsPrimitive;

use super::axis::{INTERP_MODES, InterpMode, interp_map, onnx_map};
use super::lower::is_plane;
use super::shrink::shrink;
use super::{AxisResize, Resize, Transform};
use crate::error::{At, Error, Result};
use crate::lower::Lower;
use crate::ncnn::layer::Interp;
use crate::tensor::Dim;

/// Sizes for which a rule is tried.
const TRIED_SIZES: [i64; 6] = [4, 5, 7, 32, 63, 250];
/// Largest size for which the rounding of coordinates is tried.
const MAX_TRIED: i64 = 1 << 14;
/// `Interp::resize_type`.
const NEAREST: i32 = 1;

/// How the size of the result follows from that of the input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Growth {
    Times(i64),
    /// Twice, or one less.
    Doubled,
    Any,
}

impl Growth {
    /// Sizes of the result that an input of this size may have.
    fn outputs(self, input: i64) -> Vec<i64> {
        match self {
            Growth::Times(factor) => vec![input.saturating_mul(factor)],
            Growth::Doubled => vec![2 * input - 1, 2 * input],
            Growth::Any => vec![input * 2, input * 2 - 1, input * 3 + 1, input / 2 + 2, input + 1],
        }
    }
}

fn growth(input: &Dim, axis: &AxisResize) -> Result<Growth> {
    if let Some(scale) = axis.scale.filter(|scale| scale.fract() == 0.0 && *scale >= 1.0) {
        return Ok(Growth::Times(scale.as_()));
    }
    let one = Dim::Known(1);
    let two = Dim::Known(2);
    let halves =
        [axis.output.add(&one)?.floor_div(&two)?, axis.output.sub(&one)?.floor_div(&two)?.add(&one)?];
    Ok(if halves.contains(input) { Growth::Doubled } else { Growth::Any })
}

/// Sizes that are not fixed.
pub(super) fn lower_free(
    lower: &mut Lower,
    resize: &Resize,
    shape: &[Dim],
    changed: &[AxisResize],
) -> Result<()> {
    let refuse = || {
        Error::unsupported("this interpolation of a size that is not fixed cannot be expressed")
            .help("give sizes with --input-shape")
    };
    // Every place between elements of one is that one.
    let one = |axis: &AxisResize| shape.get(axis.axis).is_some_and(|size| size.is(1));
    if resize.filter.transform != Transform::TfCropAndResize && changed.iter().all(one) {
        let blob = lower.blob(0)?;
        let to = lower.output_shape(0)?.to_vec();
        let spread = lower.broadcast_to(blob, shape, &to)?;
        return lower.set(0, spread);
    }
    if let Some(shrunk) = shrink(lower, resize, shape, changed)? {
        return lower.set(0, shrunk);
    }
    let (height, width) = match changed {
        [width] if is_plane(shape, width.axis, width.axis) => (None, width),
        [height, width] if is_plane(shape, height.axis, width.axis) => (Some(height), width),
        _ => return Err(refuse()),
    };
    let axes: Vec<&AxisResize> = height.into_iter().chain([width]).collect();
    let mut rules = Vec::with_capacity(axes.len());
    for axis in &axes {
        rules.push(growth(shape.at(axis.axis)?, axis)?);
    }
    let alike =
        |mode: &InterpMode| rules.iter().zip(&axes).all(|(rule, axis)| is_alike(resize, axis, *rule, *mode));
    let mode = INTERP_MODES.into_iter().find(alike).ok_or_else(refuse)?;
    let first = axes.first().map_or(0, |axis| axis.axis);
    let outer = Dim::product(shape.iter().take(first))?;
    let mut form = vec![outer.clone()];
    let mut top = vec![outer];
    for axis in &axes {
        form.push(shape.at(axis.axis)?.clone());
        top.push(axis.output.clone());
    }
    let mut bottoms = vec![lower.blob_as(0, &form)?];
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
                // The size is that of the second bottom; a size that is not 0 here makes nearest divide by it (`interp.cpp`, forward).
                (layer.output_height, layer.output_width) = (1, 1);
            }
        }
    }
    let y = lower.emit(layer, &bottoms, &top)?;
    lower.set(0, y)
}

/// Whether Interp is right for any size that grows by this rule.
fn is_alike(resize: &Resize, axis: &AxisResize, rule: Growth, mode: InterpMode) -> bool {
    if mode.resize_type == NEAREST && !is_nearest_exact(rule) {
        return false;
    }
    let alike = |input: i64, output: i64| {
        let (to, from): (f32, f32) = (output.as_(), input.as_());
        let scale = axis.scale.unwrap_or(to / from);
        let tried = AxisResize { output: Dim::Known(output), scale: Some(scale), ..axis.clone() };
        let map = onnx_map(&resize.filter, &tried, input);
        let interp = interp_map(mode, input, output);
        matches!((map, interp), (Ok(map), Some(interp)) if map.same(&interp))
    };
    TRIED_SIZES.into_iter().all(|input| rule.outputs(input).into_iter().all(|output| alike(input, output)))
}

/// Whether the coordinates of nearest neighbours are the same however they are rounded.
fn is_nearest_exact(rule: Growth) -> bool {
    match rule {
        // By a scale, nearest multiplies with its reciprocal.
        Growth::Times(factor) => {
            let scale: f32 = factor.as_();
            let step = 1.0 / scale;
            let exact = |x: i64| {
                let place: f32 = x.as_();
                let at: i64 = (place * step).as_();
                at == x / factor
            };
            (0..MAX_TRIED).all(exact)
        }
        // A place is a whole number only where that is exact: twice the size, or the ends.
        Growth::Doubled => true,
        Growth::Any => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_that_were_halved_are_doubled() {
        let h = Dim::symbol("H");
        let half =
            h.sub(&Dim::Known(1)).unwrap().floor_div(&Dim::Known(2)).unwrap().add(&Dim::Known(1)).unwrap();
        let axis = |output: Dim, scale| AxisResize { axis: 2, output, scale, roi: (0.0, 1.0) };
        assert_eq!(growth(&half, &axis(h.clone(), None)).unwrap(), Growth::Doubled);
        assert_eq!(growth(&h, &axis(h.mul(&Dim::Known(2)).unwrap(), Some(2.0))).unwrap(), Growth::Times(2));
        assert_eq!(growth(&h, &axis(Dim::Known(7), None)).unwrap(), Growth::Any);
        assert!(is_nearest_exact(Growth::Times(2)));
    }
}
