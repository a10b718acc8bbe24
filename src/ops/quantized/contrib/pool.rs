//! QLinearAveragePool and QLinearGlobalAveragePool.

use std::ops::Add;

use num_traits::AsPrimitive;

use super::super::level::{Target, constant_int, levels, requantize};
use super::super::quotient;
use super::operand::{add_zero, constant_scale, dequantize, quantize};
use crate::graph::pairs;
use crate::op::whole_windows;
use crate::ops::prelude::*;
use crate::ops::spatial::pool::pool_shape;
use crate::ops::spatial::pool::taps::{Axis, MAX_TAPS, axes, taps};
use crate::ops::spatial::window::read_window;
use crate::pass::channels::Layout;

/// The sum of all levels times a ratio (`qlgavgpool.cpp`).
pub(super) fn expand_global_pool<'x>(x: &'x Expand) -> Result<Expr<'x>> {
    let layout = Layout::of(x)?;
    let rank = x.shape(0)?.len();
    let count = Dim::product(layout.channels_first(x.shape(0)?).iter().skip(2)).known();
    let (Some(count), Some(zero), Some(target), Some(x_scale), Some(scale)) = (
        count,
        constant_int(x, 2)?,
        Target::of_zero(x, 4, x.dtype(0)?)?,
        constant_scale(x, 1)?,
        constant_scale(x, 3)?,
    ) else {
        let mean = layout.apply(dequantize(x, 0), rank, |data| x.make.op("GlobalAveragePool", [data], []));
        return Ok(quantize(x, mean, 3));
    };
    let first = if layout.channels_last { 1 } else { 2 };
    let axes: Vec<i64> = (first..).take(rank.saturating_sub(2)).collect();
    let count: f32 = count.as_();
    let sum = levels(x, 0, zero)?.value.reduce("ReduceSum", &axes, true);
    Ok(requantize(sum * (x_scale / (scale * count)), target))
}

/// The attributes of AveragePool.
const POOLING: [&str; 6] = ["auto_pad", "ceil_mode", "count_include_pad", "kernel_shape", "pads", "strides"];

/// The mean over the scale plus the zero point, rounded once (`qlinear_pool.cc`).
pub(super) fn expand_pool<'x>(x: &'x Expand) -> Result<Expr<'x>> {
    let layout = Layout::of(x)?;
    let shape = layout.channels_first(x.shape(0)?);
    let pooled = pool_shape(x, &shape)?;
    let window = read_window(x, x.ints("kernel_shape")?)?;
    let sizes = Dim::known_sizes(shape.iter().skip(2)).zip(Dim::known_sizes(pooled.iter().skip(2)));
    let axes: Option<Vec<Axis>> = sizes.map(|(sizes, counts)| axes(&window, &sizes, &counts)).transpose()?;
    let counts: Vec<Vec<i64>> = match &axes {
        _ if x.flag("count_include_pad")? => window.kernel.iter().map(|kernel| vec![*kernel]).collect(),
        Some(axes) => axes.iter().map(|axis| axis.counts().collect()).collect(),
        None => window.kernel.iter().map(|kernel| (1..=*kernel).collect()).collect(),
    };
    if counts.iter().flatten().any(|count| *count == 0) {
        unsupported!("the mean of a window in the padding alone");
    }
    let data = dequantize(x, 0);
    // The layer multiplies by the reciprocal of the count, and many means lie halfway between two steps.
    let mean = if counts.iter().flatten().all(|count| count.count_ones() == 1) {
        let mut attributes = x.node().attributes.clone();
        attributes.retain(|name, _| POOLING.contains(&name.as_str()));
        let attributes = whole_windows(attributes, &shape, &pooled)?;
        layout.apply(data, shape.len(), |data| x.make.op("AveragePool", [data], pairs(&attributes)))
    } else {
        let Some(axes) = axes.filter(|_| window.area().is_ok_and(|area| area <= MAX_TAPS)) else {
            unsupported!("the mean of windows of more than {MAX_TAPS} elements or of free sizes");
        };
        let count = divisors(&counts)?;
        layout.apply(data, shape.len(), |data| {
            // The kernel adds the elements in this order.
            let elements = taps(data, &axes, x.make.number(0.0, DType::F32)).map(|(_, element)| element);
            elements.reduce(Add::add).map_or(data, |sum| quotient(sum, x.make.literal(&count)))
        })
    };
    Ok(match Target::of_zero(x, 4, x.dtype(0)?)? {
        Some(target) => add_zero(quotient(mean, x.operand(3)), target),
        None => quantize(x, mean, 3),
    })
}

/// Returns the products of the counts along each axis: the number of elements of each window.
fn divisors(counts: &[Vec<i64>]) -> Result<Array> {
    let products = |products: Vec<i64>, counts: &Vec<i64>| {
        products.iter().flat_map(|product| counts.iter().map(move |count| product * count)).collect()
    };
    let products: Vec<f32> =
        counts.iter().fold(vec![1], products).into_iter().map(AsPrimitive::as_).collect();
    let shape: Vec<usize> = [1, 1].into_iter().chain(counts.iter().map(Vec::len)).collect();
    Ok(Array::f32(ndarray::ArrayD::from_shape_vec(shape, products)?))
}
