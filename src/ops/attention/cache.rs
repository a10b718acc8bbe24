//! TensorScatter: writing into a cache of keys or values.
//!
//! Spec: <https://onnx.ai/onnx/operators/onnx__TensorScatter.html>.

use ndarray::{ArrayD, IxDyn};

use crate::error::{At, Error, Result, invalid, unsupported};
use crate::graph::Attribute;
use crate::op::{Access, Call, Fact, resolve_axis};
use crate::ops::Row;
use crate::pass::expand::{Expand, Operand};
use crate::tensor::{Array, DType};

pub(in crate::ops) const OPS: &[Row] = &[Row::new("TensorScatter", &[24], Access::Any, infer_tensor_scatter)
    .expand(expand_tensor_scatter)
    .lowers_to("Where for each element that is written; Concat if it is written at the front")
    .limits("many elements at positions computed at run time")];

/// The maximum number of elements that are written one by one: each is a Where over the whole cache.
const MAX_WRITES: i64 = 64;

fn read_tensor_scatter(call: &Call) -> Result<(usize, bool)> {
    let axis = resolve_axis(call.int_or("axis", -2)?, call.shape(0)?.len())?;
    if axis == 0 {
        return Err(Error::invalid("the axis is that of the batch").at_part("attribute axis"));
    }
    match call.string_or("mode", "linear")? {
        "linear" => Ok((axis, false)),
        "circular" => Ok((axis, true)),
        other => Err(Error::invalid(format!("\"{other}\"")).at_part("attribute mode")),
    }
}

fn infer_tensor_scatter(call: &Call) -> Result<Vec<Fact>> {
    read_tensor_scatter(call)?;
    Ok(vec![call.like(0, call.dtype(0)?)?])
}

fn expand_tensor_scatter(x: &Expand) -> Result<bool> {
    let (axis, circular) = read_tensor_scatter(x)?;
    let known = |index: usize| {
        let size = x.shape(index)?.at(axis)?.known();
        size.ok_or_else(|| Error::unsupported("a cache or an update of free length"))
    };
    let (length, writes) = (known(0)?, known(1)?);
    if writes > length {
        invalid!("{writes} elements written into a cache of {length}");
    }
    let result = if x.has_input(2) {
        write(x, axis, [length, writes], circular)?
    } else {
        front(x, axis, [length, writes])?
    };
    x.raw_output(0, result)?;
    Ok(true)
}

/// Emits the update, followed by the rest of the cache.
fn front(x: &Expand, axis: usize, [length, writes]: [i64; 2]) -> Result<Operand> {
    let (past, update, axis) = (x.raw_operand(0)?, x.raw_operand(1)?, i64::try_from(axis)?);
    if writes == length {
        return Ok(update);
    }
    let (start, end, axes) = (x.raw_ints(&[writes])?, x.raw_ints(&[length])?, x.raw_ints(&[axis])?);
    let rest = x.raw_op("Slice", &[past, start, end, axes], &[])?;
    x.raw_op("Concat", &[update, rest], &[("axis", Attribute::Int(axis))])
}

/// Returns `list` along an axis of a value with `rank` axes.
fn along(x: &Expand, rank: usize, axis: usize, list: Vec<i64>, dtype: DType) -> Result<Operand> {
    let mut shape = vec![1; rank];
    if let Some(size) = shape.get_mut(axis) {
        *size = list.len();
    }
    let list = Array::i64(ArrayD::from_shape_vec(shape, list)?).cast(dtype)?;
    x.raw_literal(&list)
}

/// Emits the cache with the update written at a position for each element of the batch.
fn write(x: &Expand, axis: usize, [length, writes]: [i64; 2], circular: bool) -> Result<Operand> {
    if writes > MAX_WRITES {
        unsupported!("{writes} elements written at different positions (at most {MAX_WRITES})");
    }
    let (rank, dtype) = (x.shape(0)?.len(), x.dtype(2)?);
    let (mut cache, update, first) = (x.raw_operand(0)?, x.raw_operand(1)?, x.raw_operand(2)?);
    let mut shape = vec![1; rank];
    if let Some(size) = shape.first_mut() {
        *size = -1;
    }
    let first = x.raw_reshape(first, &shape)?;
    let places = along(x, rank, axis, (0..length).collect(), dtype)?;
    let axes = x.raw_ints(&[i64::try_from(axis)?])?;
    for index in 0..writes {
        let scalar = |n: i64| Array::i64(ArrayD::from_elem(IxDyn(&[]), n)).cast(dtype);
        let mut place = first;
        if index > 0 {
            let offset = x.raw_literal(&scalar(index)?)?;
            place = x.raw_op("Add", &[first, offset], &[])?;
        }
        if circular {
            let length = x.raw_literal(&scalar(length)?)?;
            place = x.raw_op("Mod", &[place, length], &[])?;
        }
        let here = x.raw_op("Equal", &[places, place], &[])?;
        let mut part = update;
        if writes > 1 {
            let (start, end) = (x.raw_ints(&[index])?, x.raw_ints(&[index + 1])?);
            part = x.raw_op("Slice", &[update, start, end, axes], &[])?;
        }
        cache = x.raw_op("Where", &[here, part, cache], &[])?;
    }
    Ok(cache)
}
