//! Interpolation to a size that the layer is told, or reads from other blobs.

use super::Nd;
use crate::error::Error;
use crate::ncnn::layer::Interp;
use crate::tensor::{Dim, Shape};

impl<'l> Nd<'l> {
    /// Returns the value, of two or three axes, interpolated to a shape with the same outermost size.
    pub fn interp(self, layer: Interp, shape: impl Into<Shape>) -> Nd<'l> {
        let shape = shape.into();
        self.map_blob(shape.clone(), |lower| {
            let x = self.in_form(&self.shape())?;
            let (mut layer, mut bottoms) = (layer, vec![x]);
            let (height, width) = match &*shape {
                [_, width] => (&Dim::ONE, width),
                [_, height, width] => (height, width),
                _ => return Err(Error::internal("an interpolation over more than two axes")),
            };
            if let (Some(height), Some(width)) = (height.known(), width.known()) {
                (layer.output_height, layer.output_width) = (i32::try_from(height)?, i32::try_from(width)?);
            } else if let Some(other) = lower.plane(height, width) {
                bottoms.push(other);
                layer.dynamic_target_size = 1;
                // The second bottom determines the size. With a param other than 0, nearest divides by the
                // size (`interp.cpp`, forward).
                (layer.output_height, layer.output_width) = (1, 1);
            } else {
                let sizes = [height.clone(), width.clone()];
                let found = lower.state().sizes_by_expression(x, &sizes);
                (layer.size_expr, bottoms) = found.ok_or_else(|| {
                    let [height, width] = &sizes;
                    Error::unsupported(format!(
                        "interpolation to {height} x {width}: no blobs have these sizes"
                    ))
                })?;
                return lower.emit_newer(layer, &bottoms, &shape);
            }
            lower.emit(layer, &bottoms, &shape)
        })
    }
}
