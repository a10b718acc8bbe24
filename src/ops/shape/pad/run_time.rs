//! Pad with amounts, axes or a value computed at run time, where the model states the shape of the result: the elements along each axis
//! are gathered by places that follow from what is added before it.

use super::{Mode, call_amounts, read_mode};
use crate::error::{At, Result, invalid, unsupported};
use crate::op::Call;
use crate::ops::run_time::{self, axis_attribute, check_list, distinct_axes, element, element_of_axis};
use crate::pass::expand::{Expand, Operand};
use crate::tensor::{DType, Dim, display_shape};

/// The shape that the model states of the output, where some amount is computed at run time.
pub(super) fn stated_shape<'a>(call: &Call<'a>) -> Option<&'a [Dim]> {
    if call.since() < 11 { None } else { run_time::stated_shape(call, [1, 3].into_iter()) }
}

/// Refuses amounts for other axes than there are, and a stated shape that they do not give.
pub(super) fn check_amounts(call: &Call, stated: &[Dim]) -> Result<()> {
    let shape = call.shape(0)?;
    let axes_are_given = call.since() >= 18 && call.has_input(3);
    let padded: Vec<usize> = if axes_are_given && call.constant(3).is_some() {
        distinct_axes(&call.axes(3)?, shape.len())?
    } else {
        (0..shape.len()).collect()
    };
    if !axes_are_given || call.constant(3).is_some() {
        check_list(call, 1, padded.len().saturating_mul(2))?;
    } else if let ([amounts], [axes]) = (call.shape(1)?, call.shape(3)?) {
        call.check_shape(1, &[axes.mul(&Dim::Known(2))?])?;
        call.check_shape(3, &[amounts.floor_div(&Dim::Known(2))?])?;
    } else {
        invalid!("amounts of shape {} for axes", display_shape(call.shape(1)?));
    }
    for (axis, (from, to)) in shape.iter().zip(stated).enumerate() {
        if from.is(0) {
            unsupported!("an axis without elements padded to {to}");
        }
        if from != to && !padded.contains(&axis) {
            invalid!("an axis of {from} padded to {to}, with amounts for {padded:?}");
        }
    }
    Ok(())
}

/// What is added before each axis; nothing is to the others.
fn amounts_before(x: &mut Expand, rank: usize) -> Result<Vec<(usize, Operand)>> {
    let Some(count) = x.shape(1)?.first().and_then(Dim::known).map(|count| count / 2) else {
        unsupported!("a number of amounts that is not fixed");
    };
    let amounts = x.operand_as(1, DType::I64)?;
    let mut before = Vec::new();
    let axes_are_given = x.since() >= 18 && x.has_input(3);
    if axes_are_given && x.constant(3).is_none() {
        let axes = x.operand_as(3, DType::I64)?;
        let places = x.ints(&(0..count).collect::<Vec<_>>())?;
        let firsts = x.op("Gather", &[amounts, places], &axis_attribute(0)?)?;
        for axis in 0..rank {
            before.push((axis, element_of_axis(x, axes, firsts, axis, rank)?));
        }
        return Ok(before);
    }
    let axes = if axes_are_given { x.axes(3)? } else { (0..count).collect() };
    for (index, axis) in distinct_axes(&axes, rank)?.into_iter().enumerate() {
        before.push((axis, element(x, amounts, index)?));
    }
    Ok(before)
}

/// What is added everywhere, where elements are not those of the input.
fn value(x: &mut Expand) -> Result<Operand> {
    if !x.has_input(2) {
        return x.scalar_like(0, 0.0);
    }
    let value = x.operand(2)?;
    x.reshape(value, &[1])
}

pub(super) fn expand_pad(x: &mut Expand) -> Result<bool> {
    if x.since() < 11 {
        return Ok(false);
    }
    let known = call_amounts(x).ok();
    let shape = match &known {
        // Amounts that are known are left to Padding, unless it had to read a value.
        Some(amounts) => {
            let computed = x.has_input(2) && x.constant(2).is_none();
            if !computed || read_mode(x)? != Mode::Constant {
                return Ok(false);
            }
            super::padded_shape(x.shape(0)?, amounts)?
        }
        None => match stated_shape(x) {
            Some(stated) => stated.to_vec(),
            None => return Ok(false),
        },
    };
    let mode = read_mode(x)?;
    let sizes = x.sizes(0)?;
    let counts: Option<Vec<i64>> = shape.iter().map(Dim::known).collect();
    let Some(counts) = counts else { return Ok(false) };
    let mut data = x.operand(0)?;
    let mut is_inside: Option<Operand> = None;
    for (axis, before) in amounts_before(x, sizes.len())? {
        let padded = Axis { axis, size: *sizes.at(axis)?, count: *counts.at(axis)?, before };
        let unchanged = known.as_ref().and_then(|amounts| amounts.get(axis));
        if unchanged.is_some_and(|(before, after)| before.is(0) && after.is(0)) {
            continue;
        }
        if mode == Mode::Constant {
            let (gathered, inside) = surrounded(x, data, &padded, sizes.len())?;
            data = gathered;
            is_inside = Some(match is_inside {
                Some(others) => x.op("And", &[others, inside], &[])?,
                None => inside,
            });
        } else {
            data = continued(x, data, &padded, mode)?;
        }
    }
    // Last of all: a product with the zeros of a Gather would make NaN of an infinite value.
    if let Some(is_inside) = is_inside {
        let value = value(x)?;
        data = x.op("Where", &[is_inside, data, value], &[])?;
    }
    x.output(0, data)?;
    Ok(true)
}

/// An axis: its sizes before and after, and what is added before it.
struct Axis {
    axis: usize,
    size: i64,
    count: i64,
    before: Operand,
}

fn limited(x: &mut Expand, places: Operand, last: Operand) -> Result<Operand> {
    let zero = x.ints(&[0])?;
    let places = x.op("Max", &[places, zero], &[])?;
    x.op("Min", &[places, last], &[])
}

/// The elements along an axis, those at its ends where there are none, and the places of an axis of the result that are the input's.
fn surrounded(x: &mut Expand, data: Operand, axis: &Axis, rank: usize) -> Result<(Operand, Operand)> {
    let ramp = x.ints(&(0..axis.count).collect::<Vec<_>>())?;
    let places = x.op("Sub", &[ramp, axis.before], &[])?;
    let last = x.ints(&[axis.size - 1])?;
    let inside = limited(x, places, last)?;
    let is_inside = x.op("Equal", &[places, inside], &[])?;
    let data = x.op("Gather", &[data, inside], &axis_attribute(axis.axis)?)?;
    let mut column = vec![1; rank - axis.axis];
    if let Some(size) = column.first_mut() {
        *size = axis.count;
    }
    Ok((data, x.reshape(is_inside, &column)?))
}

/// An axis with its own elements around it: those that are left, where some are taken away on the other side.
fn continued(x: &mut Expand, data: Operand, axis: &Axis, mode: Mode) -> Result<Operand> {
    let (zero, added) = (x.ints(&[0])?, x.ints(&[axis.count - axis.size])?);
    let after = x.op("Sub", &[added, axis.before], &[])?;
    let front = x.op("Min", &[axis.before, zero], &[])?;
    let back = x.op("Min", &[after, zero], &[])?;
    let last = x.ints(&[axis.size - 1])?;
    let last = x.op("Add", &[last, front], &[])?;
    let last = x.op("Add", &[last, back], &[])?;
    let ramp = x.ints(&(0..axis.count).collect::<Vec<_>>())?;
    let shift = x.op("Max", &[axis.before, zero], &[])?;
    let places = x.op("Sub", &[ramp, shift], &[])?;
    let one = x.ints(&[1])?;
    let places = match mode {
        Mode::Wrap => {
            let period = x.op("Add", &[last, one], &[])?;
            x.op("Mod", &[places, period], &[])?
        }
        Mode::Reflect => {
            let twice = x.op("Add", &[last, last], &[])?;
            let period = x.op("Max", &[twice, one], &[])?;
            let there = x.op("Mod", &[places, period], &[])?;
            let back = x.op("Sub", &[period, there], &[])?;
            x.op("Min", &[there, back], &[])?
        }
        Mode::Edge | Mode::Constant => places,
    };
    let places = limited(x, places, last)?;
    let places = x.op("Sub", &[places, front], &[])?;
    x.op("Gather", &[data, places], &axis_attribute(axis.axis)?)
}
