//! Interp along an axis, or along the innermost two.

use super::axis::InterpMode;
use super::node::AxisResize;
use crate::ncnn::layer::Interp;
use crate::ops::prelude::*;

/// The first release whose Interp does not read beyond axes that are shorter than its filter (`interp.cpp`).
const INTERP_STAYS_WITHIN: u32 = 20_261_020;

/// Returns whether axes `a` and `b` are the innermost two, apart from axes of size 1.
pub(super) fn is_plane(shape: &[Dim], a: usize, b: usize) -> bool {
    let unit = |from: usize, to: usize| shape.iter().take(to).skip(from).all(|size| size.is(1));
    unit(a + 1, b) && unit(b + 1, shape.len())
}

/// The axes that Interp resizes, and those around them.
pub(super) struct Plane {
    /// The outer axes, and the resized ones with what follows a single one.
    pub form: Vec<Dim>,
    /// The form of the result.
    top: Vec<Dim>,
}

impl Plane {
    pub fn of(shape: &[Dim], axes: &[AxisResize]) -> Result<Plane> {
        let (first, last) =
            (axes.first().map_or(0, |axis| axis.axis), axes.last().map_or(0, |axis| axis.axis));
        let outer = Dim::product(shape.iter().take(first));
        // What follows a single axis keeps its size, as the width.
        let inner = Dim::product(shape.iter().skip(last + 1));
        let (mut form, mut top) = (vec![outer.clone()], vec![outer]);
        for axis in axes {
            form.push(shape.at(axis.axis)?.clone());
            top.push(axis.output.clone());
        }
        if !inner.is(1) {
            form.push(inner.clone());
            top.push(inner);
        }
        Ok(Plane { form, top })
    }

    /// Returns the sizes of the axes that Interp reads.
    fn sizes(&self) -> impl Iterator<Item = &Dim> {
        self.form.iter().skip(1)
    }

    /// Returns whether the known sizes are those that Interp needs.
    pub fn is_long(&self, mode: InterpMode) -> bool {
        self.sizes().filter_map(Dim::known).all(|size| size >= mode.least_size())
    }

    /// Emits Interp, which computes the size of its top from these scales, or reads it.
    pub fn interpolate(
        &self,
        lower: &Lower,
        x: BlobId,
        mode: InterpMode,
        scales: Option<Vec<f32>>,
    ) -> Result<BlobId> {
        for size in self.sizes().filter(|_| lower.release() < INTERP_STAYS_WITHIN) {
            lower.require(SizeCondition::at_least(size, mode.least_size()))?;
        }
        let (height, width) = match self.top.as_slice() {
            [_, width] => (Dim::ONE, width.clone()),
            [_, height, width] => (height.clone(), width.clone()),
            _ => return Err(refuse()),
        };
        let mut bottoms = vec![lower.reshape(x, &self.form)?];
        let mut layer =
            Interp { resize_type: mode.resize_type, align_corner: mode.align_corner, ..Interp::default() };
        if let Some(scales) = scales {
            [layer.height_scale, layer.width_scale] = match (scales.as_slice(), self.top.len()) {
                ([width], 2) => [1.0, *width],
                ([height], _) => [*height, 1.0],
                ([height, width], _) => [*height, *width],
                _ => return Err(refuse()),
            };
        } else if let (Some(height), Some(width)) = (height.known(), width.known()) {
            (layer.output_height, layer.output_width) = (i32::try_from(height)?, i32::try_from(width)?);
        } else if let Some(other) = lower.plane(&height, &width) {
            bottoms.push(other);
            layer.dynamic_target_size = 1;
            // The second bottom determines the size. With a param other than 0, nearest divides by the
            // size (`interp.cpp`, forward).
            (layer.output_height, layer.output_width) = (1, 1);
        } else {
            let first = *bottoms.at(0)?;
            (layer.size_expr, bottoms) =
                lower.plane_by_expression(first, [&height, &width]).ok_or_else(refuse)?;
            return lower.emit_newer(layer, &bottoms, &self.top);
        }
        lower.emit(layer, &bottoms, &self.top)
    }
}

pub(super) fn refuse() -> Error {
    Error::unsupported("no layer computes this interpolation of a size known only at run time")
}
