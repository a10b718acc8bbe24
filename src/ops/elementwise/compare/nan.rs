//! Constants with NaN: a selection by products or minima gives numbers alone, and NaN is put in its place.

use crate::common::limits;
use crate::error::Result;
use crate::pass::expand::{Expand, Operand};

use super::guard::scalar_like;

/// Emits constant input `index` with 0 in the place of NaN, and where it is NaN. `None` if it has no NaN, or is
/// too large to be searched.
pub(super) fn numbers_apart(x: &mut Expand, index: usize) -> Result<Option<[Operand; 2]>> {
    let is_searched =
        |tensor: &&crate::tensor::Tensor| tensor.dtype().is_float() && tensor.len() <= limits::LOOKED_AT;
    let Some(tensor) = x.constant(index).filter(is_searched) else { return Ok(None) };
    let array = tensor.load_listed()?;
    if !array.to_f64()?.iter().any(|element| element.is_nan()) {
        return Ok(None);
    }
    let numbers = array.map(|element| if element.is_nan() { 0.0 } else { element })?;
    let lost = array.test(f64::is_nan)?;
    Ok(Some([x.literal(&numbers)?, x.literal(&lost)?]))
}

/// Emits NaN of the type of input `index`.
pub(super) fn nan_like(x: &mut Expand, index: usize) -> Result<Operand> {
    let Operand::Value(value) = x.operand(index)? else {
        return Err(crate::error::Error::internal("an input that is no value"));
    };
    let nan = scalar_like(x.graph(), value, f32::NAN)?;
    x.literal(&nan)
}

/// Expands a selection by input 1, known only at run time, from a constant with NaN.
pub(in crate::ops) fn expand_table_with_nan(x: &mut Expand) -> Result<bool> {
    if x.constant(1).is_some() {
        return Ok(false);
    }
    let Some([numbers, lost]) = numbers_apart(x, 0)? else { return Ok(false) };
    let (node, indices) = (x.node(), x.operand(1)?);
    let found = x.clone_with_inputs(node, vec![Some(numbers), Some(indices)])?;
    let lost = x.clone_with_inputs(node, vec![Some(lost), Some(indices)])?;
    let nan = nan_like(x, 0)?;
    let result = x.op("Where", &[lost, nan, found], &[])?;
    x.output(0, result)?;
    Ok(true)
}

/// Expands a Where that takes elements of a constant with NaN: numbers are taken first. A constant of nothing
/// but NaN stays.
pub(super) fn expand_choice_with_nan(x: &mut Expand) -> Result<bool> {
    for side in [1, 2] {
        if x.constant(side).is_some_and(|tensor| tensor.len() == 1) {
            continue;
        }
        let Some([numbers, lost]) = numbers_apart(x, side)? else { continue };
        let condition = x.operand(0)?;
        let (taken, sides) = if side == 1 {
            (condition, [numbers, x.operand(2)?])
        } else {
            (x.op("Not", &[condition], &[])?, [x.operand(1)?, numbers])
        };
        let lost = x.op("And", &[taken, lost], &[])?;
        let [chosen, other] = sides;
        let found = x.op("Where", &[condition, chosen, other], &[])?;
        let nan = nan_like(x, side)?;
        let result = x.op("Where", &[lost, nan, found], &[])?;
        x.output(0, result)?;
        return Ok(true);
    }
    Ok(false)
}
