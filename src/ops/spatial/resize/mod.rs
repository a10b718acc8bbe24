//! Resize and Upsample.
//!
//! Interpolation is separable: each axis is an independent linear map. Coordinates are computed in float32
//! with the order of operations of onnxruntime, since nearest neighbours depend on their rounding.
//! Spec: <https://onnx.ai/onnx/operators/onnx__Resize.html>, `onnx__Upsample.html`.

mod axis;
mod blocks;
mod fold;
mod free;
mod lower;
mod node;
mod plane;
mod product;
mod ratio;
mod shrink;

use self::node::{AxisResize, read_resize};
use crate::ops::prelude::*;

pub(in crate::ops) const OPS: &[Row] = &[
    resize("Resize")
        .lowers_to(
            "Interp, between Padding and Crop for free sizes by fractions; Slice, Concat and Tile for other \
            nearest neighbours; otherwise matrix products for each axis, whose weights are computed from free \
            sizes for antialias with exclude_outside",
        )
        .limits(
            "modes on which onnxruntime and the specification differ; scales and regions computed at run \
            time; nearest neighbours of free sizes between aligned corners; sizes computed at run time with an \
            aspect ratio policy if several scales give the declared shape",
        )
        .differs("infinities next to a sample, whose weight may be 0"),
    resize("Upsample").lowers_to("the layers of Resize").limits("as for Resize"),
];

const fn resize(name: &'static str) -> Row {
    Row::new(name, Access::Any, infer_resize)
        .fold(fold::fold_resize)
        .work(|call| fold::is_defined(call).then_some(0))
        .batched(|call, index| index == 0 && keeps_batch(call))
        .lower(lower::lower_resize)
}

/// Returns whether the first axis is unchanged. A list of some axes need not have it first.
fn keeps_batch(call: &Call) -> bool {
    let (Ok(resize), Ok([batch, ..])) = (read_resize(call), call.shape(0)) else { return false };
    let keeps = |axis: &AxisResize| axis.axis != 0 || resize.keeps(batch, axis);
    call.optional_ints("axes").is_ok_and(|axes| axes.is_none()) && resize.axes.iter().all(keeps)
}

fn infer_resize(call: &Call) -> Result<Vec<Fact>> {
    let resize = read_resize(call)?;
    let mut shape = call.shape(0)?.to_vec();
    for axis in &resize.axes {
        if axis.output.known().is_some_and(|size| size < 1) {
            invalid!("axis {} is resized to {}", axis.axis, axis.output);
        }
        shape.put(axis.axis, axis.output.clone());
    }
    Ok(vec![Fact::new(call.dtype(0)?, shape)])
}
