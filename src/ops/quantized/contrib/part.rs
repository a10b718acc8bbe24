//! QLinearConcat and QLinearWhere: parts in steps of their own, in steps of the result.

use super::super::level::{Target, constant_int, finalize, levels, number, read_bounds};
use super::super::nearest::Line;
use super::super::resolve_axis;
use super::{constant_scale, dequantised};
use crate::error::{Error, Result};
use crate::graph::Attribute;
use crate::op::{Call, Fact, required};
use crate::pass::expand::{Expand, Operand};
use crate::tensor::{Dim, broadcast_shapes};

/// Where the parts of QLinearConcat begin: each has a step and a zero point after it.
const FIRST_PART: usize = 2;

pub(super) fn infer_concat(call: &Call) -> Result<Vec<Fact>> {
    read_bounds(call)?;
    let axis = required(call.int("axis")?, "axis")?;
    let mut shape = call.shape(FIRST_PART)?.to_vec();
    let axis = resolve_axis(axis, shape.len())?;
    let mut total = Dim::Known(0);
    for part in (FIRST_PART..call.input_count()).step_by(3) {
        let size = call.shape(part)?.get(axis).cloned();
        total = total.add(&size.ok_or_else(|| Error::invalid("parts of different numbers of axes"))?)?;
    }
    if let Some(slot) = shape.get_mut(axis) {
        *slot = total;
    }
    Ok(vec![Fact::new(call.dtype(1)?, shape)])
}

/// Each part in steps of the result (`qlinear_concat.cc`: a table of all values), then all of them.
pub(super) fn expand_concat(x: &mut Expand) -> Result<bool> {
    let axis = ("axis", Attribute::Int(required(x.int("axis")?, "axis")?));
    let mut parts = Vec::new();
    for part in (FIRST_PART..x.input_count()).step_by(3) {
        parts.push(stepped_part(x, part, 0)?);
    }
    let result = x.op("Concat", &parts, &[axis])?;
    x.output(0, result)?;
    Ok(true)
}

/// Places of the inputs of QLinearWhere.
mod choice {
    pub const X: usize = 1;
    pub const Y: usize = 4;
    pub const SCALE: usize = 7;
}

pub(super) fn infer_where(call: &Call) -> Result<Vec<Fact>> {
    let shape = broadcast_shapes(call.shape(choice::X)?, call.shape(choice::Y)?)?;
    Ok(vec![Fact::new(call.dtype(choice::X)?, broadcast_shapes(call.shape(0)?, &shape)?)])
}

/// Both operands in steps of the result (`qlinear_where.cc`: a table of all values), then one of them.
pub(super) fn expand_where(x: &mut Expand) -> Result<bool> {
    let condition = x.operand(0)?;
    let a = stepped_part(x, choice::X, choice::SCALE)?;
    let b = stepped_part(x, choice::Y, choice::SCALE)?;
    let result = x.op("Where", &[condition, a, b], &[])?;
    x.output(0, result)?;
    Ok(true)
}

/// Quantised values at input `part` in steps of the result, which stand at input `scale`.
fn stepped_part(x: &mut Expand, part: usize, scale: usize) -> Result<Operand> {
    if let Some(target) = Target::of_output(x, scale + 1)?
        && let Some(moved) = part_levels(x, part, scale, target)?
    {
        return Ok(moved);
    }
    let number = dequantised(x, part)?;
    let (step, zero) = (x.operand(scale)?, x.operand(scale + 1)?);
    x.op("QuantizeLinear", &[number, step, zero], &[])
}

/// The same where one product gives all values.
fn part_levels(x: &mut Expand, part: usize, scale: usize, target: Target) -> Result<Option<Operand>> {
    let (Some(scale), Some(part_scale), Some(zero)) =
        (constant_scale(x, scale)?, constant_scale(x, part + 1)?, constant_int(x, part + 2)?)
    else {
        return Ok(None);
    };
    if scale == part_scale && zero == target.zero {
        return x.operand(part).map(Some);
    }
    let levels = levels(x, part, zero)?;
    let line = Line { scales: [part_scale, scale], bounds: (levels.low, levels.high), target };
    let Some(ratio) = line.solve() else { return Ok(None) };
    let ratio = number(x, ratio)?;
    let scaled = x.op("Mul", &[levels.operand, ratio], &[])?;
    finalize(x, scaled, target).map(Some)
}
