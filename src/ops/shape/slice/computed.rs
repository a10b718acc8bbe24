//! Slice with starts computed at run time, if the model declares the shape of the output: a Gather along each
//! axis, of indices that begin at the start.

use super::call_cuts;
use crate::error::{At, Result, invalid, unsupported};
use crate::op::{Call, distinct_axes};
use crate::pass::builder::Expr;
use crate::pass::expand::Expand;
use crate::tensor::{DType, Dim, display_shape};

/// Returns the declared shape of the output if it has the rank of the data and no empty axis, and a bound is
/// computed at run time.
pub(super) fn declared_shape<'a>(call: &Call<'a>) -> Option<&'a [Dim]> {
    let computed = |index: usize| call.has_input(index) && call.dims(index).is_err();
    let constant = |index: usize| !call.has_input(index) || call.constant(index).is_some();
    let shape = call.declared_shape(0)?;
    let fits = shape.len() == call.shape(0).ok()?.len() && shape.iter().all(|size| !size.is(0));
    Some(shape).filter(|_| fits && (computed(1) || computed(2)) && constant(3) && constant(4))
}

/// Returns the axes that the node slices.
fn sliced_axes(call: &Call) -> Result<Vec<usize>> {
    let rank = call.shape(0)?.len();
    let starts = call.shape(1)?;
    let [Dim::Known(count)] = starts else { unsupported!("starts of shape {}", display_shape(starts)) };
    for list in 2..5 {
        call.check_shape(list, starts)?;
    }
    distinct_axes(&if call.has_input(3) { call.axes(3)? } else { (0..*count).collect() }, rank)
}

/// Refuses a declared shape that no slice along these axes gives.
pub(super) fn check_declared(call: &Call, declared: &[Dim]) -> Result<()> {
    let axes = sliced_axes(call)?;
    for (axis, (from, to)) in call.shape(0)?.iter().zip(declared).enumerate() {
        let (Some(from), Some(to)) = (from.known(), to.known()) else { continue };
        if to > from || (to != from && !axes.contains(&axis)) {
            invalid!(
                "the declared shape has {to} of {from} elements along axis {axis}, in a slice of {axes:?}"
            );
        }
    }
    Ok(())
}

/// Returns the start counted from the front, clamped to an axis of `size` elements.
fn clamped_start(start: Expr, size: i64) -> Expr {
    let start = start + start.less(0).cast(DType::I64) * size;
    start.max(0).min(size - 1)
}

pub(super) fn expand_slice(x: &Expand) -> Result<bool> {
    if x.since() == 1 || call_cuts(x).is_ok() {
        return Ok(false);
    }
    let Some(declared) = declared_shape(x) else { return Ok(false) };
    let counts: Vec<i64> = declared.iter().filter_map(Dim::known).collect();
    let sizes = x.sizes(0)?;
    let axes = sliced_axes(x)?;
    let steps = if x.has_input(4) { x.int_list(4)? } else { vec![1; axes.len()] };
    let starts = x.operand_as(1, DType::I64);
    let mut data = x.operand(0);
    for (index, (axis, step)) in (0..).zip(axes.into_iter().zip(steps)) {
        let start = clamped_start(starts.gather(x.make.ints(&[index]), 0), *sizes.at(axis)?);
        let offsets: Vec<i64> = (0..*counts.at(axis)?).map(|n| n.saturating_mul(step)).collect();
        data = data.gather(x.make.ints(&offsets) + start, i64::try_from(axis)?);
    }
    x.output(0, data);
    Ok(true)
}
