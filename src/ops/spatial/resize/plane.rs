//! Interp along an axis, or along the innermost two.

use super::axis::InterpMode;
use super::node::AxisResize;
use crate::ncnn::layer::Interp;
use crate::ops::prelude::*;

/// The first release whose Interp does not read beyond axes that are shorter than its filter (`interp.cpp`).
const INTERP_STAYS_WITHIN: u32 = 20_261_020;

/// Returns whether axes `a` and `b` are the innermost two, except for axes of size 1.
pub(super) fn is_plane(shape: &[Dim], a: usize, b: usize) -> bool {
    let unit = |from: usize, to: usize| shape.iter().take(to).skip(from).all(|size| size.is(1));
    unit(a + 1, b) && unit(b + 1, shape.len())
}

/// Returns the outer axes, the resized ones, and the product of the axes after a single one, as the width.
fn plane_of(shape: &[Dim], axes: &[AxisResize]) -> Vec<Dim> {
    let [first, last] = [axes.first(), axes.last()].map(|axis| axis.map_or(0, |axis| axis.axis));
    let outer = Dim::product(shape.iter().take(first));
    let inner = Dim::product(shape.iter().skip(last + 1));
    let resized = axes.iter().filter_map(|axis| shape.get(axis.axis)).cloned();
    let plane = std::iter::once(outer).chain(resized);
    plane.chain(Some(inner).filter(|inner| !inner.is(1))).collect()
}

/// Returns whether the known sizes that Interp reads are as large as it needs.
pub(super) fn is_long(x: Nd, axes: &[AxisResize], mode: InterpMode) -> bool {
    let plane = plane_of(&x.shape(), axes);
    plane.iter().skip(1).filter_map(Dim::known).all(|size| size >= mode.least_size())
}

/// Resizes an axis, or the innermost two, by Interp, which computes the sizes from scales, or is told them.
pub(super) fn interpolate<'l>(
    lower: &'l Lower,
    x: Nd<'l>,
    axes: &[AxisResize],
    mode: InterpMode,
    scales: Option<Vec<f32>>,
) -> Result<Nd<'l>> {
    let mut shape = x.shape().to_vec();
    let plane = plane_of(&shape, axes);
    for size in plane.iter().skip(1).filter(|_| lower.release() < INTERP_STAYS_WITHIN) {
        lower.require(SizeCondition::at_least(size, mode.least_size()))?;
    }
    axes.iter().for_each(|axis| shape.put(axis.axis, axis.output.clone()));
    let (x, top) = (x.reshape(plane), plane_of(&shape, axes));
    let mut layer =
        Interp { resize_type: mode.resize_type, align_corner: mode.align_corner, ..Interp::default() };
    let Some(scales) = scales else { return Ok(x.interp(layer, top).reshape(shape)) };
    [layer.height_scale, layer.width_scale] = match (scales.as_slice(), top.len()) {
        ([width], 2) => [1.0, *width],
        ([height], _) => [*height, 1.0],
        ([height, width], _) => [*height, *width],
        _ => return Err(refuse()),
    };
    Ok(x.layer(layer, top).reshape(shape))
}

pub(super) fn refuse() -> Error {
    Error::unsupported("no layer computes this interpolation of a size known only at run time")
}
