//! QLinearAveragePool and QLinearGlobalAveragePool.

use num_traits::AsPrimitive;

use super::super::level::{Target, constant_int, levels, requantize};
use super::super::quotient;
use super::{add_zero, constant_scale, dequantize, quantize};
use crate::graph::pairs;
use crate::op::whole_windows;
use crate::ops::prelude::*;

/// Reads the attributes of both operators.
fn read_pool(call: &Call) -> Result<()> {
    if call.flag("channels_last")? {
        unsupported!("channels_last");
    }
    Ok(())
}

pub(super) fn infer_global_pool(call: &Call) -> Result<Vec<Fact>> {
    read_pool(call)?;
    let mut shape = call.shape(0)?.to_vec();
    shape.iter_mut().skip(2).for_each(|size| *size = Dim::Known(1));
    Ok(vec![Fact::new(call.dtype(0)?, shape)])
}

/// The sum of all levels times a ratio (`qlgavgpool.cpp`).
pub(super) fn expand_global_pool<'x>(x: &'x Expand) -> Result<Expr<'x>> {
    let count = Dim::product(x.shape(0)?.iter().skip(2))?.known();
    let (Some(count), Some(zero), Some(target), Some(x_scale), Some(scale)) =
        (count, constant_int(x, 2)?, Target::of_output(x, 4)?, constant_scale(x, 1)?, constant_scale(x, 3)?)
    else {
        return Ok(quantize(x, dequantize(x, 0).apply("GlobalAveragePool", []), 3));
    };
    let axes: Vec<i64> = (2..i64::try_from(x.shape(0)?.len())?).collect();
    let count: f32 = count.as_();
    let sum = levels(x, 0, zero)?.value.reduce("ReduceSum", &axes, true);
    Ok(requantize(sum * (x_scale / (scale * count)), target))
}

pub(super) fn infer_pool(call: &Call) -> Result<Vec<Fact>> {
    read_pool(call)?;
    crate::ops::spatial::pool::infer_pool(call)
}

/// The attributes of AveragePool.
const POOLING: [&str; 6] = ["auto_pad", "ceil_mode", "count_include_pad", "kernel_shape", "pads", "strides"];

/// The mean over the scale plus the zero point, rounded once (`qlinear_pool.cc`).
pub(super) fn expand_pool<'x>(x: &'x Expand) -> Result<Expr<'x>> {
    let mut attributes = x.node().attributes.clone();
    attributes.retain(|name, _| POOLING.contains(&name.as_str()));
    let attributes = whole_windows(attributes, x.shape(0)?, x.output_shape(0)?)?;
    let mean = dequantize(x, 0).apply("AveragePool", pairs(&attributes));
    Ok(match Target::of_output(x, 4)? {
        Some(target) => add_zero(quotient(mean, x.operand(3)), target),
        None => quantize(x, mean, 3),
    })
}
