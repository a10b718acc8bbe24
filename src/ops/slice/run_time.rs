//! Slice with bounds, axes or steps that are computed at run time, where the model states the shape of what is left: the elements along
//! each axis are gathered by places that begin at the start.

use super::call_cuts;
use crate::error::{At, Error, Result, unsupported};
use crate::graph::Attribute;
use crate::ops::{Call, resolve_axis};
use crate::pass::expand::{Expand, Operand};
use crate::tensor::{DType, Dim};

/// The shape that the model states of the output, where some bound is computed at run time.
pub(super) fn stated_shape<'a>(call: &Call<'a>) -> Option<&'a [Dim]> {
    let computed = (1..5).any(|index| call.has_input(index) && call.dims(index).is_err());
    let (stated, given) = (call.declared_shape(0)?, call.shape(0).ok()?);
    let fits =
        stated.len() == given.len() && stated.iter().all(|size| size.known().is_some_and(|size| size > 0));
    Some(stated).filter(|_| computed && fits)
}

/// Where an axis is cut, computed at run time.
struct Cut {
    axis: usize,
    start: Operand,
    step: Option<Operand>,
}

fn axis_attribute(axis: usize) -> Result<[(&'static str, Attribute); 1]> {
    Ok([("axis", Attribute::Int(i64::try_from(axis)?))])
}

/// One element of a list.
fn element(x: &mut Expand, list: Operand, index: usize) -> Result<Operand> {
    let index = x.ints(&[i64::try_from(index)?])?;
    x.op("Gather", &[list, index], &axis_attribute(0)?)
}

/// The sum of the elements of a list for this axis of `rank`, where the axes are computed too.
fn element_of_axis(x: &mut Expand, axes: Operand, list: Operand, axis: i64, rank: i64) -> Result<Operand> {
    let (front, back) = (x.ints(&[axis])?, x.ints(&[axis - rank])?);
    let (front, back) = (x.op("Equal", &[axes, front], &[])?, x.op("Equal", &[axes, back], &[])?);
    let is_here = x.op("Or", &[front, back], &[])?;
    let none = x.ints(&[0])?;
    let here = x.op("Where", &[is_here, list, none], &[])?;
    let all = x.ints(&[0])?;
    x.op("ReduceSum", &[here, all], &[])
}

fn cuts(x: &mut Expand, rank: usize) -> Result<Vec<Cut>> {
    let Some(count) = x.shape(1)?.first().and_then(Dim::known) else {
        unsupported!("a number of bounds that is not fixed");
    };
    let starts = x.operand_as(1, DType::I64)?;
    let steps = if x.has_input(4) { Some(x.operand_as(4, DType::I64)?) } else { None };
    let mut cuts = Vec::new();
    if x.has_input(3) && x.constant(3).is_none() {
        let axes = x.operand_as(3, DType::I64)?;
        let one = x.ints(&[1])?;
        for axis in 0..rank {
            let (number, of) = (i64::try_from(axis)?, i64::try_from(rank)?);
            let start = element_of_axis(x, axes, starts, number, of)?;
            let step = match steps {
                Some(steps) => {
                    let more = x.op("Sub", &[steps, one], &[])?;
                    let more = element_of_axis(x, axes, more, number, of)?;
                    Some(x.op("Add", &[more, one], &[])?)
                }
                None => None,
            };
            cuts.push(Cut { axis, start, step });
        }
        return Ok(cuts);
    }
    let axes = if x.has_input(3) { x.int_list(3)? } else { (0..count).collect() };
    for (index, axis) in axes.iter().enumerate() {
        let start = element(x, starts, index)?;
        let step = match steps {
            Some(steps) => Some(element(x, steps, index)?),
            None => None,
        };
        cuts.push(Cut { axis: resolve_axis(*axis, rank)?, start, step });
    }
    Ok(cuts)
}

/// The start counted from the front, within an axis of `size`.
fn start_from_front(x: &mut Expand, start: Operand, size: i64) -> Result<Operand> {
    let (zero, last, length) = (x.ints(&[0])?, x.ints(&[size - 1])?, x.ints(&[size])?);
    let is_behind = x.op("Less", &[start, zero], &[])?;
    let is_behind = x.cast(is_behind, DType::I64)?;
    let shift = x.op("Mul", &[is_behind, length], &[])?;
    let start = x.op("Add", &[start, shift], &[])?;
    let start = x.op("Max", &[start, zero], &[])?;
    x.op("Min", &[start, last], &[])
}

pub(super) fn expand_slice(x: &mut Expand) -> Result<bool> {
    if x.since() == 1 || call_cuts(x).is_ok() {
        return Ok(false);
    }
    let Some(stated) = stated_shape(x) else { return Ok(false) };
    let counts: Vec<i64> = stated.iter().filter_map(Dim::known).collect();
    let sizes = x.sizes(0)?;
    let mut data = x.operand(0)?;
    for cut in cuts(x, sizes.len())? {
        let (size, count) = (*sizes.at(cut.axis)?, *counts.at(cut.axis)?);
        if count > size {
            return Err(Error::invalid(format!("{count} elements of an axis of {size}")));
        }
        let start = start_from_front(x, cut.start, size)?;
        let mut offsets = x.ints(&(0..count).collect::<Vec<_>>())?;
        if let Some(step) = cut.step {
            offsets = x.op("Mul", &[offsets, step], &[])?;
        }
        let places = x.op("Add", &[offsets, start], &[])?;
        data = x.op("Gather", &[data, places], &axis_attribute(cut.axis)?)?;
    }
    x.output(0, data)?;
    Ok(true)
}
