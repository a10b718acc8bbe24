//! The output Indices of MaxPool: the place of the first element of each window that is its maximum.
//!
//! For each element of the window a blob of all windows, compared with the maxima. From the last one to the first, where it is the
//! maximum its place is taken.

use super::{Kind, Pool, read_pool};
use crate::common::limits;
use crate::error::{At, Error, Result, unsupported};
use crate::graph::Attribute;
use crate::pass::expand::{Expand, Operand};
use crate::tensor::{Array, DType, Dim};

/// Most elements of a window: each is some ten layers.
const MAX_TAPS: i64 = 64;

/// One spatial axis.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Axis {
    size: i64,
    kernel: i64,
    stride: i64,
    dilation: i64,
    /// Padding before.
    begin: i64,
    /// Windows.
    count: i64,
    /// Elements from one place to the next in the order that places are counted in.
    step: i64,
}

impl Axis {
    /// Elements of the padded axis from the first window that begins to the last.
    fn starts(&self) -> i64 {
        (self.count - 1) * self.stride + 1
    }

    /// Padding behind that windows reach.
    fn end(&self) -> i64 {
        (self.starts() + (self.kernel - 1) * self.dilation - self.size - self.begin).max(0)
    }
}

fn axes_of(pool: &Pool, x: &Expand) -> Result<Vec<Axis>> {
    let (sizes, column_major) = (x.sizes(0)?, x.flag("storage_order", false)?);
    let output = x.output_shape(0)?;
    let mut axes = Vec::new();
    for (axis, size) in sizes.iter().skip(2).enumerate() {
        let dim = Dim::Known(*size);
        let Some(count) = output.at(axis + 2)?.known() else {
            unsupported!("windows whose number is not fixed")
        };
        axes.push(Axis {
            size: *size,
            kernel: *pool.window.kernel.at(axis)?,
            stride: *pool.window.strides.at(axis)?,
            dilation: *pool.window.dilations.at(axis)?,
            begin: pool.window.padding(axis, &dim)?.0,
            count,
            step: 1,
        });
    }
    let mut step = 1_i64;
    let mut set = |axis: &mut Axis| {
        axis.step = step;
        step = step.saturating_mul(axis.size);
    };
    if column_major {
        axes.iter_mut().for_each(&mut set)
    } else {
        axes.iter_mut().rev().for_each(&mut set)
    }
    Ok(axes)
}

/// The elements of a window as steps along each axis, in the order in which they are compared.
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

pub(super) fn expand_max_pool(x: &mut Expand) -> Result<bool> {
    let indices = x.node().outputs.get(1).copied().flatten();
    if !indices.is_some_and(|id| x.graph().read_values().contains(id)) {
        return Ok(false);
    }
    let pool = read_pool(x)?;
    let sizes = x.sizes(0)?;
    if pool.kind != Kind::Max || sizes.len() > 5 || pool.window.area()? > MAX_TAPS {
        unsupported!(
            "Indices of windows of {} elements over {} axes",
            pool.window.area()?,
            pool.window.rank()
        );
    }
    let elements = sizes.iter().fold(1_i64, |n, size| n.saturating_mul(*size));
    if elements > limits::EXPANDED_AXIS {
        unsupported!("Indices of {elements} elements: single precision counts {}", limits::EXPANDED_AXIS);
    }
    let axes = axes_of(&pool, x)?;
    let kept = ["auto_pad", "ceil_mode", "dilations", "kernel_shape", "pads", "strides"];
    let attributes: Vec<(&str, Attribute)> =
        (kept.into_iter()).filter_map(|name| Some((name, x.node().attributes.get(name)?.clone()))).collect();
    // Channels are independent of each other: a batch is merged into them.
    let channels = sizes.iter().take(2).product();
    let form: Vec<i64> = [1, channels].into_iter().chain(axes.iter().map(|axis| axis.size)).collect();
    let data = x.operand(0)?;
    let merged = x.reshape(data, &form)?;
    let maxima = x.op("MaxPool", &[merged], &attributes)?;
    let places = places_in_planes(x, &axes, merged, maxima)?;
    let plane: i64 = axes.iter().map(|axis| axis.size).product();
    let starts = ramp(x, axes.len(), 1, channels, |channel| channel.saturating_mul(plane))?;
    let places = x.op("Add", &[places, starts], &[])?;
    let mut shape: Vec<i64> = sizes.iter().take(2).copied().collect();
    shape.extend(axes.iter().map(|axis| axis.count));
    let places = x.reshape(places, &shape)?;
    let places = x.cast(places, DType::I64)?;
    let maxima = x.reshape(maxima, &shape)?;
    x.output(0, maxima)?;
    x.output(1, places)?;
    Ok(true)
}

/// The place of each maximum within its plane.
fn places_in_planes(x: &mut Expand, axes: &[Axis], data: Operand, maxima: Operand) -> Result<Operand> {
    let (data, maxima) = (x.cast(data, DType::F32)?, x.cast(maxima, DType::F32)?);
    let zeros = [0, 0];
    let before = zeros.into_iter().chain(axes.iter().map(|axis| axis.begin));
    let pads: Vec<i64> = before.chain(zeros).chain(axes.iter().map(Axis::end)).collect();
    let (pads, lowest) = (x.ints(&pads)?, scalar(x, f32::MIN)?);
    let padded = x.op("Pad", &[data, pads, lowest], &[])?;
    let along: Vec<i64> = (2_i64..).take(axes.len()).collect();
    let mut place: Option<Operand> = None;
    for tap in taps(axes).iter().rev() {
        let first: Vec<i64> = axes.iter().zip(tap).map(|(axis, n)| n * axis.dilation).collect();
        let end: Vec<i64> = axes.iter().zip(&first).map(|(axis, first)| first + axis.starts()).collect();
        let offset =
            axes.iter().zip(&first).map(|(axis, first)| axis.step.saturating_mul(*first)).sum::<i64>();
        let offset = scalar(x, num_traits::AsPrimitive::as_(offset))?;
        let Some(later) = place else {
            // What no other element is, the last one is.
            place = Some(offset);
            continue;
        };
        let (starts, ends, along) = (x.ints(&first)?, x.ints(&end)?, x.ints(&along)?);
        let elements = x.op("Slice", &[padded, starts, ends, along], &[])?;
        let elements = x.op(
            "MaxPool",
            &[elements],
            &[
                ("kernel_shape", Attribute::Ints(vec![1; axes.len()])),
                ("strides", Attribute::Ints(axes.iter().map(|axis| axis.stride).collect())),
            ],
        )?;
        let is_largest = x.op("Equal", &[elements, maxima], &[])?;
        let is_largest = x.cast(is_largest, DType::F32)?;
        let change = x.op("Sub", &[offset, later], &[])?;
        let change = x.op("Mul", &[is_largest, change], &[])?;
        place = Some(x.op("Add", &[later, change], &[])?);
    }
    let mut place = place.ok_or_else(|| Error::internal("a window without elements"))?;
    for (index, axis) in axes.iter().enumerate() {
        let first = |n: i64| (n * axis.stride - axis.begin).saturating_mul(axis.step);
        let starts = ramp(x, axes.len(), index + 2, axis.count, first)?;
        place = x.op("Add", &[place, starts], &[])?;
    }
    Ok(place)
}

fn scalar(x: &mut Expand, number: f32) -> Result<Operand> {
    x.literal(&Array::f32(ndarray::ArrayD::from_elem(ndarray::IxDyn(&[]), number)))
}

/// A number for each of `count` places along an axis of a value with so many spatial axes.
fn ramp(
    x: &mut Expand,
    spatial: usize,
    axis: usize,
    count: i64,
    number: impl Fn(i64) -> i64,
) -> Result<Operand> {
    let mut shape = vec![1; spatial + 2];
    if let Some(size) = shape.get_mut(axis) {
        *size = usize::try_from(count)?;
    }
    let numbers = (0..count).map(|n| num_traits::AsPrimitive::<f32>::as_(number(n))).collect();
    x.literal(&Array::f32(ndarray::ArrayD::from_shape_vec(shape, numbers)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_reach_behind_the_axis() {
        let axis = Axis { size: 5, kernel: 3, stride: 2, dilation: 1, begin: 1, count: 3, step: 1 };
        assert_eq!((axis.starts(), axis.end()), (5, 1));
    }

    #[test]
    fn taps_follow_each_other_along_the_last_axis() {
        let axis = Axis { size: 5, kernel: 2, stride: 1, dilation: 1, begin: 0, count: 4, step: 1 };
        assert_eq!(taps(&[axis, axis]), [[0, 0], [0, 1], [1, 0], [1, 1]]);
    }
}
