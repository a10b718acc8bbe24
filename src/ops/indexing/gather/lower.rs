//! Lowers Gather: constant indices to Crop and Concat, rows of a constant table to Embed, the rest to samples
//! of the nearest elements, or a product with a matrix of zeros and ones.

use super::{Rows, batch_dims, element_rows, tuple_rows};
use crate::lower::{AssumedFact, Gathered};
use crate::ncnn::layer::{Embed, InnerProduct};
use crate::ops::prelude::*;
use crate::ops::shape::size::data_sizes;
use crate::pass::progression::Progression;

/// The number of rows up to which a table is selected from by comparison: Embed clamps negative indices to 0.
const FEW_ROWS: i64 = 32;

pub(super) fn lower_gather(lower: &Lower) -> Result<()> {
    let data = lower.input(0);
    let shape = data.shape();
    let axis = resolve_axis(lower.int("axis")?, shape.len())?;
    let has_many_rows = shape.at(axis)?.known().is_some_and(|rows| rows > FEW_ROWS);
    let taken = if lower.constant(1).is_some() {
        data.pick(axis, &lower.int_list(1)?)
    } else if let Some(table) = lower.constant(0).filter(|_| has_many_rows)
        && let Some(indices) = lower.integers(1)?
    {
        look_up(lower, table, axis, indices)?
    } else if let Some((start, count)) = counts_up(lower.graph(), lower.node().input(1)) {
        lower.compute_as_outputs();
        let end = &start + &count;
        lower.require(SizeCondition::equal(&end, &end.minimum(shape.at(axis)?)))?;
        data.slice(axis, start, count)
    } else if let Some(row) = row_of_weights(lower, axis)? {
        row
    } else {
        let gathered = gathered(&shape, axis, lower.shape(1)?)?;
        if gathered.is_sampled() { sample(lower, &gathered)? } else { select(lower, axis)? }
    };
    lower.give(0, taken.reshape(lower.output_shape(0)?))
}

/// Returns the first index and the number of indices, if they count up from a number or a size.
pub(super) fn counts_up(graph: &Graph, indices: Option<ValueId>) -> Option<(Dim, Dim)> {
    let Progression { start, axes } = Progression::of(graph, indices?)?;
    let mut long = axes.into_iter().filter(|axis| !axis.count.is(1));
    let along = long.next().filter(|axis| axis.step == 1 && long.next().is_none())?;
    start.lower_bound().is_some_and(|least| least >= 0).then_some((start, along.count))
}

/// Looks up rows of a constant table by int32 indices.
fn look_up<'l>(lower: &'l Lower, table: &Tensor, axis: usize, indices: Nd<'l>) -> Result<Nd<'l>> {
    lower.assume(1, AssumedFact::NotNegative);
    if table.is_empty() {
        unsupported!("the table of shape {:?} is empty", table.shape());
    }
    let rank = table.shape().len();
    let perm: Vec<usize> = std::iter::once(axis).chain((0..rank).filter(|other| *other != axis)).collect();
    let sizes = perm.iter().map(|axis| table.shape().at(*axis).copied()).collect::<Result<Vec<usize>>>()?;
    let (size, width) = (*sizes.at(0)?, sizes.iter().skip(1).product());
    let rows = if axis == 0 {
        table.clone()
    } else {
        Tensor::deferred(table.dtype(), sizes.clone(), vec![table.clone()], move |inputs| {
            inputs.at(0)?.transpose(&perm)
        })?
    };
    let found = embed(indices, &rows.reshaped(&[size, width])?, None)?;
    // The axes of the indices replace the gathered axis, so the axes before it move to the front again.
    let depth = lower.shape(1)?.len();
    let shape: Shape =
        lower.shape(1)?.iter().cloned().chain(sizes.into_iter().skip(1).map(Dim::from)).collect();
    let perm: Vec<usize> = (depth..depth + axis).chain(0..depth).chain(depth + axis..shape.len()).collect();
    Ok(found.reshape(shape).transpose(&perm))
}

/// Returns the rows of a constant table at int32 indices. Embed clamps negative indices to 0.
pub(in crate::ops) fn embed<'l>(indices: Nd<'l>, table: &Tensor, scale: Option<Tensor>) -> Result<Nd<'l>> {
    let (rows, width) = (*table.shape().at(0)?, *table.shape().at(1)?);
    let layer = Embed {
        num_output: i32::try_from(width)?,
        input_dim: i32::try_from(rows)?,
        weight_data: Some(table.clone()),
        weight_data_int8_scale: scale,
        ..Embed::default()
    };
    Ok(indices.layer(layer, [indices.size(0), Dim::from(width)]))
}

/// Returns the sizes of a Gather along an axis.
pub(super) fn gathered(shape: &[Dim], axis: usize, indices: &[Dim]) -> Result<Gathered> {
    let [outer, inner] = Dim::around(shape, axis);
    Ok(Gathered::rows(outer, shape.at(axis)?.clone(), Dim::product(indices), inner))
}

/// Returns indices, input `index`, with negative ones counted from the front of an axis of `size`.
fn from_front<'l>(lower: &'l Lower, indices: Nd<'l>, index: usize, size: &Dim) -> Nd<'l> {
    if lower.range(index).least >= 0.0 { indices } else { indices.counted_from_front(size) }
}

/// Returns indices for samples of an axis of `size`, see [`from_front`].
pub(super) fn sampled_indices<'l>(lower: &'l Lower, index: usize, size: &Dim) -> Nd<'l> {
    lower.compute_in_float32();
    from_front(lower, lower.input(index).in_known_layout(), index, size)
}

/// Gathers indices computed at run time by samples.
fn sample<'l>(lower: &'l Lower, gathered: &Gathered) -> Result<Nd<'l>> {
    let indices = sampled_indices(lower, 1, &gathered.size);
    Ok(lower.input(0).sample(indices, gathered, lower.output_shape(0)?))
}

/// Gathers indices computed at run time by a matrix product.
fn select<'l>(lower: &'l Lower, axis: usize) -> Result<Nd<'l>> {
    let data = lower.input(0);
    let size = data.size(axis);
    let Some(known) = size.known() else { unsupported!("the gathered axis has the free size {size}") };
    let infinite = lower.may_be_infinite(0)?;
    let matrix = from_front(lower, lower.input(1), 1, &size).one_hot(known);
    let data = if infinite { data.bounded_half() } else { data };
    let picked = data.product(axis, matrix);
    Ok(if infinite { picked * 2.0 } else { picked })
}

/// The most elements of a table that is a weight: it is searched for infinities.
const MAX_WEIGHTS: usize = 1 << 22;

/// Gathers one row of a constant table as a product with its weights: the runtime copies a constant blob
/// first, and no weight.
fn row_of_weights<'l>(lower: &'l Lower<'l>, axis: usize) -> Result<Option<Nd<'l>>> {
    let Some(table) = lower.constant(0).filter(|table| table.len() <= MAX_WEIGHTS) else { return Ok(None) };
    let size = *table.shape().at(axis)?;
    let is_row = Dim::product(lower.shape(1)?).is(1) && table.dtype() == DType::F32 && size > 1;
    if !is_row || !table.load()?.all_numbers(f64::is_finite) {
        return Ok(None);
    }
    let width = table.len() / size;
    lower.compute_in_float32();
    let matrix = from_front(lower, lower.input(1), 1, &size.into()).one_hot(size.int());
    let mut perm: Vec<usize> = (0..table.shape().len()).filter(|other| *other != axis).collect();
    perm.push(axis);
    let columns = Tensor::deferred(DType::F32, vec![width, size], vec![table.clone()], move |inputs| {
        inputs.at(0)?.transpose(&perm)?.reshape(&[width, size])
    })?;
    let layer = InnerProduct {
        num_output: i32::try_from(width)?,
        weight_data: Some(columns),
        ..InnerProduct::default()
    };
    Ok(Some(matrix.reshape(shape![size]).layer(layer, shape![width])))
}

/// Gathers constant rows of the input.
fn gather_rows(lower: &Lower, rows: &Rows) -> Result<()> {
    let width = Dim::from(rows.width);
    let count = Dim::product(lower.shape(0)?).floor_div(&width);
    let positions: Vec<i64> = rows.indices.iter().map(Int::int).collect();
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
