//! What tells how a node works and is computed at run time, where the model states the shape of the result: elements of lists, and
//! the choice between the few ways that give that shape.

use crate::error::{Error, Result, invalid, unsupported};
use crate::op::{Call, resolve_axis};
use crate::pass::expand::{Expand, Operand};
use crate::tensor::{DType, Dim, display_shape};

/// Most choices that are all computed.
pub(in crate::ops) const MAX_CHOICES: usize = 8;

/// Axes counted from the front, where each stands in the list once.
pub(in crate::ops) fn distinct_axes(axes: &[i64], rank: usize) -> Result<Vec<usize>> {
    let mut distinct = Vec::with_capacity(axes.len().min(rank));
    for axis in axes {
        let axis = resolve_axis(*axis, rank)?;
        if distinct.contains(&axis) {
            invalid!("axis {axis} is named twice");
        }
        distinct.push(axis);
    }
    Ok(distinct)
}

/// Refuses a model in which input `index`, where it is given, is not a list of so many elements, as far as that is known.
pub(in crate::ops) fn check_list(call: &Call, index: usize, count: usize) -> Result<()> {
    call.check_shape(index, &[Dim::try_from(count)?])
}

/// Refuses a model in which input `index`, where it is given, is not one integer, as far as that is known.
pub(in crate::ops) fn check_integer(call: &Call, index: usize) -> Result<()> {
    let Some(value) = call.value(index) else { return Ok(()) };
    if let Some(dtype) = value.dtype.filter(|dtype| !dtype.is_int()) {
        return Err(
            Error::invalid(format!("{dtype} where an integer is needed")).at_part(format!("input {index}"))
        );
    }
    let shape = value.shape.as_deref().unwrap_or_default();
    if shape.iter().any(|size| size.known().is_some_and(|size| size != 1)) {
        let message = format!("{} where one integer is needed", display_shape(shape));
        return Err(Error::invalid(message).at_part(format!("input {index}")));
    }
    Ok(())
}

/// An integer input of one element as a list of one.
pub(in crate::ops) fn scalar(x: &mut Expand, index: usize) -> Result<Operand> {
    let operand = x.operand_as(index, DType::I64)?;
    x.reshape(operand, &[1])
}

/// Whether each of a list is this number.
pub(in crate::ops) fn is_number(x: &mut Expand, list: Operand, number: i64) -> Result<Operand> {
    let number = x.ints(&[number])?;
    x.op("Equal", &[list, number], &[])
}

/// Whether each of a list is this axis of `rank`, counted from either end.
pub(in crate::ops) fn is_axis(x: &mut Expand, list: Operand, axis: usize, rank: usize) -> Result<Operand> {
    let (axis, rank) = (i64::try_from(axis)?, i64::try_from(rank)?);
    let (front, back) = (is_number(x, list, axis)?, is_number(x, list, axis - rank)?);
    x.op("Or", &[front, back], &[])
}

/// One of several ways: what it computes, and what tells that it is meant. It is meant where all of that holds.
pub(in crate::ops) struct Choice {
    pub result: Operand,
    pub meant: Vec<Operand>,
}

/// The result of the choice that is meant.
pub(in crate::ops) fn choose(x: &mut Expand, choices: &[Choice]) -> Result<Operand> {
    let Some((first, rest)) = choices.split_first() else {
        return Err(Error::internal("nothing to choose from"));
    };
    let mut result = first.result;
    for choice in rest {
        let mut meant = None;
        for test in &choice.meant {
            meant = Some(match meant {
                Some(meant) => x.op("And", &[meant, *test], &[])?,
                None => *test,
            });
        }
        let meant = meant.ok_or_else(|| Error::internal("choices that nothing tells apart"))?;
        result = x.op("Where", &[meant, choice.result, result], &[])?;
    }
    Ok(result)
}

/// Refuses more ways than are computed beside each other.
pub(in crate::ops) fn check_count(what: &str, choices: usize) -> Result<()> {
    if choices > MAX_CHOICES {
        unsupported!("{what} computed at run time: {choices} choices give the shape of the output");
    }
    Ok(())
}
