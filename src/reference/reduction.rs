//! Reductions and cumulative sums.

use ndarray::Axis;
use num_traits::AsPrimitive;

use super::Mat;
use super::array::{axis, bottom};
use super::elementwise::log_add_exp;
use crate::error::{At, Result, invalid, unsupported};
use crate::ncnn::Layer;
use crate::ncnn::layer::{Reduction, reduction_op};

/// Computes a layer that combines the elements along axes.
pub(super) fn compute(layer: &Layer, bottoms: &[&Mat]) -> Result<Mat> {
    let bottom = bottom(bottoms, 0)?;
    match layer {
        Layer::CumulativeSum(l) => {
            // The runtime does not read the axis of a single one.
            let axis = if bottom.ndim() == 1 { 0 } else { axis(l.axis, bottom.ndim())? };
            let mut top = bottom.clone();
            top.accumulate_axis_inplace(Axis(axis), |before, x| *x += before);
            Ok(top)
        }
        Layer::Reduction(l) => reduce(l, bottom),
        _ => unsupported!("{} as a reduction", layer.type_name()),
    }
}

/// Computes a Reduction; one over all axes leaves one element.
fn reduce(layer: &Reduction, bottom: &Mat) -> Result<Mat> {
    if layer.fixbug0 == 0 && !layer.axes.is_empty() {
        invalid!("axes without fixbug0");
    }
    let mut reduced = vec![layer.reduce_all != 0 || bottom.ndim() == 1; bottom.ndim()];
    for param in &layer.axes {
        reduced.put(axis(*param, bottom.ndim())?, true);
    }
    if !reduced.contains(&true) {
        invalid!("a reduction along no axis");
    }
    let operation = Operation::new(layer.operation)?;
    let mut top = bottom.mapv(operation.before);
    for (index, _) in reduced.iter().enumerate().rev().filter(|(_, reduced)| **reduced) {
        top = top.fold_axis(Axis(index), operation.initial, |x, y| (operation.combine)(*x, *y));
        if layer.keepdims != 0 {
            top = top.insert_axis(Axis(index));
        }
    }
    if top.ndim() == 0 {
        top = top.insert_axis(Axis(0));
    }
    let mut coeff = f64::from(layer.coeff);
    if layer.operation == reduction_op::MEAN {
        let counts = bottom.shape().iter().zip(reduced).filter(|(_, reduced)| *reduced);
        let count: f64 = counts.map(|(size, _)| *size).product::<usize>().as_();
        coeff /= count;
    }
    Ok(top.mapv_into(|x| (operation.after)(x) * coeff))
}

/// What a Reduction computes.
struct Operation {
    /// The value that is combined with the first element.
    initial: f64,
    before: fn(f64) -> f64,
    combine: fn(f64, f64) -> f64,
    after: fn(f64) -> f64,
}

impl Operation {
    fn new(operation: i32) -> Result<Operation> {
        let sum = Operation { initial: 0.0, before: |x| x, combine: |x, y| x + y, after: |x| x };
        Ok(match operation {
            reduction_op::SUM | reduction_op::MEAN => sum,
            reduction_op::ASUM | reduction_op::L1 => Operation { before: f64::abs, ..sum },
            reduction_op::SUMSQ => Operation { before: |x| x * x, ..sum },
            reduction_op::L2 => Operation { before: |x| x * x, after: f64::sqrt, ..sum },
            // The runtime begins with finite numbers, not with infinities.
            reduction_op::MAX => Operation { initial: f32::MIN.into(), combine: f64::max, ..sum },
            reduction_op::MIN => Operation { initial: f32::MAX.into(), combine: f64::min, ..sum },
            reduction_op::PROD => Operation { initial: 1.0, combine: |x, y| x * y, ..sum },
            reduction_op::LOG_SUM => Operation { after: libm::log, ..sum },
            reduction_op::LOG_SUM_EXP => {
                Operation { initial: f64::NEG_INFINITY, combine: log_add_exp, ..sum }
            }
            _ => invalid!("a reduction of type {operation}"),
        })
    }
}
