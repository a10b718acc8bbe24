//! Lowering of reductions.

use super::node::{Kind, read_reduce, reduced_axes};
use crate::ncnn::layer::reduction_op;
use crate::ops::prelude::*;

pub(super) fn lower_reduce(kind: Kind, lower: &Lower) -> Result<()> {
    let reduce = read_reduce(lower)?;
    let flags = reduced_axes(lower, &reduce)?;
    let axes: Vec<usize> = (0..).zip(flags).filter_map(|(axis, reduced)| reduced.then_some(axis)).collect();
    let mut x = lower.input(0);
    // Without reduced axes, the function of each element is still computed.
    let is_function = matches!(kind, Kind::L1 | Kind::L2 | Kind::LogSum | Kind::SumSquare);
    if !is_function && axes.iter().all(|axis| x.size(*axis).is(1)) {
        return lower.give(0, x);
    }
    let parts = x.reductions(&axes);
    let Some((last, others)) = parts.split_last() else { return Err(Error::internal("no axes to reduce")) };
    let (first, next) = match kind {
        Kind::LogSum => (Kind::Sum, Kind::Sum),
        Kind::SumSquare => (Kind::SumSquare, Kind::Sum),
        _ => (kind, kind),
    };
    let mut step = first;
    for axes in others {
        x = reduce_by(step, lower, x, axes, true)?;
        step = next;
    }
    let step = if kind == Kind::LogSum { kind } else { step };
    lower.give(0, reduce_by(step, lower, x, last, reduce.keepdims)?)
}

/// Returns the elements reduced along axes, which keep a size of 1 or are removed.
fn reduce_by<'l>(kind: Kind, lower: &Lower, x: Nd<'l>, axes: &[usize], keeps_axes: bool) -> Result<Nd<'l>> {
    let x = x.for_reduction(axes);
    let by = |x: Nd<'l>, operation: i32| x.reduction(operation, axes, keeps_axes);
    Ok(match kind {
        Kind::Sum => by(x, reduction_op::SUM),
        Kind::SumSquare => by(x, reduction_op::SUMSQ),
        Kind::Mean => by(x, reduction_op::MEAN),
        Kind::Prod => by(x, reduction_op::PROD),
        Kind::L1 => by(x, reduction_op::L1),
        Kind::L2 => by(x, reduction_op::L2),
        Kind::LogSum => by(x, reduction_op::LOG_SUM),
        Kind::LogSumExp => {
            // The runtime sums `exp(x)` without subtracting the maximum, which overflows above 88
            // (`reduction.cpp`).
            let max = x.reduce(reduction_op::MAX, axes);
            // The difference of infinities is NaN.
            let finite = max.compute(|max| max.clip(f32::MIN, f32::MAX));
            let sum = (x - finite).reduce(reduction_op::LOG_SUM_EXP, axes);
            sum + max
        }
        Kind::Max | Kind::Min => {
            let operation = if kind == Kind::Max { reduction_op::MAX } else { reduction_op::MIN };
            if lower.may_be_infinite(0)? {
                // The runtime starts from the least or largest finite number, which no half reaches; its
                // double is infinite (`reduction.cpp`).
                by(x * 0.5, operation) * 2.0
            } else {
                by(x, operation)
            }
        }
    })
}
