//! Constants with NaN: a selection by products or minima gives only numbers, and NaN is inserted afterwards.

use crate::ops::prelude::*;

/// Returns constant input `index` with 0 instead of NaN, and where it is NaN. `None` if it has no NaN,
/// or is too large to be searched.
fn split_numbers<'x>(x: &'x Expand, index: usize) -> Result<Option<[Expr<'x>; 2]>> {
    let is_searched = |tensor: &&Tensor| tensor.dtype().is_float() && tensor.len() <= limits::LOOKED_AT;
    let Some(tensor) = x.constant(index).filter(is_searched) else { return Ok(None) };
    let array = tensor.load_listed()?;
    if !array.to_f64()?.iter().any(|element| element.is_nan()) {
        return Ok(None);
    }
    let numbers = array.map(|element| if element.is_nan() { 0.0 } else { element })?;
    Ok(Some([x.make.literal(&numbers), x.make.literal(&array.test(f64::is_nan)?)]))
}

/// Expands a selection by input 1, known only at run time, from a constant with NaN.
pub(in crate::ops) fn expand_table_with_nan(x: &Expand) -> Result<bool> {
    if x.constant(1).is_some() {
        return Ok(false);
    }
    let Some([numbers, lost]) = split_numbers(x, 0)? else { return Ok(false) };
    let indices = Some(x.operand(1));
    let found = x.make.only_copy_of(x.node(), &[Some(numbers), indices])?;
    let lost = x.make.only_copy_of(x.node(), &[Some(lost), indices])?;
    x.output(0, lost.select(x.make.number(f32::NAN, x.dtype(0)?), found));
    Ok(true)
}

/// Expands a Where that takes elements of a constant with NaN: numbers are taken first. A constant of nothing
/// but NaN stays.
pub(super) fn expand_choice_with_nan(x: &Expand) -> Result<bool> {
    for side in [1, 2] {
        if x.constant(side).is_some_and(|tensor| tensor.len() == 1) {
            continue;
        }
        let Some([numbers, lost]) = split_numbers(x, side)? else { continue };
        let condition = x.operand(0);
        let (taken, found) = if side == 1 {
            (condition, condition.select(numbers, x.operand(2)))
        } else {
            (!condition, condition.select(x.operand(1), numbers))
        };
        x.output(0, (taken & lost).select(x.make.number(f32::NAN, x.dtype(side)?), found));
        return Ok(true);
    }
    Ok(false)
}
