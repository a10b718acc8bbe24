//! The output Indices of MaxPool: the index of the first maximum of each window.
//!
//! For each element of the window, a blob holds that element of all windows, and is compared with the maxima.
//! The comparisons run from the last element to the first: each overwrites the index if its element is the
//! maximum.

use super::{Kind, Pool, read_windows};
use crate::ops::prelude::*;
use crate::pass::builder::Term;

/// The maximum number of elements of a window: each becomes about ten layers.
const MAX_TAPS: i64 = 64;

/// One spatial axis.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Axis {
    size: i64,
    kernel: i64,
    stride: i64,
    dilation: i64,
    /// The padding before the axis.
    begin: i64,
    /// The number of windows.
    count: i64,
    /// The stride of the axis in the order of the indices.
    index_stride: i64,
}

impl Axis {
    /// Returns the number of elements from the start of the first window to that of the last.
    fn starts(&self) -> i64 {
        (self.count - 1) * self.stride + 1
    }

    /// Returns the padding after the axis that windows cover.
    fn end(&self) -> i64 {
        (self.starts() + (self.kernel - 1) * self.dilation - self.size - self.begin).max(0)
    }
}

/// Returns the spatial axes.
fn axes_of(pool: &Pool, x: &Expand) -> Result<Vec<Axis>> {
    let (sizes, column_major) = (x.sizes(0)?, x.flag("storage_order")?);
    let output = x.output_shape(0)?;
    let mut axes = Vec::new();
    for (axis, size) in sizes.iter().skip(2).enumerate() {
        let dim = Dim::Known(*size);
        let Some(count) = output.at(axis + 2)?.known() else {
            unsupported!("Indices with sizes known only at run time")
        };
        axes.push(Axis {
            size: *size,
            kernel: *pool.window.kernel.at(axis)?,
            stride: *pool.window.strides.at(axis)?,
            dilation: *pool.window.dilations.at(axis)?,
            begin: pool.window.padding(axis, &dim)?.0,
            count,
            index_stride: 1,
        });
    }
    let mut stride = 1_i64;
    let mut set = |axis: &mut Axis| {
        axis.index_stride = stride;
        stride = stride.saturating_mul(axis.size);
    };
    if column_major {
        axes.iter_mut().for_each(&mut set)
    } else {
        axes.iter_mut().rev().for_each(&mut set)
    }
    Ok(axes)
}

/// Returns the coordinates of the elements of a window, in the order of the elements.
fn taps(axes: &[Axis]) -> Vec<Vec<i64>> {
    let mut taps = vec![Vec::new()];
    for axis in axes {
        let longer = |tap: &Vec<i64>| {
            let tap = tap.clone();
            (0..axis.kernel).map(move |n| tap.iter().copied().chain([n]).collect())
        };
        taps = taps.iter().flat_map(longer).collect();
    }
    taps
}

pub(super) fn expand_max_pool(x: &Expand) -> Result<bool> {
    let indices = x.node().output(1);
    if !indices.is_some_and(|id| x.graph().read_values().contains(id)) {
        return Ok(false);
    }
    let pool = Pool { kind: Kind::Max, window: read_windows(x)? };
    let sizes = x.sizes(0)?;
    if sizes.len() > 5 || pool.window.area()? > MAX_TAPS {
        unsupported!(
            "Indices of windows of {} elements over {} spatial axes",
            pool.window.area()?,
            pool.window.rank()
        );
    }
    let elements = sizes.iter().fold(1_i64, |n, size| n.saturating_mul(*size));
    if elements > limits::EXPANDED_AXIS {
        unsupported!(
            "Indices of {elements} elements: float32 represents integers up to {} exactly",
            limits::EXPANDED_AXIS
        );
    }
    let axes = axes_of(&pool, x)?;
    let kept = ["auto_pad", "ceil_mode", "dilations", "kernel_shape", "pads", "strides"];
    let attributes = kept.into_iter().filter_map(|name| Some((name, x.node().attributes.get(name)?.clone())));
    // Channels are independent, so a batch is merged into them.
    let channels = sizes.iter().take(2).product();
    let form: Vec<i64> = [1, channels].into_iter().chain(axes.iter().map(|axis| axis.size)).collect();
    let merged = x.operand(0).reshape(&form);
    let maxima = merged.apply("MaxPool", attributes);
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
    let zeros = [0, 0];
    let before = zeros.into_iter().chain(axes.iter().map(|axis| axis.begin));
    let pads: Vec<i64> = before.chain(zeros).chain(axes.iter().map(Axis::end)).collect();
    let lowest = x.make.number(f32::MIN, DType::F32);
    let padded = x.make.op("Pad", [data, x.make.ints(&pads), lowest], []);
    let along: Vec<i64> = (2_i64..).take(axes.len()).collect();
    let strides: Vec<i64> = axes.iter().map(|axis| axis.stride).collect();
    let mut index: Option<Expr> = None;
    for tap in taps(axes).iter().rev() {
        let first: Vec<i64> = axes.iter().zip(tap).map(|(axis, n)| n * axis.dilation).collect();
        let end: Vec<i64> = axes.iter().zip(&first).map(|(axis, first)| first + axis.starts()).collect();
        let offset: i64 =
            axes.iter().zip(&first).map(|(axis, first)| axis.index_stride.saturating_mul(*first)).sum();
        let Some(later) = index else {
            // If no other element is the maximum, the last one is.
            index = Some(offset.beside(maxima));
            continue;
        };
        let elements = padded.slices(&along, &first, &end).apply(
            "MaxPool",
            [("kernel_shape", vec![1; axes.len()].into()), ("strides", strides.as_slice().into())],
        );
        let is_largest = elements.equal(maxima).cast(DType::F32);
        index = Some(later + is_largest * (offset - later));
    }
    let mut index = index.ok_or_else(|| Error::internal("a window has no elements"))?;
    for (i, axis) in axes.iter().enumerate() {
        let first = |n: i64| (n * axis.stride - axis.begin).saturating_mul(axis.index_stride);
        index = index + ramp(x, axes.len(), i + 2, axis.count, first)?;
    }
    Ok(index)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn last_window_covers_end_padding() {
        let axis = Axis { size: 5, kernel: 3, stride: 2, dilation: 1, begin: 1, count: 3, index_stride: 1 };
        assert_eq!((axis.starts(), axis.end()), (5, 1));
    }

    #[test]
    fn taps_vary_fastest_along_the_last_axis() {
        let axis = Axis { size: 5, kernel: 2, stride: 1, dilation: 1, begin: 0, count: 4, index_stride: 1 };
        assert_eq!(taps(&[axis, axis]), [[0, 0], [0, 1], [1, 0], [1, 1]]);
    }
}
