//! Expansions of GatherElements and GatherND with indices computed at run time, or constant ones in no
//! regular order.

use num_traits::AsPrimitive;

use super::{batch_dims, element_places, tuple_places};
use crate::common::limits;
use crate::error::{At, Result, invalid};
use crate::graph::Attribute;
use crate::lower::few_parts;
use crate::op::resolve_axis;
use crate::pass::expand::{Expand, Operand};
use crate::tensor::{Array, DType};

/// The maximum number of elements that are searched for a different one.
const MAX_UNIFORM: usize = 1 << 16;

/// Returns whether input 1 is a constant whose elements few layers can move.
fn is_moved(expand: &Expand, places: impl Fn(&[usize], &Array) -> Result<Vec<usize>>) -> Result<bool> {
    if expand.constant(1).is_none() {
        return Ok(false);
    }
    let sizes: Result<Vec<usize>> =
        expand.sizes(0)?.into_iter().map(|size| Ok(usize::try_from(size)?)).collect();
    let places = places(&sizes?, &expand.array(1)?)?;
    let places: Result<Vec<i64>> = places.into_iter().map(|place| Ok(i64::try_from(place)?)).collect();
    Ok(few_parts(&places?))
}

fn cast(expand: &mut Expand, x: Operand, dtype: DType) -> Result<Operand> {
    expand.op("Cast", &[x], &[("to", Attribute::Int(dtype.to_onnx().into()))])
}

/// Emits `sum over i of (index == i) * data[i]`, over data and indices in the form `[outer, axis, inner]`.
pub(super) fn expand_gather_elements(expand: &mut Expand) -> Result<bool> {
    if expand_uniform(expand)? {
        return Ok(true);
    }
    let (sizes, index_sizes) = (expand.sizes(0)?, expand.sizes(1)?);
    let axis = resolve_axis(expand.int_or("axis", 0)?, sizes.len())?;
    if is_moved(expand, |sizes, indices| element_places(sizes, indices, axis))? {
        return Ok(false);
    }
    if index_sizes.len() != sizes.len() {
        invalid!("indices with {} axes for data with {}", index_sizes.len(), sizes.len());
    }
    let (depth, count) = (*sizes.at(axis)?, *index_sizes.at(axis)?);
    let outer: i64 = index_sizes.iter().take(axis).product();
    let inner: i64 = index_sizes.iter().skip(axis + 1).product();
    let dtype = expand.dtype(0)?;
    let mut data = expand.operand(0)?;
    let shorter: Vec<usize> = (0..sizes.len())
        .filter(|other| *other != axis && sizes.get(*other) != index_sizes.get(*other))
        .collect();
    if !shorter.is_empty() {
        let ends: Result<Vec<i64>> = shorter.iter().map(|other| index_sizes.at(*other).copied()).collect();
        let axes: Result<Vec<i64>> = shorter.iter().map(|other| Ok(i64::try_from(*other)?)).collect();
        let (starts, ends, axes) =
            (expand.ints(&vec![0; shorter.len()])?, expand.ints(&ends?)?, expand.ints(&axes?)?);
        data = expand.op("Slice", &[data, starts, ends, axes], &[])?;
    }
    // Products need numbers, not booleans.
    let work = if dtype == DType::Bool { DType::F32 } else { dtype };
    if work != dtype {
        data = cast(expand, data, work)?;
    }
    let indices = expand.operand(1)?;
    let (flat, apart) = (expand.ints(&[outer, count, inner])?, expand.ints(&[outer, 1, depth, inner])?);
    let indices = expand.op("Reshape", &[indices, flat], &[])?;
    let data = expand.op("Reshape", &[data, apart], &[])?;
    let bits = Array::i64(ndarray::Array1::from_vec(vec![0, 1]).into_dyn()).cast(work)?;
    let (depth, bits) = (expand.ints(&[depth])?, expand.literal(&bits)?);
    let hits = expand.op("OneHot", &[indices, depth, bits], &[("axis", Attribute::Int(2))])?;
    let kept = expand.op("Mul", &[hits, data], &[])?;
    let axes = expand.ints(&[2])?;
    let found = expand.op("ReduceSum", &[kept, axes], &[("keepdims", Attribute::Int(0))])?;
    let shape = expand.ints(&index_sizes)?;
    let mut found = expand.op("Reshape", &[found, shape], &[])?;
    if work != dtype {
        found = cast(expand, found, dtype)?;
    }
    expand.output(0, found)?;
    Ok(true)
}

/// Uniform constant data has the same element at every index.
fn expand_uniform(expand: &mut Expand) -> Result<bool> {
    if expand.constant(0).is_none_or(|data| data.len() > MAX_UNIFORM) || expand.constant(1).is_some() {
        return Ok(false);
    }
    let data = expand.array(0)?;
    let numbers = data.to_f64()?;
    let Some(first) = numbers.first() else { return Ok(false) };
    if numbers.iter().any(|number| number.to_bits() != first.to_bits()) {
        return Ok(false);
    }
    let single: f32 = first.as_();
    if f64::from(single).to_bits() != first.to_bits() {
        return Ok(false);
    }
    let one = Array::f32(ndarray::ArrayD::from_elem(ndarray::IxDyn(&[]), single)).cast(expand.dtype(0)?)?;
    let (one, indices) = (expand.literal(&one)?, expand.operand(1)?);
    let shape = expand.op("Shape", &[indices], &[])?;
    let all = expand.op("Expand", &[one, shape], &[])?;
    expand.output(0, all)?;
    Ok(true)
}

/// Emits one row number for each tuple of indices: the row in data whose first axes are merged.
pub(in crate::ops) fn row_numbers(
    expand: &mut Expand,
    indices: Operand,
    tuples: &[i64],
    sizes: &[i64],
    batch: usize,
) -> Result<Operand> {
    let width = i64::try_from(sizes.len() - batch)?;
    let wide = expand.op("Cast", &[indices], &[("to", Attribute::Int(DType::I64.to_onnx().into()))])?;
    let indexed = sizes.get(batch..).unwrap_or_default();
    let mut strides = vec![1_i64; indexed.len()];
    for axis in (1..indexed.len()).rev() {
        let stride = strides.at(axis)?.saturating_mul(*indexed.at(axis)?);
        if let Some(slot) = strides.get_mut(axis - 1) {
            *slot = stride;
        }
    }
    let count: i64 = tuples.iter().product();
    let form = expand.ints(&[count, width])?;
    let wide = expand.op("Reshape", &[wide, form], &[])?;
    let (zero, whole, strides) = (expand.ints(&[0])?, expand.ints(indexed)?, expand.ints(&strides)?);
    let negative = expand.op("Less", &[wide, zero], &[])?;
    let counted = expand.op("Add", &[wide, whole], &[])?;
    let front = expand.op("Where", &[negative, counted, wide], &[])?;
    let scaled = expand.op("Mul", &[front, strides], &[])?;
    let axes = expand.ints(&[1])?;
    let mut rows = expand.op("ReduceSum", &[scaled, axes], &[("keepdims", Attribute::Int(0))])?;
    let batches: i64 = sizes.iter().take(batch).product();
    if batches > 1 {
        limits::check_listed(usize::try_from(count)?)?;
        let (per_batch, step): (i64, i64) = (count / batches, indexed.iter().product());
        let offsets: Vec<i64> = (0..count).map(|number| number / per_batch.max(1) * step).collect();
        let offsets = expand.ints(&offsets)?;
        rows = expand.op("Add", &[rows, offsets], &[])?;
    }
    Ok(rows)
}

/// Emits a Gather of rows of data whose indexed axes are merged.
pub(super) fn expand_gather_nd(expand: &mut Expand) -> Result<bool> {
    let batch = batch_dims(expand)?;
    let moved = |sizes: &[usize], indices: &Array| {
        let (starts, width) = tuple_places(sizes, indices, batch)?;
        Ok(starts.into_iter().map(|start| start / width.max(1)).collect())
    };
    if is_moved(expand, moved)? {
        return Ok(false);
    }
    let (sizes, index_sizes) = (expand.sizes(0)?, expand.sizes(1)?);
    let Some((width, tuples)) = index_sizes.split_last() else { invalid!("the indices are a scalar") };
    let depth = batch + usize::try_from(*width)?;
    let Some((indexed, slice)) = sizes.split_at_checked(depth) else {
        invalid!("tuples of {width} indices for data of shape {sizes:?}");
    };
    let (indices, data) = (expand.operand(1)?, expand.operand(0)?);
    let rows = row_numbers(expand, indices, tuples, indexed, batch)?;
    let form = expand.ints(&[indexed.iter().product(), slice.iter().product()])?;
    let data = expand.op("Reshape", &[data, form], &[])?;
    let found = expand.op("Gather", &[data, rows], &[])?;
    let shape: Vec<i64> = tuples.iter().chain(slice).copied().collect();
    let shape = expand.ints(&shape)?;
    let found = expand.op("Reshape", &[found, shape], &[])?;
    expand.output(0, found)?;
    Ok(true)
}
