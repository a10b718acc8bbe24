//! Expands Scatter with indices computed at run time, or many unordered constant ones.

use num_traits::ToPrimitive;

use super::{Reduction, read_reduction, replaced_rows};
use crate::common::limits;
use crate::error::{At, Result, invalid, unsupported};
use crate::graph::Attribute;
use crate::lower::few_parts;
use crate::op::resolve_axis;
use crate::ops::indexing::gather::{
    element_hits, element_places, resolve_index, row_indices, rows_at, tuple_places,
};
use crate::ops::indexing::one_hot::one_hot;
use crate::ops::shape::{data_sizes, resized};
use crate::pass::expand::{Expand, Operand};
use crate::tensor::{Array, DType, Dim, display_shape};

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
fn apply(expand: &Expand, data: Operand, matches: &Matches, reduction: Reduction) -> Result<Operand> {
    let (neutral, reduce, combine) = match reduction {
        Reduction::Replace | Reduction::Add => (0.0, "ReduceSum", "Add"),
        Reduction::Mul => (1.0, "ReduceProd", "Mul"),
        Reduction::Max => (f32::NEG_INFINITY, "ReduceMax", "Max"),
        Reduction::Min => (f32::INFINITY, "ReduceMin", "Min"),
    };
    let neutral = expand.raw_literal(&Array::f32(ndarray::ArrayD::from_elem(Vec::new(), neutral)))?;
    let axes = expand.raw_ints(&[matches.axis])?;
    let flat = || [("keepdims", Attribute::Int(0))];
    let spread = expand.raw_op("Where", &[matches.hits, matches.updates, neutral], &[])?;
    let reduced = expand.raw_op(reduce, &[spread, axes], &flat())?;
    if reduction != Reduction::Replace {
        return expand.raw_op(combine, &[data, reduced], &[]);
    }
    let hits = expand.raw_cast(matches.hits, DType::F32)?;
    let hit = expand.raw_op("ReduceSum", &[hits, axes], &flat())?;
    let hit = expand.raw_cast(hit, DType::Bool)?;
    expand.raw_op("Where", &[hit, reduced, data], &[])
}

/// Returns inputs 0 and 2 as float32 in these shapes.
fn operands(expand: &Expand, data: &[i64], updates: &[i64]) -> Result<(Operand, Operand)> {
    let dtype = expand.dtype(0)?;
    let reshaped = |index, shape| {
        let operand = expand.raw_operand(index)?;
        let operand = expand.raw_reshape(operand, shape)?;
        if dtype == DType::F32 { Ok(operand) } else { expand.raw_cast(operand, DType::F32) }
    };
    Ok((reshaped(0, data)?, reshaped(2, updates)?))
}

fn finish(expand: &Expand, result: Operand) -> Result<bool> {
    let (dtype, sizes) = (expand.dtype(0)?, expand.sizes(0)?);
    let mut result = expand.raw_reshape(result, &sizes)?;
    if dtype != DType::F32 {
        result = expand.raw_cast(result, dtype)?;
    }
    expand.raw_output(0, result)?;
    Ok(true)
}

/// Expands ScatterND over `[rows, updates, elements of a row]`.
pub(super) fn expand_scatter_nd(expand: &Expand) -> Result<bool> {
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
    let indices = expand.raw_operand(1)?;
    let targets = row_indices(expand, indices, tuples, indexed, 0)?;
    let hits = one_hot(expand, targets, rows, 0, DType::Bool)?;
    let hits = expand.raw_reshape(hits, &[rows, count, 1])?;
    let (data, updates) = operands(expand, &[rows, wide], &[1, count, wide])?;
    let result = apply(expand, data, &Matches { hits, updates, axis: 1 }, reduction)?;
    finish(expand, result)
}

/// Expands ScatterElements: an axis of the updates after that of the data.
pub(super) fn expand_scatter_elements(expand: &Expand) -> Result<bool> {
    let (shape, index_shape) = (expand.shape(0)?.to_vec(), expand.shape(1)?.to_vec());
    let axis = resolve_axis(expand.int_or("axis", 0)?, shape.len())?;
    if is_moved(expand, |sizes, indices| Ok((element_places(sizes, indices, axis)?, 1)))? {
        return Ok(false);
    }
    let reduction = read_reduction(expand)?;
    let others = |list: &[Dim]| resized(list, axis, Dim::Known(1));
    if others(&shape) != others(&index_shape) {
        unsupported!(
            "indices of shape {} for data of shape {} are computed at run time",
            display_shape(&index_shape),
            display_shape(&shape)
        );
    }
    if reduction == Reduction::Replace && replace_one(expand, axis)? {
        return Ok(true);
    }
    let sizes = shape.iter().chain(index_shape.get(axis));
    let compared = sizes.filter_map(Dim::known).fold(1_i64, i64::saturating_mul);
    if compared > limits::COMPARED {
        let (count, depth) = (index_shape.at(axis)?, shape.at(axis)?);
        unsupported!(
            "{count} updates, each compared with {depth} positions, for data of shape {}",
            display_shape(&shape)
        );
    }
    let place = i64::try_from(axis)?;
    let hits = element_hits(expand, place, false, DType::Bool)?;
    let dtype = expand.dtype(0)?;
    let (data, updates) = (expand.raw_operand_as(0, DType::F32)?, expand.raw_operand_as(2, DType::F32)?);
    let before = expand.raw_ints(&[place])?;
    let updates = expand.raw_op("Unsqueeze", &[updates, before], &[])?;
    let mut result = apply(expand, data, &Matches { hits, updates, axis: place + 1 }, reduction)?;
    if dtype != DType::F32 {
        result = expand.raw_cast(result, dtype)?;
    }
    expand.raw_output(0, result)?;
    Ok(true)
}

/// Expands updates of one index along the axis, which is the same for all elements, to a Concat of the updates with
/// the data before and after them.
fn replace_one(expand: &Expand, axis: usize) -> Result<bool> {
    let range = expand.range(1);
    let only = Some(range.least).filter(|least| range.most <= *least && least.fract() == 0.0);
    let count = expand.shape(1)?.at(axis)?;
    let Some(index) = only.and_then(|index| index.to_i64()).filter(|_| count.is(1)) else { return Ok(false) };
    let size = expand.shape(0)?.at(axis)?.clone();
    let index = match size.known() {
        Some(size) => resolve_index(index, size)?,
        None if index < 0 => return Ok(false),
        None => index,
    };
    let place = i64::try_from(axis)?;
    let (data, updates) = (expand.raw_operand(0)?, expand.raw_operand(2)?);
    let (front, from, end, axes) = (
        expand.raw_ints(&[0])?,
        expand.raw_ints(&[index])?,
        expand.raw_ints(&[i64::MAX])?,
        expand.raw_ints(&[place])?,
    );
    let mut parts = Vec::new();
    if index > 0 {
        parts.push(expand.raw_op("Slice", &[data, front, from, axes], &[])?);
    }
    parts.push(updates);
    if !size.is(index + 1) {
        let after = expand.raw_ints(&[index + 1])?;
        parts.push(expand.raw_op("Slice", &[data, after, end, axes], &[])?);
    }
    let joined = expand.raw_op("Concat", &parts, &[("axis", Attribute::Int(place))])?;
    expand.raw_output(0, joined)?;
    Ok(true)
}
