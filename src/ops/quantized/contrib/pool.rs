//! QLinearAveragePool and QLinearGlobalAveragePool.

use num_traits::AsPrimitive;

use super::super::level::{Target, constant_int, levels, requantize, scalar};
use super::super::quotient;
use super::{add_zero, constant_scale, dequantize, quantize};
use crate::error::{Result, unsupported};
use crate::graph::Attribute;
use crate::op::{Call, Fact, whole_windows};
use crate::pass::expand::Expand;
use crate::tensor::Dim;

/// Reads the attributes of both operators.
fn read_pool(call: &Call) -> Result<()> {
    if call.flag("channels_last", false)? {
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
pub(super) fn expand_global_pool(x: &Expand) -> Result<bool> {
    let count = Dim::product(x.shape(0)?.iter().skip(2))?.known();
    let (Some(count), Some(zero), Some(target), Some(x_scale), Some(scale)) =
        (count, constant_int(x, 2)?, Target::of_output(x, 4)?, constant_scale(x, 1)?, constant_scale(x, 3)?)
    else {
        let input = dequantize(x, 0)?;
        let mean = x.raw_op("GlobalAveragePool", &[input], &[])?;
        return quantize(x, mean, 3);
    };
    let axes: Vec<i64> = (2..i64::try_from(x.shape(0)?.len())?).collect();
    let levels = levels(x, 0, zero)?;
    let axes = x.raw_ints(&axes)?;
    let sum = x.raw_op("ReduceSum", &[levels.operand, axes], &[])?;
    let count: f32 = count.as_();
    let ratio = scalar(x, x_scale / (scale * count))?;
    let scaled = x.raw_op("Mul", &[sum, ratio], &[])?;
    let result = requantize(x, scaled, target)?;
    x.raw_output(0, result)?;
    Ok(true)
}

pub(super) fn infer_pool(call: &Call) -> Result<Vec<Fact>> {
    read_pool(call)?;
    crate::ops::spatial::pool::infer_pool(call)
}

/// The attributes of AveragePool.
const POOLING: [&str; 6] = ["auto_pad", "ceil_mode", "count_include_pad", "kernel_shape", "pads", "strides"];

/// The mean over the scale plus the zero point, rounded once (`qlinear_pool.cc`).
pub(super) fn expand_pool(x: &Expand) -> Result<bool> {
    let mut attributes = x.node().attributes.clone();
    attributes.retain(|name, _| POOLING.contains(&name.as_str()));
    let attributes = whole_windows(attributes, x.shape(0)?, x.output_shape(0)?)?;
    let attributes: Vec<(&str, Attribute)> =
        attributes.iter().map(|(name, attribute)| (name.as_str(), attribute.clone())).collect();
    let input = dequantize(x, 0)?;
    let mean = x.raw_op("AveragePool", &[input], &attributes)?;
    let Some(target) = Target::of_output(x, 4)? else {
        return quantize(x, mean, 3);
    };
    let scale = x.raw_operand(3)?;
    let scaled = quotient(x, mean, scale)?;
    add_zero(x, scaled, target)
}
