//! Reductions along axes, and the indices of extremes.
//!
//! Adjacent axes that are all reduced, or all kept, are merged; if more than four are left, they are reduced
//! one after another.
//!
//! Spec: <https://onnx.ai/onnx/operators/onnx__ReduceSum.html>,
//! <https://onnx.ai/onnx/operators/onnx__ArgMax.html>.

mod arg;
mod choose;
mod fold;
mod lower;
mod node;

use num_traits::AsPrimitive;

use self::node::{Kind, axis_numbers, choices, read_reduce, reduced_axes};
use crate::op::identity::same_shape;
use crate::op::range;
use crate::ops::prelude::*;

/// A row of a reduction by a function.
macro_rules! reduction {
    ($name:literal, $kind:expr) => {
        Row::new($name, Access::Reduction, infer_reduce)
            .fold(|call| fold::fold_reduce($kind, call))
            .scratch(fold::COPIES)
            .expand(|expand| expand_reduce($kind, expand))
            .lower(|lower| lower::lower_reduce($kind, lower))
    };
}

pub(in crate::ops) const OPS: &[Row] = &[
    extreme("ArgMax"),
    extreme("ArgMin"),
    reduction!("ReduceL1", Kind::L1)
        .range(|call, x| range::first(call, x).abs().times(reduced_count(call)))
        .lowers_to("Reduction"),
    reduction!("ReduceL2", Kind::L2).range(|_, _| Range::new(0.0, f64::INFINITY)).lowers_to("Reduction"),
    reduction!("ReduceLogSum", Kind::LogSum).lowers_to("Reduction"),
    reduction!("ReduceLogSumExp", Kind::LogSumExp).lowers_to("Reduction after subtracting the maximum"),
    reduction!("ReduceMax", Kind::Max).range(range::first).identity(same_shape).lowers_to("Reduction"),
    reduction!("ReduceMean", Kind::Mean).range(range_mean).identity(same_shape).lowers_to("Reduction"),
    reduction!("ReduceMin", Kind::Min).range(range::first).identity(same_shape).lowers_to("Reduction"),
    reduction!("ReduceProd", Kind::Prod).identity(same_shape).lowers_to("Reduction"),
    reduction!("ReduceSum", Kind::Sum)
        .range(|call, x| range::first(call, x).times(reduced_count(call)))
        .identity(same_shape)
        .lowers_to("Reduction"),
    reduction!("ReduceSumSquare", Kind::SumSquare)
        .range(|_, _| Range::new(0.0, f64::INFINITY))
        .lowers_to("Reduction"),
];

/// A row of the index of an extreme.
const fn extreme(name: &'static str) -> Row {
    Row::new(name, Access::Any, arg::infer_arg)
        .fold(arg::fold_arg)
        .range(range::positions)
        .lower(arg::lower_arg)
        .lowers_to("Reduction, Threshold, Reduction over an index ramp")
        .limits("an axis of more than 2^24 elements")
}

fn range_mean(call: &Call, inputs: &[Range]) -> Range {
    let x = range::first(call, inputs);
    x.averaged(x.times(reduced_count(call)))
}

/// Returns the range of the number of elements that are reduced to one.
fn reduced_count(call: &Call) -> Range {
    let count = || {
        let reduced = reduced_axes(call, &read_reduce(call)?)?;
        let sizes = call.shape(0)?.iter().zip(reduced).filter_map(|(size, reduced)| reduced.then_some(size));
        Ok::<_, Error>(element_count(&sizes.cloned().collect::<Vec<Dim>>()))
    };
    let count: Option<f64> = count().ok().flatten().map(AsPrimitive::as_);
    // A blob has elements.
    let any = Range { least: 1.0, most: limits::BLOB_ELEMENTS.as_() };
    count.map_or(any, |count| Range { least: count, most: count })
}

fn infer_reduce(call: &Call) -> Result<Vec<Fact>> {
    let reduce = read_reduce(call)?;
    let dtype = call.dtype(0)?;
    if call.has_input(1)
        && call.constant(1).is_none()
        && choices(call, &reduce, call.shape(0)?).is_some_and(|choices| choices.len() > 1)
    {
        return Ok(vec![Fact::new(dtype, call.output_shape(0)?.to_vec())]);
    }
    let reduced = reduced_axes(call, &reduce)?;
    Ok(vec![Fact::new(dtype, reduce.shape(call.shape(0)?, &reduced))])
}

/// Reductions of integers other than sums and products: divided as integers, or computed in float32 and
/// truncated.
fn expand_reduce(kind: Kind, expand: &Expand) -> Result<bool> {
    let reduce = read_reduce(expand)?;
    if choose::expand_choices(expand, &reduce)? {
        return Ok(true);
    }
    let dtype = expand.dtype(0)?;
    if !dtype.is_int() || !matches!(kind, Kind::Mean | Kind::L2 | Kind::LogSum | Kind::LogSumExp) {
        return Ok(false);
    }
    let reduced = reduced_axes(expand, &reduce)?;
    let (axes, data) = (expand.make.ints(&axis_numbers(&reduced)), expand.operand(0));
    let flags = [("keepdims", i64::from(reduce.keepdims).into()), ("noop_with_empty_axes", 1.into())];
    let made = if kind == Kind::Mean {
        let sizes = expand.shape(0)?.iter().zip(&reduced).filter(|(_, reduced)| **reduced);
        let count = Dim::product(sizes.map(|(size, _)| size)).known();
        let count = count.ok_or_else(|| Error::unsupported("the mean of integers over free sizes"))?;
        expand.make.op("ReduceSum", [data, axes], flags) / count
    } else if kind == Kind::L2 {
        whole_root(expand.make.op("ReduceSumSquare", [data, axes], flags), dtype)
    } else {
        expand.make.op(expand.op_type(), [data.cast(DType::F32), axes], flags).cast(dtype)
    };
    expand.output(0, made);
    Ok(true)
}

/// Emits the largest integers whose squares are not above these: the nearest ones, less 1 where that is above
/// the root. The root of the runtime may lie below an integer.
fn whole_root(energy: Expr<'_>, dtype: DType) -> Expr<'_> {
    let nearest = energy.cast(DType::F32).sqrt().round().cast(dtype);
    nearest - (nearest * nearest).greater(energy).cast(dtype)
}
