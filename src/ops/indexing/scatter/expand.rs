//! Expands Scatter with indices computed at run time, or many unordered constant ones.

use num_traits::ToPrimitive;

use super::{Reduction, read_reduction, replaced_rows};
use crate::common::limits;
use crate::error::{At, Result, invalid, unsupported};
use crate::lower::few_parts;
use crate::op::resolve_axis;
use crate::ops::indexing::gather::{
    element_hits, element_places, resolve_index, row_indices, rows_at, tuple_places,
};
use crate::ops::shape::{data_sizes, resized};
use crate::pass::builder::Expr;
use crate::pass::expand::Expand;
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
struct Matches<'x> {
    hits: Expr<'x>,
    updates: Expr<'x>,
    axis: i64,
}

/// Returns the data reduced with the updates, all in float32.
fn apply<'x>(data: Expr<'x>, matches: &Matches<'x>, reduction: Reduction) -> Expr<'x> {
    let Matches { hits, updates, axis } = *matches;
    let reduced = |neutral: f32, reduce| hits.select(updates, neutral).reduce(reduce, &[axis], false);
    match reduction {
        Reduction::Add => data + reduced(0.0, "ReduceSum"),
        Reduction::Mul => data * reduced(1.0, "ReduceProd"),
        Reduction::Max => data.max(reduced(f32::NEG_INFINITY, "ReduceMax")),
        Reduction::Min => data.min(reduced(f32::INFINITY, "ReduceMin")),
        Reduction::Replace => {
            let update = reduced(0.0, "ReduceSum");
            let hit = hits.cast(DType::F32).reduce("ReduceSum", &[axis], false).cast(DType::Bool);
            hit.select(update, data)
        }
    }
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
    let targets = row_indices(expand, tuples, indexed, 0)?;
    let hits = targets.one_hot(rows, 0, DType::Bool).reshape(&[rows, count, 1]);
    let data = expand.operand(0).reshape(&[rows, wide]).to_type(DType::F32);
    let updates = expand.operand(2).reshape(&[1, count, wide]).to_type(DType::F32);
    let result = apply(data, &Matches { hits, updates, axis: 1 }, reduction);
    expand.output(0, result.reshape(&sizes).to_type(expand.dtype(0)?));
    Ok(true)
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
    let (data, updates) = (expand.operand_as(0, DType::F32), expand.operand_as(2, DType::F32));
    let updates = updates.unsqueeze(&[place]);
    let result = apply(data, &Matches { hits, updates, axis: place + 1 }, reduction);
    expand.output(0, result.to_type(expand.dtype(0)?));
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
    let data = expand.operand(0);
    let mut parts = Vec::new();
    if index > 0 {
        parts.push(data.slice(place, 0, index));
    }
    parts.push(expand.operand(2));
    if !size.is(index + 1) {
        parts.push(data.slice(place, index + 1, i64::MAX));
    }
    expand.output(0, expand.make.concat(&parts, place));
    Ok(true)
}
