//! Lowers Gather: constant indices to Crop and Concat, rows of a constant table to Embed, the rest to samples of the
//! nearest elements, or a product with a matrix of zeros and ones.

use super::{Rows, batch_dims, element_rows, tuple_rows};
use crate::lower::{AssumedFact, Gathered};
use crate::ncnn::layer::{Embed, MatMul};
use crate::ops::prelude::*;
use crate::ops::shape::size::data_sizes;
use crate::pass::progression::Progression;

/// The number of rows up to which a table is selected from by comparison: Embed clamps negative indices to 0.
const FEW_ROWS: i64 = 32;

pub(super) fn lower_gather(lower: &Lower) -> Result<()> {
    let shape = lower.shape(0)?.to_vec();
    let axis = resolve_axis(lower.int("axis")?, shape.len())?;
    let has_many_rows = shape.at(axis)?.known().is_some_and(|rows| rows > FEW_ROWS);
    if lower.constant(1).is_some() {
        let taken = lower.input(0).pick(axis, &lower.int_list(1)?);
        return lower.give(0, taken.reshape(lower.output_shape(0)?));
    }
    let blob = if let Some(table) = lower.constant(0).filter(|_| has_many_rows).cloned()
        && let Some(indices) = lower.indices(1)?
    {
        look_up(lower, &table, axis, indices)?
    } else if let Some((start, count)) = counts_up(lower.graph(), lower.node().input(1)) {
        lower.compute_as_outputs();
        let blob = lower.blob(0)?;
        let (alone, place) = lower.alone(blob, &shape, axis)?;
        let (size, end) = (shape.at(axis)?, &start + &count);
        lower.require(SizeCondition::equal(&end, &end.smaller(size)))?;
        lower.crop_by_expression(alone, place, &start, &count)?
    } else {
        let gathered = gathered(&shape, axis, lower.shape(1)?)?;
        if gathered.is_sampled() { sample(lower, &gathered)? } else { select(lower, &shape, axis)? }
    };
    lower.set(0, blob)
}

/// Returns the first index and the number of indices, if they count up from a number or a size.
pub(super) fn counts_up(graph: &Graph, indices: Option<ValueId>) -> Option<(Dim, Dim)> {
    let Progression { start, axes } = Progression::of(graph, indices?)?;
    let mut long = axes.into_iter().filter(|own| !own.count.is(1));
    let along = long.next().filter(|own| own.step == 1 && long.next().is_none())?;
    start.lower_bound().is_some_and(|least| least >= 0).then_some((start, along.count))
}

fn known_axis(shape: &[Dim], axis: usize) -> Result<i64> {
    let size = shape.at(axis)?;
    size.known().ok_or_else(|| Error::unsupported(format!("the gathered axis has the free size {size}")))
}

/// Looks up rows of a constant table by int32 indices. Embed clamps negative indices to 0.
fn look_up(lower: &Lower, table: &Tensor, axis: usize, indices: BlobId) -> Result<BlobId> {
    lower.assume(1, AssumedFact::NotNegative);
    if table.is_empty() {
        unsupported!("the table of shape {:?} is empty", table.shape());
    }
    let rank = table.shape().len();
    let first: Vec<usize> = std::iter::once(axis).chain((0..rank).filter(|other| *other != axis)).collect();
    let rows_shape =
        first.iter().map(|other| table.shape().at(*other).copied()).collect::<Result<Vec<usize>>>()?;
    let size = *rows_shape.at(0)?;
    let width: usize = rows_shape.iter().skip(1).product();
    let rows = if axis == 0 {
        table.clone()
    } else {
        let perm = first.clone();
        Tensor::deferred(table.dtype(), rows_shape.clone(), vec![table.clone()], move |inputs| {
            inputs.at(0)?.transpose(&perm)
        })?
    };
    let layer = Embed {
        num_output: i32::try_from(width)?,
        input_dim: i32::try_from(size)?,
        weight_data: Some(rows.reshaped(&[size, width])?),
        ..Embed::default()
    };
    let count = lower.form(indices).at(0)?.clone();
    let found = lower.emit(layer, &[indices], &[count, Dim::from(width)])?;
    // The axes of the indices replace the gathered axis, so the axes before it move to the front again.
    let mut sizes = lower.shape(1)?.to_vec();
    let depth = sizes.len();
    for size in rows_shape.iter().skip(1) {
        sizes.push(Dim::from(*size));
    }
    let perm: Vec<usize> = (depth..depth + axis).chain(0..depth).chain(depth + axis..sizes.len()).collect();
    lower.transpose(found, &sizes, &perm)
}

/// Returns the sizes of a Gather along an axis.
pub(super) fn gathered(shape: &[Dim], axis: usize, indices: &[Dim]) -> Result<Gathered> {
    let [outer, inner] = Dim::around(shape, axis);
    Ok(Gathered::rows(outer, shape.at(axis)?.clone(), Dim::product(indices), inner))
}

/// Emits indices, input `index`, with negative ones counted from the front of an axis of `size`.
pub(super) fn from_front(lower: &Lower, indices: BlobId, index: usize, size: &Dim) -> Result<BlobId> {
    if lower.range(index).least >= 0.0 {
        return Ok(indices);
    }
    if let Some(size) = size.known() {
        return lower.counted_from_front(indices, size);
    }
    let number = lower.materialize(std::slice::from_ref(size))?;
    lower.compute(indices + indices.below(0.0) * number)
}

/// Gathers indices computed at run time by samples.
fn sample(lower: &Lower, gathered: &Gathered) -> Result<BlobId> {
    lower.compute_in_float32();
    let indices = lower.blob(1)?;
    let indices = lower.certain_form(indices)?;
    let indices = from_front(lower, indices, 1, &gathered.size)?;
    let data = lower.blob(0)?;
    lower.sample(data, indices, gathered)
}

/// Gathers indices computed at run time by a matrix product.
fn select(lower: &Lower, shape: &[Dim], axis: usize) -> Result<BlobId> {
    let size = known_axis(shape, axis)?;
    let indices = lower.blob(1)?;
    let indices = from_front(lower, indices, 1, shape.at(axis)?)?;
    let infinite = lower.may_be_infinite(0)?;
    let count = Dim::product(lower.shape(1)?);
    let [outer, inner] = Dim::around(shape, axis);
    let matrix = lower.one_hot(indices, size)?;
    let size = Dim::Known(size);
    let form = match (inner.is(1), outer.is(1)) {
        (true, _) => vec![outer.clone(), size],
        (_, true) => vec![size, inner.clone()],
        _ => vec![outer.clone(), size, inner.clone()],
    };
    let mut data = lower.blob_as(0, &form)?;
    if infinite {
        data = lower.bounded_half(data)?;
    }
    let picked = match (inner.is(1), outer.is(1)) {
        (true, _) => lower.emit(MatMul { transB: 1 }, &[data, matrix], &[outer, count])?,
        (_, true) => lower.emit(MatMul::default(), &[matrix, data], &[count, inner])?,
        _ => lower.emit(MatMul::default(), &[matrix, data], &[outer, count, inner])?,
    };
    if infinite { lower.compute(picked * 2.0) } else { Ok(picked) }
}

/// Gathers constant rows of the input.
fn gather_rows(lower: &Lower, rows: &Rows) -> Result<()> {
    let width = Dim::from(rows.width);
    let count = Dim::product(lower.shape(0)?).floor_div(&width);
    let positions: Vec<i64> = rows.places.iter().map(Int::int).collect();
    let taken = lower.input(0).reshape(shape![count, width]).pick(0, &positions);
    lower.give(0, taken.reshape(lower.output_shape(0)?))
}

pub(super) fn lower_gather_elements(lower: &Lower) -> Result<()> {
    let sizes = data_sizes(lower)?;
    let axis = resolve_axis(lower.int("axis")?, sizes.len())?;
    gather_rows(lower, &element_rows(&sizes, lower.array(1)?, axis)?)
}

pub(super) fn lower_gather_nd(lower: &Lower) -> Result<()> {
    gather_rows(lower, &tuple_rows(&data_sizes(lower)?, lower.array(1)?, batch_dims(lower)?)?)
}
