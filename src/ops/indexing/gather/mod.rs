//! Gather, GatherElements, GatherND: elements selected by index.
//!
//! | ONNX | ncnn |
//! | --- | --- |
//! | constant indices | Crop, Slice, Concat, Tile; for many unordered indices as for indices computed at run time |
//! | Gather of a constant table by a graph input | Embed, which reads int32 and clamps negative indices to 0 |
//! | other indices computed at run time | GridSample of the nearest elements; a product with a matrix of zeros and ones from comparing them with all positions if that takes less time |
//!
//! Spec: <https://onnx.ai/onnx/operators/onnx__Gather.html>, `onnx__GatherElements.html`,
//! `onnx__GatherND.html`.

mod along;
mod expand;
mod lower;

use crate::op::{Move, Moved, index_from_front, resolve_index};
use crate::ops::prelude::*;
use crate::tensor::{Span, coordinates, progression, row_major};

pub(in crate::ops) use along::repeated;
pub(in crate::ops) use expand::{element_hits, hits_along, row_indices, uniform};
pub(in crate::ops) use lower::embed;

pub(in crate::ops) const OPS: &[Row] = &[
    along::ROW,
    Row::new("Gather", Access::Selection, infer_gather)
        .fold(fold_gather)
        .expand(expand::expand_gather)
        .lower(lower::lower_gather)
        .moves(gather_constant)
        .transparent(|_, _| true)
        .expects(|call, index, _| {
            call.constant(0).filter(|_| index == 1)?;
            Some(Fact::new(DType::I64, shape![1, Dim::symbol("S")]))
        })
        .lowers_to(
            "Crop, Slice, Concat, Tile for constant indices; Embed of a constant table; \
            else GridSample, or a product with a matrix of zeros and ones",
        )
        .states("negative indices that Embed reads, stated by value"),
    Row::new("GatherElements", Access::Selection, infer_gather_elements)
        .fold(fold_gather_elements)
        .expand(expand::expand_gather_elements)
        .lower(lower::lower_gather_elements)
        .transparent(|_, _| true)
        .lowers_to(MOVED_OR_MULTIPLIED),
    Row::new("GatherND", Access::Selection, infer_gather_nd)
        .fold(fold_gather_nd)
        .expand(expand::expand_gather_nd)
        .lower(lower::lower_gather_nd)
        .transparent(|_, _| true)
        .lowers_to(MOVED_OR_MULTIPLIED),
];

const MOVED_OR_MULTIPLIED: &str =
    "Crop, Slice, Concat for constant indices; else GridSample, or a product with a matrix of zeros and ones";

/// The rows of data that constant indices address.
pub(in crate::ops) struct Rows {
    /// The indices of the rows, as if all axes before the elements of a row were one.
    pub indices: Vec<usize>,
    /// The number of elements of a row.
    pub width: usize,
}

impl Rows {
    /// Returns the offsets of all elements of the rows.
    pub fn offsets(&self) -> Vec<usize> {
        self.indices.iter().flat_map(|row| row * self.width..(row + 1) * self.width).collect()
    }

    /// Returns the number of rows of data of these sizes.
    pub fn count_in(&self, sizes: &[usize]) -> Result<usize> {
        let count = sizes.iter().product::<usize>() / self.width.max(1);
        limits::check_listed(count)?;
        Ok(count)
    }
}

/// Returns the indices in an array, counted from the front of an axis of `size`.
fn resolved(indices: &Array, size: usize) -> Result<Vec<usize>> {
    let size = size.int();
    indices.int_list()?.into_iter().map(|i| Ok(usize::try_from(resolve_index(i, size)?)?)).collect()
}

/// Requires that constant indices, tuples of one for each of `sizes`, lie within the axes of free size.
pub(in crate::ops) fn require_within(call: &Call, input: usize, sizes: &[Dim]) -> Result<()> {
    let is_free = |size: &Dim| size.known().is_none();
    let constant = call.constant(input).filter(|indices| indices.len() <= limits::LOOKED_AT);
    let Some(indices) = constant.filter(|_| sizes.iter().any(is_free)) else { return Ok(()) };
    let indices = indices.load_listed()?.int_list()?;
    for (index, size) in sizes.iter().enumerate().filter(|(_, size)| is_free(size)) {
        let counts = indices.iter().skip(index).step_by(sizes.len());
        let counts =
            counts.map(|index| if *index < 0 { index.saturating_neg() } else { index.saturating_add(1) });
        call.require(SizeCondition::at_least(size, counts.max().unwrap_or(0)))?;
    }
    Ok(())
}

// Gather

fn infer_gather(call: &Call) -> Result<Vec<Fact>> {
    let data = call.shape(0)?;
    let axis = resolve_axis(call.int("axis")?, data.len())?;
    require_within(call, 1, std::slice::from_ref(data.at(axis)?))?;
    Ok(vec![Fact::new(call.dtype(0)?, gathered_shape(data, axis, call.shape(1)?))])
}

/// Returns the elements at constant indices.
fn gather_constant(call: &Call) -> Result<Vec<Moved>> {
    let (data, indices) = (call.shape(0)?, call.shape(1)?);
    let axis = resolve_axis(call.int("axis")?, data.len())?;
    if element_count(indices)
        .and_then(|count| usize::try_from(count).ok())
        .is_none_or(|count| count > limits::LOOKED_AT)
    {
        unsupported!("indices of shape {}", display_shape(indices));
    }
    let (mut list, size) = (call.int_list(1)?, data.at(axis)?);
    if let Some(size) = size.known() {
        list = list.into_iter().map(|index| resolve_index(index, size)).collect::<Result<_>>()?;
    }
    let is_from_end = |index: &i64| *index < 0;
    let from_one_end = list.iter().all(is_from_end) || !list.iter().any(is_from_end);
    let step = match progression(&list).filter(|(_, step)| from_one_end && *step != 0) {
        Some((start, step)) => {
            let start = index_from_front(start, size);
            Move::Take { axis, span: Span { start, step, count: list.len().into() } }
        }
        None => Move::Pick { axis, indices: list },
    };
    let reshape = (indices.len() != 1).then(|| Move::Reshape(gathered_shape(data, axis, indices)));
    Ok(vec![Moved::by(std::iter::once(step).chain(reshape))])
}

fn gathered_shape(data: &[Dim], axis: usize, indices: &[Dim]) -> Vec<Dim> {
    data.iter().take(axis).chain(indices).chain(data.iter().skip(axis + 1)).cloned().collect()
}

fn fold_gather(call: &Call) -> Result<Vec<Array>> {
    let (data, indices) = (call.array(0)?, call.array(1)?);
    let sizes = data.shape();
    let axis = resolve_axis(call.int("axis")?, sizes.len())?;
    let taken = data.gather(axis, &resolved(indices, *sizes.at(axis)?)?)?;
    let (outer, inner) = (sizes.iter().take(axis), sizes.iter().skip(axis + 1));
    let shape: Vec<usize> = outer.chain(indices.shape()).chain(inner).copied().collect();
    Ok(vec![taken.reshape(&shape)?])
}

// GatherElements

fn infer_gather_elements(call: &Call) -> Result<Vec<Fact>> {
    let data = call.shape(0)?;
    let axis = resolve_axis(call.int("axis")?, data.len())?;
    require_within(call, 1, std::slice::from_ref(data.at(axis)?))?;
    Ok(vec![Fact::new(call.dtype(0)?, call.shape(1)?.to_vec())])
}

/// Returns the rows of one element, in data of shape `data`, that GatherElements and ScatterElements address.
pub(in crate::ops) fn element_rows(data: &[usize], indices: &Array, axis: usize) -> Result<Rows> {
    if data.len() != indices.shape().len() {
        invalid!("the indices have {} axes, the data {}", indices.shape().len(), data.len());
    }
    let along = resolved(indices, *data.at(axis)?)?;
    let mut rows = Vec::with_capacity(along.len());
    for (mut at, index) in coordinates(indices.shape()).zip(along) {
        at.put(axis, index);
        if at.iter().zip(data).any(|(i, size)| i >= size) {
            invalid!("indices of shape {:?} do not fit data of shape {data:?}", indices.shape());
        }
        rows.push(row_major(data, &at));
    }
    Ok(Rows { indices: rows, width: 1 })
}

fn fold_gather_elements(call: &Call) -> Result<Vec<Array>> {
    let (data, indices) = (call.array(0)?, call.array(1)?);
    let axis = resolve_axis(call.int("axis")?, data.shape().len())?;
    Ok(vec![data.pick(&element_rows(data.shape(), indices, axis)?.indices, indices.shape())?])
}

// GatherND

/// Returns the number of leading batch axes that data and indices share; since version 12.
fn batch_dims(call: &Call) -> Result<usize> {
    let batch = if call.since() >= 12 { call.int("batch_dims")? } else { 0 };
    Ok(usize::try_from(batch)?)
}

fn infer_gather_nd(call: &Call) -> Result<Vec<Fact>> {
    let (data, indices) = (call.shape(0)?, call.shape(1)?);
    let batch = batch_dims(call)?;
    let Some((width, tuples)) = indices.split_last() else { invalid!("the indices have no axes") };
    let Some(width) = width.known() else {
        unsupported!("the indices {} have a last axis of free size", display_shape(indices));
    };
    let width = usize::try_from(width)?;
    if batch + width > data.len() || batch > tuples.len() || width == 0 {
        invalid!("tuples of {width} indices do not fit data of shape {}", display_shape(data));
    }
    require_within(call, 1, data.get(batch..batch + width).unwrap_or_default())?;
    let mut shape = tuples.to_vec();
    shape.extend(data.iter().skip(batch + width).cloned());
    Ok(vec![Fact::new(call.dtype(0)?, shape)])
}

/// Returns the rows of data of shape `data` that tuples of indices address.
pub(in crate::ops) fn tuple_rows(data: &[usize], indices: &Array, batch: usize) -> Result<Rows> {
    let Some((width, tuples)) = indices.shape().split_last() else { invalid!("the indices have no axes") };
    let (batch_sizes, rest) = data.split_at_checked(batch).unwrap_or((data, &[]));
    let Some((indexed, slice)) = rest.split_at_checked(*width) else {
        invalid!("tuples of {width} indices do not fit data of shape {data:?}");
    };
    if tuples.get(..batch) != Some(batch_sizes) {
        invalid!("indices of shape {:?} do not fit data of shape {data:?}", indices.shape());
    }
    let per_batch: usize = tuples.iter().skip(batch).product();
    let list = indices.int_list()?;
    let mut rows = Vec::with_capacity(tuples.iter().product());
    for (tuple_index, tuple) in list.chunks((*width).max(1)).enumerate() {
        let mut row = tuple_index / per_batch.max(1);
        for (index, size) in tuple.iter().zip(indexed) {
            row = row * size + usize::try_from(resolve_index(*index, size.int())?)?;
        }
        rows.push(row);
    }
    Ok(Rows { indices: rows, width: slice.iter().product() })
}

fn fold_gather_nd(call: &Call) -> Result<Vec<Array>> {
    let (data, indices) = (call.array(0)?, call.array(1)?);
    let batch = batch_dims(call)?;
    let offsets = tuple_rows(data.shape(), indices, batch)?.offsets();
    let (width, tuples) = indices.shape().split_last().unwrap_or((&0, &[]));
    let shape: Vec<usize> = tuples.iter().chain(data.shape().iter().skip(batch + width)).copied().collect();
    Ok(vec![data.pick(&offsets, &shape)?])
}

#[cfg(test)]
mod tests {
    use super::*;
    use ndarray::ArrayD;

    fn ints(shape: &[usize], elements: &[i64]) -> Array {
        Array::i64(ArrayD::from_shape_vec(shape, elements.to_vec()).unwrap())
    }

    #[test]
    fn offsets_match_the_specification() {
        let elements =
            |data: &[usize], indices: Array, axis| Some(element_rows(data, &indices, axis).ok()?.indices);
        let tuples =
            |data: &[usize], indices: Array, batch| Some(tuple_rows(data, &indices, batch).ok()?.offsets());
        assert_eq!(elements(&[3, 3], ints(&[2, 3], &[1, 2, 0, 2, 0, 0]), 0).unwrap(), [3, 7, 2, 6, 1, 2]);
        assert_eq!(elements(&[2, 2], ints(&[2, 2], &[0, -1, 1, 0]), 1).unwrap(), [0, 1, 3, 2]);
        assert_eq!(elements(&[2, 2], ints(&[2, 2], &[0, 2, 1, 0]), 1), None);
        assert_eq!(tuples(&[2, 2], ints(&[2, 2], &[0, 0, 1, -1]), 0).unwrap(), [0, 3]);
        assert_eq!(tuples(&[2, 2, 2], ints(&[2, 1], &[1, 0]), 1).unwrap(), [2, 3, 4, 5]);
        assert_eq!(tuples(&[2, 2], ints(&[3, 1], &[1, 0, 1]), 1), None);
    }
}
