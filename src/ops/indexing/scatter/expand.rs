//! Expansions of Scatter with indices computed at run time, or constant ones in no regular order.

use super::{Reduction, read_reduction};
use crate::common::limits;
use crate::error::{At, Result, invalid, unsupported};
use crate::graph::Attribute;
use crate::lower::few_parts;
use crate::op::resolve_axis;
use crate::ops::indexing::gather::{element_places, row_numbers, tuple_places};
use crate::pass::expand::{Expand, Operand};
use crate::tensor::{Array, DType};

/// Returns whether the indices are a constant, and the result consists of few parts of data and updates.
fn is_moved(
    expand: &Expand,
    places: impl Fn(&[usize], &Array) -> Result<(Vec<usize>, usize)>,
) -> Result<bool> {
    if expand.constant(1).is_none() {
        return Ok(false);
    }
    let sizes: Result<Vec<usize>> =
        expand.sizes(0)?.into_iter().map(|size| Ok(usize::try_from(size)?)).collect();
    let sizes = sizes?;
    let (starts, width) = places(&sizes, &expand.array(1)?)?;
    let count = sizes.iter().product::<usize>() / width.max(1);
    limits::check_listed(count)?;
    let count = i64::try_from(count)?;
    let mut taken: Vec<i64> = (0..count).collect();
    for (number, start) in starts.iter().enumerate() {
        if let Some(place) = taken.get_mut(start / width.max(1)) {
            *place = count + i64::try_from(number)?;
        }
    }
    Ok(few_parts(&taken))
}

fn cast(expand: &mut Expand, x: Operand, dtype: DType) -> Result<Operand> {
    expand.op("Cast", &[x], &[("to", Attribute::Int(dtype.to_onnx().into()))])
}

/// Updates and their positions: `hits` is true where an update along `axis` has a position.
struct Meeting {
    hits: Operand,
    updates: Operand,
    axis: i64,
}

/// Emits the data where no update hits, and the result of the reduction elsewhere. Computed in float32.
fn meet(expand: &mut Expand, data: Operand, meeting: &Meeting, reduction: Reduction) -> Result<Operand> {
    let (neutral, reduce, combine) = match reduction {
        Reduction::Replace | Reduction::Add => (0.0, "ReduceSum", "Add"),
        Reduction::Mul => (1.0, "ReduceProd", "Mul"),
        Reduction::Max => (f32::MIN, "ReduceMax", "Max"),
        Reduction::Min => (f32::MAX, "ReduceMin", "Min"),
    };
    let neutral = expand.literal(&Array::f32(ndarray::ArrayD::from_elem(Vec::new(), neutral)))?;
    let axes = expand.ints(&[meeting.axis])?;
    let flat = || [("keepdims", Attribute::Int(0))];
    let waiting = expand.op("Where", &[meeting.hits, meeting.updates, neutral], &[])?;
    let arrived = expand.op(reduce, &[waiting, axes], &flat())?;
    if reduction != Reduction::Replace {
        return expand.op(combine, &[data, arrived], &[]);
    }
    let numbers = cast(expand, meeting.hits, DType::F32)?;
    let met = expand.op("ReduceMax", &[numbers, axes], &flat())?;
    let met = cast(expand, met, DType::Bool)?;
    expand.op("Where", &[met, arrived, data], &[])
}

fn one_hot(expand: &mut Expand, indices: Operand, depth: i64, axis: i64) -> Result<Operand> {
    let depth = expand.ints(&[depth])?;
    let values = expand.literal(&Array::bool(ndarray::Array1::from_vec(vec![false, true]).into_dyn()))?;
    expand.op("OneHot", &[indices, depth, values], &[("axis", Attribute::Int(axis))])
}

/// Returns inputs 0 and 2 as float32, in these forms.
fn operands(expand: &mut Expand, data: &[i64], updates: &[i64]) -> Result<(Operand, Operand)> {
    let dtype = expand.dtype(0)?;
    let mut both = [expand.operand(0)?, expand.operand(2)?];
    for (operand, form) in both.iter_mut().zip([data, updates]) {
        let form = expand.ints(form)?;
        *operand = expand.op("Reshape", &[*operand, form], &[])?;
        if dtype != DType::F32 {
            *operand = cast(expand, *operand, DType::F32)?;
        }
    }
    let [data, updates] = both;
    Ok((data, updates))
}

fn finish(expand: &mut Expand, result: Operand) -> Result<bool> {
    let (dtype, sizes) = (expand.dtype(0)?, expand.sizes(0)?);
    let shape = expand.ints(&sizes)?;
    let mut result = expand.op("Reshape", &[result, shape], &[])?;
    if dtype != DType::F32 {
        result = cast(expand, result, dtype)?;
    }
    expand.output(0, result)?;
    Ok(true)
}

/// Expands to rows of data whose indexed axes are merged: `[rows, updates, elements of a row]`.
pub(super) fn expand_scatter_nd(expand: &mut Expand) -> Result<bool> {
    if is_moved(expand, |sizes, indices| tuple_places(sizes, indices, 0))? {
        return Ok(false);
    }
    let reduction = read_reduction(expand)?;
    let (sizes, index_sizes) = (expand.sizes(0)?, expand.sizes(1)?);
    let Some((width, tuples)) = index_sizes.split_last() else { invalid!("the indices are a scalar") };
    let Some((indexed, slice)) = sizes.split_at_checked(usize::try_from(*width)?) else {
        invalid!("tuples of {width} indices for data of shape {sizes:?}");
    };
    let (rows, count, wide): (i64, i64, i64) =
        (indexed.iter().product(), tuples.iter().product(), slice.iter().product());
    if rows.saturating_mul(count).saturating_mul(wide) > limits::COMPARED {
        unsupported!("{count} updates, each compared with {rows} rows of {wide}");
    }
    let indices = expand.operand(1)?;
    let numbers = row_numbers(expand, indices, tuples, indexed, 0)?;
    let hits = one_hot(expand, numbers, rows, 0)?;
    let form = expand.ints(&[rows, count, 1])?;
    let hits = expand.op("Reshape", &[hits, form], &[])?;
    let (data, updates) = operands(expand, &[rows, wide], &[1, count, wide])?;
    let result = meet(expand, data, &Meeting { hits, updates, axis: 1 }, reduction)?;
    finish(expand, result)
}

/// Expands to `[outer, axis, updates, inner]`.
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
        unsupported!("indices of shape {index_sizes:?} computed at run time for data of shape {sizes:?}");
    }
    let outer: i64 = sizes.iter().take(axis).product();
    let inner: i64 = sizes.iter().skip(axis + 1).product();
    let (depth, count) = (*sizes.at(axis)?, *index_sizes.at(axis)?);
    if outer.saturating_mul(inner).saturating_mul(depth).saturating_mul(count) > limits::COMPARED {
        unsupported!("{count} updates, each compared with {depth} positions of {} axes", outer * inner);
    }
    let indices = expand.operand(1)?;
    let form = expand.ints(&[outer, count, inner])?;
    let indices = expand.op("Reshape", &[indices, form], &[])?;
    let hits = one_hot(expand, indices, depth, 1)?;
    let (data, updates) = operands(expand, &[outer, depth, inner], &[outer, 1, count, inner])?;
    let result = meet(expand, data, &Meeting { hits, updates, axis: 2 }, reduction)?;
    finish(expand, result)
}
