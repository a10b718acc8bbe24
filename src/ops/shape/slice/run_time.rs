//! Slice with bounds, axes or steps that are computed at run time, where the model states the shape of what is left: the elements along
//! each axis are gathered by places that begin at the start.

use super::call_cuts;
use crate::error::{At, Result, invalid, unsupported};
use crate::op::Call;
use crate::ops::run_time::{self, axis_attribute, distinct_axes, element, element_of_axis};
use crate::pass::expand::{Expand, Operand};
use crate::tensor::{DType, Dim, display_shape};

/// The shape that the model states of the output, where some bound is computed at run time.
pub(super) fn stated_shape<'a>(call: &Call<'a>) -> Option<&'a [Dim]> {
    run_time::stated_shape(call, 1..5)
}

/// Refuses lists of other lengths than the starts, axes that are named twice, and a stated shape that no cut gives.
pub(super) fn check_cuts(call: &Call, stated: &[Dim]) -> Result<()> {
    let (shape, starts) = (call.shape(0)?, call.shape(1)?);
    let [count] = starts else { invalid!("starts of shape {}", display_shape(starts)) };
    for list in 2..5 {
        call.check_shape(list, starts)?;
    }
    let cut = if !call.has_input(3) {
        (0..shape.len()).take(usize::try_from(count.known().unwrap_or(i64::MAX))?).collect()
    } else if call.constant(3).is_some() {
        distinct_axes(&call.axes(3)?, shape.len())?
    } else {
        (0..shape.len()).collect()
    };
    for (axis, (from, to)) in shape.iter().zip(stated).enumerate() {
        let (Some(from), Some(to)) = (from.known(), to.known()) else { continue };
        if to > from || (to != from && !cut.contains(&axis)) {
            invalid!("{to} elements of {from} are stated of axis {axis}, in a cut along {cut:?}");
        }
    }
    Ok(())
}

/// Where an axis is cut, computed at run time.
struct AxisSlice {
    axis: usize,
    start: Operand,
    step: Option<Operand>,
}

fn cuts(x: &mut Expand, rank: usize) -> Result<Vec<AxisSlice>> {
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
            let start = element_of_axis(x, axes, starts, axis, rank)?;
            let step = match steps {
                Some(steps) => {
                    let more = x.op("Sub", &[steps, one], &[])?;
                    let more = element_of_axis(x, axes, more, axis, rank)?;
                    Some(x.op("Add", &[more, one], &[])?)
                }
                None => None,
            };
            cuts.push(AxisSlice { axis, start, step });
        }
        return Ok(cuts);
    }
    let axes = if x.has_input(3) { x.axes(3)? } else { (0..count).collect() };
    for (index, axis) in distinct_axes(&axes, rank)?.into_iter().enumerate() {
        let start = element(x, starts, index)?;
        let step = match steps {
            Some(steps) => Some(element(x, steps, index)?),
            None => None,
        };
        cuts.push(AxisSlice { axis, start, step });
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
