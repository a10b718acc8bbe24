//! Expands GatherElements and GatherND with indices computed at run time, or many unordered constant ones.

use num_traits::AsPrimitive;

use super::lower::gathered;
use super::{Rows, along, batch_dims, element_rows, tuple_rows};
use crate::lower::{MAX_PARTS, ends};
use crate::ops::elementwise::compare::expand_table_with_nan;
use crate::ops::indexing::one_hot::pick;
use crate::ops::prelude::*;
use crate::ops::shape::size::{data_sizes, resized};
use crate::pass::pattern::inverse;
use crate::tensor::segment_count;

/// The maximum number of elements of a constant that are compared with the first.
const MAX_UNIFORM: usize = 1 << 16;

/// Expands a gather from a constant with NaN by a product.
pub(super) fn expand_gather(expand: &Expand) -> Result<bool> {
    let shape = expand.shape(0)?;
    let axis = resolve_axis(expand.int("axis")?, shape.len())?;
    Ok(!gathered(shape, axis, expand.shape(1)?)?.is_sampled() && expand_table_with_nan(expand)?)
}

/// Returns indices with negative ones counted from the front of axes of these sizes.
fn from_front<'x>(indices: Expr<'x>, sizes: Expr<'x>) -> Expr<'x> {
    indices.less(0).select(indices + sizes, indices)
}

/// Returns whether input 1 is a constant whose elements few layers gather.
fn is_moved(expand: &Expand, rows: impl Fn(&[usize], &Array) -> Result<Rows>) -> Result<bool> {
    if expand.constant(1).is_none() {
        return Ok(false);
    }
    let rows = rows(&data_sizes(expand)?, expand.array(1)?)?;
    let indices: Vec<i64> = rows.indices.into_iter().map(Int::int).collect();
    Ok(segment_count(&indices) <= MAX_PARTS)
}

/// Returns data whose axes other than `axis` have the sizes of the indices, which may be smaller.
fn cut_to_indices<'x>(expand: &'x Expand, axis: usize) -> Result<Expr<'x>> {
    let (shape, index_shape) = (expand.shape(0)?, expand.shape(1)?);
    let (data, indices) = (expand.operand(0), expand.operand(1));
    let differ = |other: &usize| *other != axis && shape.get(*other) != index_shape.get(*other);
    let shorter: Result<Vec<i64>> = (0..shape.len()).filter(differ).map(|other| Ok(other.int())).collect();
    let shorter = shorter?;
    if shorter.is_empty() {
        return Ok(data);
    }
    let (starts, axes) = (expand.make.ints(&vec![0; shorter.len()]), expand.make.ints(&shorter));
    let ends = indices.shape().gather(axes, 0);
    Ok(expand.make.op("Slice", [data, starts, ends, axes], []))
}

/// Expands constant indices into data of free sizes to the same gather from the elements at the ends of their
/// axes.
fn cut_free_axes(expand: &Expand, axis: usize) -> Result<bool> {
    let shape = expand.shape(0)?;
    if expand.constant(1).is_none() || shape.iter().all(|size| size.known().is_some()) {
        return Ok(false);
    }
    let mut data = expand.operand(0);
    for (i, (size, count)) in shape.iter().zip(expand.sizes(1)?).enumerate() {
        if size.known().is_some() {
            continue;
        }
        let [front, back] = if i == axis { ends(&expand.array(1)?.int_list()?) } else { [count, 0] };
        limits::check_listed(usize::try_from(front.saturating_add(back))?)?;
        let taken: Vec<i64> = (0..front).chain(-back..0).collect();
        data = data.gather(expand.make.ints(&taken), i);
    }
    let axis = [("axis", axis.into())];
    expand.output(0, expand.make.op("GatherElements", [data, expand.operand(1)], axis));
    Ok(true)
}

/// Expands to the sum over `i` of `(index == i) * data[i]`: the axis of the indices precedes the data's.
pub(super) fn expand_gather_elements(expand: &Expand) -> Result<bool> {
    if expand_uniform(expand)? {
        return Ok(true);
    }
    let (shape, index_shape) = (expand.shape(0)?.to_vec(), expand.shape(1)?.to_vec());
    let axis = resolve_axis(expand.int("axis")?, shape.len())?;
    if index_shape.len() != shape.len() {
        invalid!("the indices have {} axes, the data {}", index_shape.len(), shape.len());
    }
    if cut_free_axes(expand, axis)? {
        return Ok(true);
    }
    if is_moved(expand, |sizes, indices| element_rows(sizes, indices, axis))? {
        return Ok(false);
    }
    if sample_along(expand, axis)? || expand_table_with_nan(expand)? {
        return Ok(true);
    }
    let data = cut_to_indices(expand, axis)?;
    if multiply_rows(expand, data, axis)? {
        return Ok(true);
    }
    let along = axis.int();
    let data = data.unsqueeze(&[along]);
    let hits = element_hits(expand, along, true, DType::F32)?;
    let sum = |data| (hits * data).reduce("ReduceSum", &[along + 1], false);
    expand.output(0, pick(data, expand.dtype(0)?, sum));
    Ok(true)
}

/// Expands to a gather whose indices broadcast, if it is sampled.
fn sample_along(expand: &Expand, axis: usize) -> Result<bool> {
    let Some(indices) = expand.node().input(1) else { return Ok(false) };
    let shape = resized(expand.shape(1)?, axis, expand.shape(0)?.at(axis)?.clone());
    let (source, Some(index_shape)) = along::repeated(expand.graph(), indices, axis) else {
        return Ok(false);
    };
    if !along::gathered(&shape, &index_shape, axis)?.is_sampled() {
        return Ok(false);
    }
    let inputs = [cut_to_indices(expand, axis)?, expand.make.value(source)];
    expand.output(0, expand.make.op("ncnn.GatherAlong", inputs, [("axis", axis.into())]));
    Ok(true)
}

/// Expands to a matrix product with zeros and ones if an Expand repeats the indices along one axis, as for
/// all heads of an attention: a product for each element has as many times the elements.
fn multiply_rows<'x>(expand: &'x Expand, data: Expr<'x>, axis: usize) -> Result<bool> {
    let id = expand.node().input(1);
    let producer = id.and_then(|id| expand.graph().producer(id));
    let Some(source) = producer.filter(|node| node.is("Expand")).and_then(|node| node.input(0)) else {
        return Ok(false);
    };
    let (Some(shape), index_shape) = (&expand.graph().value(source).shape, expand.shape(1)?) else {
        return Ok(false);
    };
    let (rank, depth) = (index_shape.len(), expand.shape(0)?.at(axis)?.known());
    let repeated = |other: &usize| {
        *other != axis
            && shape.get(*other).is_some_and(|size| size.is(1))
            && shape.get(*other) != index_shape.get(*other)
    };
    let rows: Vec<usize> = (0..rank).filter(repeated).collect();
    let ([row], Some(depth), true) = (rows.as_slice(), depth, shape.len() == rank) else { return Ok(false) };
    if shape.get(axis) != index_shape.get(axis) {
        return Ok(false);
    }
    let mut order: Vec<usize> = (0..rank).filter(|other| other != row && *other != axis).collect();
    order.extend([*row, axis]);
    let indices = expand.make.value(source).transpose(&order).squeeze(&[rank.int() - 2]);
    let hits = indices.one_hot(depth, -2, DType::F32);
    let found = pick(data.transpose(&order), expand.dtype(0)?, |data| data.matmul(hits));
    expand.output(0, found.transpose(&inverse(&order)));
    Ok(true)
}

/// Returns 1 where an index of GatherElements or ScatterElements is equal to a position along `axis` of the
/// data, else 0: the axis of the positions is before the axis of the indices, or after it.
pub(in crate::ops) fn element_hits<'x>(
    expand: &'x Expand,
    axis: i64,
    after: bool,
    dtype: DType,
) -> Result<Expr<'x>> {
    let (indices, rank) = (expand.operand(1), expand.shape(1)?.len());
    hits_along(expand, axis, (indices, rank), axis + i64::from(after), dtype)
}

/// Returns 1 where one of the indices, a value of `rank` axes, is equal to a position along `axis` of the
/// data, else 0; the axis of the positions is `positions_axis`.
pub(in crate::ops) fn hits_along<'x>(
    expand: &'x Expand,
    axis: i64,
    (indices, rank): (Expr<'x>, usize),
    positions_axis: i64,
    dtype: DType,
) -> Result<Expr<'x>> {
    if let Some(depth) = expand.shape(0)?.at(usize::try_from(axis)?)?.known() {
        return Ok(indices.one_hot(depth, positions_axis, dtype));
    }
    let data = expand.operand(0);
    let (size, positions) = (data.size(axis), data.positions(axis));
    let front = from_front(indices.cast(DType::I64), size).unsqueeze(&[positions_axis]);
    Ok(front.equal(positions.along(usize::try_from(positions_axis)?, rank + 1)).to_type(dtype))
}

/// Returns the element of input `index`, if that is a constant whose elements are all the same.
pub(in crate::ops) fn uniform(expand: &Expand, index: usize) -> Result<Option<f64>> {
    if expand.constant(index).is_none_or(|constant| constant.len() > MAX_UNIFORM) {
        return Ok(None);
    }
    let elements = expand.array(index)?.to_f64()?;
    let first = elements.first().copied();
    Ok(first.filter(|first| elements.iter().all(|element| element.to_bits() == first.to_bits())))
}

/// Expands a gather from constant data with equal elements to one of them.
fn expand_uniform(expand: &Expand) -> Result<bool> {
    let first = if expand.constant(1).is_none() { uniform(expand, 0)? } else { None };
    let Some(first) = first else { return Ok(false) };
    let rounded: f32 = first.as_();
    if f64::from(rounded).to_bits() != first.to_bits() {
        return Ok(false);
    }
    let one = expand.make.number(rounded, expand.dtype(0)?);
    expand.output(0, one.broadcast_to(expand.operand(1).shape()));
    Ok(true)
}

/// Returns the row that each tuple of indices, input 1, addresses in data whose indexed axes are merged.
pub(in crate::ops) fn row_indices<'x>(
    expand: &'x Expand,
    tuples: &[i64],
    sizes: &[i64],
    batch: usize,
) -> Result<Expr<'x>> {
    let width = (sizes.len() - batch).int();
    let indexed = sizes.get(batch..).unwrap_or_default();
    let mut strides = vec![1_i64; indexed.len()];
    for axis in (1..indexed.len()).rev() {
        let stride = strides.at(axis)?.saturating_mul(*indexed.at(axis)?);
        strides = resized(&strides, axis - 1, stride);
    }
    let count: i64 = tuples.iter().product();
    let indices = expand.operand(1).cast(DType::I64).reshape(&[count, width]);
    let scaled = from_front(indices, expand.make.ints(indexed)) * expand.make.ints(&strides);
    let rows = scaled.reduce("ReduceSum", &[1], false);
    let batches: i64 = sizes.iter().take(batch).product();
    if batches <= 1 {
        return Ok(rows);
    }
    limits::check_listed(usize::try_from(count)?)?;
    let (per_batch, step): (i64, i64) = (count / batches, indexed.iter().product());
    let offsets: Vec<i64> = (0..count).map(|number| number / per_batch.max(1) * step).collect();
    Ok(rows + expand.make.ints(&offsets))
}

/// Returns a value with the axes before `depth` replaced by axes of these sizes; the others may have free
/// sizes.
fn with_leading<'x>(expand: &'x Expand, value: Expr<'x>, depth: i64, sizes: &[i64]) -> Expr<'x> {
    let rest = expand.make.op("Shape", [value], [("start", depth.into())]);
    value.reshape_to(expand.make.concat(&[expand.make.ints(sizes), rest], 0))
}

/// Expands constant indices of the first axes, whose sizes are known, to a Gather. The other axes may have
/// free sizes.
fn expand_leading(expand: &Expand) -> Result<bool> {
    let shape = expand.shape(0)?.to_vec();
    if expand.constant(1).is_none() || shape.iter().all(|size| size.known().is_some()) {
        return Ok(false);
    }
    let index_sizes = expand.sizes(1)?;
    let Some((width, tuples)) = index_sizes.split_last() else { invalid!("the indices have no axes") };
    let depth = usize::try_from(*width)?;
    let indexed: Option<Vec<usize>> = Dim::known_sizes(shape.iter().take(depth));
    let Some(indexed) = indexed.filter(|_| batch_dims(expand).is_ok_and(|batch| batch == 0)) else {
        return Ok(false);
    };
    let rows = tuple_rows(&indexed, expand.array(1)?, 0)?.indices;
    let rows: std::result::Result<Vec<i64>, _> = rows.into_iter().map(i64::try_from).collect();
    let count = indexed.iter().product::<usize>().int();
    let merged = with_leading(expand, expand.operand(0), *width, &[count]);
    let taken = merged.gather(expand.make.ints(&rows?), 0);
    expand.output(0, with_leading(expand, taken, 1, tuples));
    Ok(true)
}

/// Expands tuples of indices of which all but one index an axis of size 1 to a Gather along the other axis,
/// if that has a free size.
fn expand_single(expand: &Expand) -> Result<bool> {
    let shape = expand.shape(0)?.to_vec();
    let Some(width) = expand.shape(1)?.last().and_then(Dim::known) else { return Ok(false) };
    let (indexed, _) = shape.split_at_checked(usize::try_from(width)?).unwrap_or_default();
    let mut others = (0_i64..).zip(indexed).filter(|(_, size)| !size.is(1));
    let (Some((axis, size)), None) = (others.next(), others.next()) else { return Ok(false) };
    if size.known().is_some() || batch_dims(expand)? != 0 {
        return Ok(false);
    }
    let (mut data, indices) = (expand.operand(0), expand.operand(1).element(-1, axis));
    let ones: Vec<i64> = (0..width).filter(|other| *other != axis).collect();
    if !ones.is_empty() {
        data = data.squeeze(&ones);
    }
    expand.output(0, data.gather(indices, 0));
    Ok(true)
}

/// Expands tuples of indices of axes of which some have free sizes to a Gather of rows of data whose indexed
/// axes are merged. The index of a batch axis is the position of the tuple.
fn expand_free(expand: &Expand) -> Result<bool> {
    let (shape, index_shape) = (expand.shape(0)?, expand.shape(1)?);
    let is_fixed = shape.iter().chain(index_shape).all(|size| size.known().is_some());
    let width = index_shape.last().and_then(Dim::known);
    let Some(width) = width.filter(|_| !is_fixed) else { return Ok(false) };
    let (data, indices) = (expand.operand(0), expand.operand(1).cast(DType::I64));
    let (batch, rank) = (batch_dims(expand)?.int(), index_shape.len().saturating_sub(1));
    let mut rows = None;
    for axis in 0..batch + width {
        let size = data.size(axis);
        let index = if axis < batch {
            data.positions(axis).along(usize::try_from(axis)?, rank)
        } else {
            from_front(indices.element(-1, axis - batch), size)
        };
        rows = Some(rows.map_or(index, |rows: Expr<'_>| rows * size + index));
    }
    let Some(rows) = rows else { return Ok(false) };
    expand.output(0, with_leading(expand, data, batch + width, &[-1]).gather(rows, 0));
    Ok(true)
}

/// Expands to a Gather of rows of data whose indexed axes are merged.
pub(super) fn expand_gather_nd(expand: &Expand) -> Result<bool> {
    if expand_leading(expand)? || expand_single(expand)? || expand_free(expand)? {
        return Ok(true);
    }
    let batch = batch_dims(expand)?;
    if is_moved(expand, |sizes, indices| tuple_rows(sizes, indices, batch))? {
        return Ok(false);
    }
    let (sizes, index_sizes) = (expand.sizes(0)?, expand.sizes(1)?);
    let Some((width, tuples)) = index_sizes.split_last() else { invalid!("the indices have no axes") };
    let depth = batch + usize::try_from(*width)?;
    let Some((indexed, slice)) = sizes.split_at_checked(depth) else {
        invalid!("tuples of {width} indices do not fit data of shape {sizes:?}");
    };
    let rows = row_indices(expand, tuples, indexed, batch)?;
    let data = expand.operand(0).reshape(&[indexed.iter().product::<i64>(), slice.iter().product()]);
    let shape: Vec<i64> = tuples.iter().chain(slice).copied().collect();
    expand.output(0, data.gather(rows, 0).reshape(&shape));
    Ok(true)
}
