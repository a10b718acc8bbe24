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

use num_traits::AsPrimitive;

use crate::op::identity::same_shape;
use crate::op::range;
use crate::ops::prelude::*;

/// A row of a reduction by a function.
macro_rules! reduction {
    ($name:literal, $kind:expr) => {
        Row::new($name, Access::Reduction, infer_reduce)
            .fold(|attributes, inputs| fold::fold_reduce($kind, attributes, inputs))
            .scratch(fold::COPIES)
            .expand(|expand| expand_reduce($kind, expand))
            .lower(|lower| lower::lower_reduce($kind, lower))
    };
}

pub(in crate::ops) const OPS: &[Row] = &[
    Row::new("ArgMax", Access::Any, arg::infer_arg)
        .fold(arg::fold_arg)
        .range(range::positions)
        .lower(arg::lower_arg)
        .lowers_to("Reduction, Threshold, Reduction over an index ramp")
        .limits("an axis of more than 2^24 elements"),
    Row::new("ArgMin", Access::Any, arg::infer_arg)
        .fold(arg::fold_arg)
        .range(range::positions)
        .lower(arg::lower_arg)
        .lowers_to("Reduction, Threshold, Reduction over an index ramp")
        .limits("an axis of more than 2^24 elements"),
    reduction!("ReduceL1", Kind::L1)
        .range(|call, x| range::first(call, x).magnitude().times(reduced_count(call)))
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

/// The function of the reduced elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    L1,
    L2,
    LogSum,
    LogSumExp,
    Max,
    Mean,
    Min,
    Prod,
    Sum,
    SumSquare,
}

struct ReduceAttributes {
    keepdims: bool,
    /// Whether an empty list of axes means none instead of all.
    noop_with_empty_axes: bool,
    /// The axes, if they are an attribute.
    axes: Option<Vec<i64>>,
}

fn read_reduce(attributes: &Attributes) -> Result<ReduceAttributes> {
    Ok(ReduceAttributes {
        keepdims: attributes.flag("keepdims")?,
        noop_with_empty_axes: attributes.flag("noop_with_empty_axes")?,
        axes: attributes.given_ints("axes")?,
    })
}

impl ReduceAttributes {
    /// Returns for each of `rank` axes whether it is reduced; `given` are the axes of the input.
    fn reduced(&self, given: Option<Vec<i64>>, rank: usize) -> Result<Vec<bool>> {
        let axes = self.axes.clone().or(given).unwrap_or_default();
        if axes.is_empty() {
            return Ok(vec![!self.noop_with_empty_axes; rank]);
        }
        let mut reduced = vec![false; rank];
        for axis in axes {
            // A scalar may be reduced along its axis 0 or -1, as in numpy.
            if rank == 0 && (-1..=0).contains(&axis) {
                continue;
            }
            reduced.put(resolve_axis(axis, rank)?, true);
        }
        Ok(reduced)
    }
}

/// Returns for each axis of the input whether it is reduced.
fn reduced_axes(call: &Call, reduce: &ReduceAttributes) -> Result<Vec<bool>> {
    let shape = call.shape(0)?;
    if !call.has_input(1) {
        return reduce.reduced(None, shape.len());
    }
    match call.axes(1) {
        Ok(axes) => reduce.reduced(Some(axes), shape.len()),
        Err(error) => deduced_axes(call, reduce, shape).ok_or(error),
    }
}

/// Returns the axes computed at run time if the declared shape leaves one choice.
fn deduced_axes(call: &Call, reduce: &ReduceAttributes, shape: &[Dim]) -> Option<Vec<bool>> {
    let mut choices = choices(call, reduce, shape)?;
    choices.pop().filter(|_| choices.is_empty())
}

/// Returns the choices of axes that give the declared shape. Choices that differ only in unit axes are
/// equivalent.
fn choices(call: &Call, reduce: &ReduceAttributes, shape: &[Dim]) -> Option<Vec<Vec<bool>>> {
    let count = call.shape(1).ok()?.first()?.known()?;
    if count == 0 {
        return Some(vec![reduce.reduced(Some(Vec::new()), shape.len()).ok()?]);
    }
    let output = call.output_shape(0).ok()?;
    if shape.len() > MAX_DEDUCED_RANK || !shape.iter().chain(output).all(|d| d.known().is_some()) {
        return None;
    }
    let count = usize::try_from(count).ok()?;
    let matters = |reduced: &[bool]| -> Vec<bool> {
        reduced.iter().zip(shape).map(|(reduced, size)| *reduced && !size.is(1)).collect()
    };
    let mut found: Vec<Vec<bool>> = Vec::new();
    for choice in 0..1_usize << shape.len() {
        let reduced: Vec<bool> = (0..shape.len()).map(|axis| choice & (1 << axis) != 0).collect();
        if reduced.iter().filter(|reduced| **reduced).count() == count
            && reduced_shape(shape, &reduced, reduce.keepdims) == output
            && !found.iter().any(|other| matters(other) == matters(&reduced))
        {
            found.push(reduced);
        }
    }
    if !found.is_empty() {
        call.replace_by_sizes(1);
    }
    Some(found)
}

/// The maximum rank for which the reduced axes are searched.
const MAX_DEDUCED_RANK: usize = 8;

fn reduced_shape(shape: &[Dim], reduced: &[bool], keepdims: bool) -> Vec<Dim> {
    let mut output = Vec::with_capacity(shape.len());
    for (size, reduced) in shape.iter().zip(reduced) {
        match (*reduced, keepdims) {
            (false, _) => output.push(size.clone()),
            (true, true) => output.push(Dim::Known(1)),
            (true, false) => {}
        }
    }
    output
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
    Ok(vec![Fact::new(dtype, reduced_shape(call.shape(0)?, &reduced, reduce.keepdims))])
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
    let axes: Result<Vec<i64>> = reduced
        .iter()
        .enumerate()
        .filter(|(_, reduced)| **reduced)
        .map(|(axis, _)| Ok(i64::try_from(axis)?))
        .collect();
    let (axes, data) = (expand.make.ints(&axes?), expand.operand(0));
    let flags = [("keepdims", i64::from(reduce.keepdims).into()), ("noop_with_empty_axes", 1.into())];
    let made = if kind == Kind::Mean {
        let sizes = expand.shape(0)?.iter().zip(&reduced).filter(|(_, reduced)| **reduced);
        let count = Dim::product(sizes.map(|(size, _)| size))?.known();
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn axes_are_counted_from_either_end() {
        let reduce = |noop| ReduceAttributes { keepdims: true, noop_with_empty_axes: noop, axes: None };
        assert_eq!(reduce(false).reduced(Some(vec![-1, 0]), 3).unwrap(), [true, false, true]);
        assert_eq!(reduce(false).reduced(None, 2).unwrap(), [true, true]);
        assert_eq!(reduce(true).reduced(Some(Vec::new()), 2).unwrap(), [false, false]);
        assert_eq!(reduce(false).reduced(Some(vec![0]), 0).unwrap(), Vec::<bool>::new());
        assert!(reduce(false).reduced(Some(vec![2]), 2).is_err());
    }
}
