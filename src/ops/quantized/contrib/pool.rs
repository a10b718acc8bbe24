//! QLinearAveragePool and QLinearGlobalAveragePool.

use super::super::level::{Target, constant_int, finalize, levels, number, read_bounds, whole};
use super::super::quotient;
use super::{base, constant_scale, dequantised, finalize_values, quantised};
use crate::error::{Result, unsupported};
use crate::graph::Attribute;
use crate::op::{Call, Fact, whole_windows};
use crate::pass::expand::Expand;
use crate::tensor::Dim;
use num_traits::AsPrimitive;

pub(super) fn infer_global_pool(call: &Call) -> Result<Vec<Fact>> {
    read_bounds(call)?;
    if call.flag("channels_last", false)? {
        unsupported!("channels_last");
    }
    let mut shape = call.shape(0)?.to_vec();
    shape.iter_mut().skip(2).for_each(|size| *size = Dim::Known(1));
    Ok(vec![Fact::new(call.dtype(0)?, shape)])
}

/// The sum of all levels times a ratio (`qlgavgpool.cpp`).
pub(super) fn expand_global_pool(x: &mut Expand) -> Result<bool> {
    let count = Dim::product(x.shape(0)?.iter().skip(2))?.known();
    let (Some(count), Some(zero), Some(target), Some(x_scale), Some(scale)) =
        (count, constant_int(x, 2)?, Target::of_output(x, 4)?, constant_scale(x, 1)?, constant_scale(x, 3)?)
    else {
        let number = dequantised(x, 0)?;
        let mean = x.op("GlobalAveragePool", &[number], &[])?;
        return quantised(x, mean, 3);
    };
    let axes: Vec<i64> = (2..i64::try_from(x.shape(0)?.len())?).collect();
    let levels = levels(x, 0, zero)?;
    let axes = x.ints(&axes)?;
    let sum = x.op("ReduceSum", &[levels.operand, axes], &[])?;
    let count: f32 = count.as_();
    let ratio = number(x, x_scale / (scale * count))?;
    let scaled = x.op("Mul", &[sum, ratio], &[])?;
    let result = finalize(x, scaled, target)?;
    x.output(0, result)?;
    Ok(true)
}

pub(super) fn infer_pool(call: &Call) -> Result<Vec<Fact>> {
    if call.flag("channels_last", false)? {
        unsupported!("channels_last");
    }
    read_bounds(call)?;
    crate::ops::spatial::pool::infer_pool(call)
}

/// What QLinearAveragePool has in common with AveragePool.
const POOLING: [&str; 6] = ["auto_pad", "ceil_mode", "count_include_pad", "kernel_shape", "pads", "strides"];

/// The mean of numbers over the step, and the zero point, which are rounded together (`qlinear_pool.cc`).
pub(super) fn expand_pool(x: &mut Expand) -> Result<bool> {
    let mut given = x.node().attributes.clone();
    given.retain(|name, _| POOLING.contains(&name.as_str()));
    let given = whole_windows(given, x.shape(0)?, x.output_shape(0)?)?;
    let attributes: Vec<(&str, Attribute)> =
        given.iter().map(|(name, attribute)| (name.as_str(), attribute.clone())).collect();
    let number = dequantised(x, 0)?;
    let mean = x.op("AveragePool", &[number], &attributes)?;
    let Some(target) = Target::of_output(x, 4)? else {
        return quantised(x, mean, 3);
    };
    let scale = x.operand(3)?;
    let scaled = quotient(x, mean, scale)?;
    let base = base(x, target);
    let zero = whole(x, target.zero + base)?;
    let moved = x.op("Add", &[scaled, zero], &[])?;
    let result = finalize_values(x, moved, target)?;
    x.output(0, result)?;
    Ok(true)
}
