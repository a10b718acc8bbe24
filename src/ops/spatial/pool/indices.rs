//! The output Indices of MaxPool: the index of the first maximum of each window.
//!
//! For each element of the window, a blob has that element of all windows, and is compared with the maxima.
//! The comparisons run from the last element to the first: each overwrites the index if its element is the
//! maximum.

use super::read_windows;
use super::taps::{Axis, MAX_TAPS, axes, taps};
use crate::ops::prelude::*;
use crate::pass::builder::Term;

pub(super) fn expand_max_pool(x: &Expand) -> Result<bool> {
    let indices = x.node().output(1);
    if !indices.is_some_and(|id| x.graph().read_values().contains(id)) {
        return Ok(false);
    }
    let window = read_windows(x)?;
    let sizes = x.sizes(0)?;
    if sizes.len() > 5 || window.area()? > MAX_TAPS {
        unsupported!("Indices of windows of {} elements over {} spatial axes", window.area()?, window.rank());
    }
    let elements = sizes.iter().fold(1_i64, |n, size| n.saturating_mul(*size));
    if elements > limits::EXPANDED_AXIS {
        unsupported!(
            "Indices of {elements} elements: float32 represents integers up to {} exactly",
            limits::EXPANDED_AXIS
        );
    }
    let Some(counts) = Dim::known_sizes(x.output_shape(0)?.iter().skip(2)) else {
        unsupported!("Indices with sizes known only at run time")
    };
    let axes = axes(&window, sizes.get(2..).unwrap_or_default(), &counts)?;
    let kept = ["auto_pad", "ceil_mode", "dilations", "kernel_shape", "pads", "strides"];
    let attributes = kept.into_iter().filter_map(|name| Some((name, x.node().attributes.get(name)?.clone())));
    // Channels are independent, so a batch is merged into them.
    let channels = sizes.iter().take(2).product();
    let form: Vec<i64> = [1, channels].into_iter().chain(axes.iter().map(|axis| axis.size)).collect();
    let merged = x.operand(0).reshape(&form);
    let maxima = x.make.op("MaxPool", [merged], attributes);
    let plane: i64 = axes.iter().map(|axis| axis.size).product();
    let starts = ramp(x, axes.len(), 1, channels, |channel| channel.saturating_mul(plane))?;
    let indices = plane_indices(x, &axes, merged, maxima)? + starts;
    let mut shape: Vec<i64> = sizes.iter().take(2).copied().collect();
    shape.extend(axes.iter().map(|axis| axis.count));
    let indices = indices.reshape(&shape).cast(DType::I64);
    x.output(0, maxima.reshape(&shape));
    x.output(1, indices);
    Ok(true)
}

/// Returns the index of each maximum within its plane.
fn plane_indices<'x>(x: &'x Expand, axes: &[Axis], data: Expr<'x>, maxima: Expr<'x>) -> Result<Expr<'x>> {
    let (data, maxima) = (data.cast(DType::F32), maxima.cast(DType::F32));
    let strides = index_strides(axes, x.flag("storage_order")?);
    let mut index: Option<Expr> = None;
    for (position, elements) in taps(data, axes, x.make.number(f32::MIN, DType::F32)).rev() {
        let steps = position.iter().zip(axes).map(|(n, axis)| n * axis.dilation);
        let offset: i64 = steps.zip(&strides).map(|(step, stride)| stride.saturating_mul(step)).sum();
        let Some(later) = index else {
            // If no other element is the maximum, the last one is.
            index = Some(offset.with_type_of(maxima));
            continue;
        };
        let is_largest = elements.equal(maxima).cast(DType::F32);
        index = Some(later + is_largest * (offset - later));
    }
    let mut index = index.ok_or_else(|| Error::internal("a window has no elements"))?;
    for (i, (axis, stride)) in axes.iter().zip(strides).enumerate() {
        let first = |n: i64| (n * axis.stride - axis.begin).saturating_mul(stride);
        index = index + ramp(x, axes.len(), i + 2, axis.count, first)?;
    }
    Ok(index)
}

/// Returns the distance of neighbours along each axis in the order of the indices.
fn index_strides(axes: &[Axis], column_major: bool) -> Vec<i64> {
    let mut sizes: Vec<i64> = axes.iter().map(|axis| axis.size).collect();
    if !column_major {
        sizes.reverse();
    }
    let next = |stride: &mut i64, size: i64| Some(std::mem::replace(stride, stride.saturating_mul(size)));
    let mut strides: Vec<i64> = sizes.into_iter().scan(1_i64, next).collect();
    if !column_major {
        strides.reverse();
    }
    strides
}

/// Returns the constant `value(0), ..., value(count - 1)` along `axis` of a shape with `spatial` spatial
/// axes.
fn ramp<'x>(
    x: &'x Expand,
    spatial: usize,
    axis: usize,
    count: i64,
    value: impl Fn(i64) -> i64,
) -> Result<Expr<'x>> {
    let mut shape = vec![1; spatial + 2];
    shape.put(axis, usize::try_from(count)?);
    let values = ndarray::ArrayD::from_shape_vec(shape, (0..count).map(value).collect())?;
    Ok(x.make.cast_literal(&Array::i64(values), DType::F32))
}
