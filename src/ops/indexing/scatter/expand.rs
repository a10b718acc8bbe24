//! Expands Scatter with indices computed at run time, or many unordered constant ones.

use super::{Reduction, read_reduction, replaced_rows};
use crate::common::limits;
use crate::error::{At, Result, invalid, unsupported};
use crate::graph::Attribute;
use crate::lower::few_parts;
use crate::op::resolve_axis;
use crate::ops::indexing::gather::{element_places, row_indices, rows_at, tuple_places};
use crate::ops::indexing::one_hot::one_hot;
use crate::ops::shape::data_sizes;
use crate::pass::expand::{Expand, Operand};
use crate::tensor::{Array, DType};

/// Returns whether the indices are constant, and few parts make up data with these elements replaced.
fn is_moved(
    expand: &Expand,
    places: impl Fn(&[usize], &Array) -> Result<(Vec<usize>, usize)>,
) -> Result<bool> {
    if expand.constant(1).is_none() {
        return Ok(false);
    }
    let sizes = data_sizes(expand)?;
    let (offsets, width) = places(&sizes, &expand.array(1)?)?;
    let count = sizes.iter().product::<usize>() / width.max(1);
    limits::check_listed(count)?;
    Ok(few_parts(&replaced_rows(count, &rows_at(&offsets, width))?))
}

/// Updates compared with all positions: `hits` is true if an update along `axis` addresses a position.
struct Matches {
    hits: Operand,
    updates: Operand,
    axis: i64,
}

/// Emits the data reduced with the updates, in float32.
fn apply(expand: &mut Expand, data: Operand, matches: &Matches, reduction: Reduction) -> Result<Operand> {
    let (neutral, reduce, combine) = match reduction {
        Reduction::Replace | Reduction::Add => (0.0, "ReduceSum", "Add"),
        Reduction::Mul => (1.0, "ReduceProd", "Mul"),
        Reduction::Max => (f32::NEG_INFINITY, "ReduceMax", "Max"),
        Reduction::Min => (f32::INFINITY, "ReduceMin", "Min"),
    };
    let neutral = expand.literal(&Array::f32(ndarray::ArrayD::from_elem(Vec::new(), neutral)))?;
    let axes = expand.ints(&[matches.axis])?;
    let flat = || [("keepdims", Attribute::Int(0))];
    let spread = expand.op("Where", &[matches.hits, matches.updates, neutral], &[])?;
    let reduced = expand.op(reduce, &[spread, axes], &flat())?;
    if reduction != Reduction::Replace {
        return expand.op(combine, &[data, reduced], &[]);
    }
    let hits = expand.cast(matches.hits, DType::F32)?;
    let hit = expand.op("ReduceSum", &[hits, axes], &flat())?;
    let hit = expand.cast(hit, DType::Bool)?;
    expand.op("Where", &[hit, reduced, data], &[])
}

/// Returns inputs 0 and 2 as float32 in these shapes.
fn operands(expand: &mut Expand, data: &[i64], updates: &[i64]) -> Result<(Operand, Operand)> {
    let dtype = expand.dtype(0)?;
    let mut reshaped = |index, shape| {
        let operand = expand.operand(index)?;
        let operand = expand.reshape(operand, shape)?;
        if dtype == DType::F32 { Ok(operand) } else { expand.cast(operand, DType::F32) }
    };
    Ok((reshaped(0, data)?, reshaped(2, updates)?))
}

fn finish(expand: &mut Expand, result: Operand) -> Result<bool> {
    let (dtype, sizes) = (expand.dtype(0)?, expand.sizes(0)?);
    let mut result = expand.reshape(result, &sizes)?;
    if dtype != DType::F32 {
        result = expand.cast(result, dtype)?;
    }
    expand.output(0, result)?;
    Ok(true)
}

/// Expands ScatterND over `[rows, updates, elements of a row]`.
pub(super) fn expand_scatter_nd(expand: &mut Expand) -> Result<bool> {
    if is_moved(expand, |sizes, indices| tuple_places(sizes, indices, 0))? {
        return Ok(false);
    }
    let reduction = read_reduction(expand)?;
    let (sizes, index_sizes) = (expand.sizes(0)?, expand.sizes(1)?);
    let Some((width, tuples)) = index_sizes.split_last() else { invalid!("the indices have no axes") };
    let Some((indexed, slice)) = sizes.split_at_checked(usize::try_from(*width)?) else {
        invalid!("tuples of {width} indices do not fit data of shape {sizes:?}");
    };
    let (rows, count, wide): (i64, i64, i64) =
        (indexed.iter().product(), tuples.iter().product(), slice.iter().product());
    if rows.saturating_mul(count).saturating_mul(wide) > limits::COMPARED {
        unsupported!("{count} updates, each compared with {rows} rows of {wide} elements");
    }
    let indices = expand.operand(1)?;
    let targets = row_indices(expand, indices, tuples, indexed, 0)?;
    let hits = one_hot(expand, targets, rows, 0, DType::Bool)?;
    let hits = expand.reshape(hits, &[rows, count, 1])?;
    let (data, updates) = operands(expand, &[rows, wide], &[1, count, wide])?;
    let result = apply(expand, data, &Matches { hits, updates, axis: 1 }, reduction)?;
    finish(expand, result)
}

/// Expands ScatterElements over `[outer, axis, updates, inner]`.
pub(super) fn expand_scatter_elements(expand: &mut Expand) -> Result<bool> {
    let (sizes, index_sizes) = (expand.sizes(0)?, expand.sizes(1)?);
    let axis = resolve_axis(expand.int_or("axis", 0)?, sizes.len())?;
    if is_moved(expand, |sizes, indices| Ok((element_places(sizes, indices, axis)?, 1)))? {
        return Ok(false);
    }
    let reduction = read_reduction(expand)?;
    let others = |list: &[i64]| {
        list.iter().enumerate().filter(|(i, _)| *i != axis).map(|(_, n)| *n).collect::<Vec<_>>()
    };
    if others(&sizes) != others(&index_sizes) {
        unsupported!("indices of shape {index_sizes:?} for data of shape {sizes:?} are computed at run time");
    }
    let outer: i64 = sizes.iter().take(axis).product();
    let inner: i64 = sizes.iter().skip(axis + 1).product();
    let (depth, count) = (*sizes.at(axis)?, *index_sizes.at(axis)?);
    if outer.saturating_mul(inner).saturating_mul(depth).saturating_mul(count) > limits::COMPARED {
        unsupported!("{count} updates, each compared with {depth} positions in {} lanes", outer * inner);
    }
    let indices = expand.operand(1)?;
    let indices = expand.reshape(indices, &[outer, count, inner])?;
    let hits = one_hot(expand, indices, depth, 1, DType::Bool)?;
    let (data, updates) = operands(expand, &[outer, depth, inner], &[outer, 1, count, inner])?;
    let result = apply(expand, data, &Matches { hits, updates, axis: 2 }, reduction)?;
    finish(expand, result)
}
