//! Reductions with axes computed at run time: the shape of the output leaves a few choices of axes. All are
//! computed, and one is selected at run time.

use super::{ReduceAttributes, choices};
use crate::error::{Error, Result, unsupported};
use crate::graph::Attribute;
use crate::pass::expand::{Expand, Operand};
use crate::tensor::{Array, DType};

/// The maximum number of choices.
const MAX_CHOICES: usize = 8;

/// Returns the number that identifies a choice: the sum of a power of two for each reduced axis of more than
/// one element.
fn code(reduced: &[bool], matters: &[bool]) -> f32 {
    let powers = std::iter::successors(Some(1.0_f32), |power| Some(power * 2.0));
    let counted = reduced.iter().zip(matters).zip(powers);
    counted.filter(|((reduced, matters), _)| **reduced && **matters).map(|(_, power)| power).sum()
}

/// Emits the code of the axes in input 1.
fn code_at_run_time(x: &Expand, matters: &[bool]) -> Result<Operand> {
    let rank = i64::try_from(matters.len())?;
    let axes = x.raw_operand_as(1, DType::I64)?;
    let axes = x.raw_reshape(axes, &[-1, 1])?;
    let (front, back) =
        (x.raw_ints(&(0..rank).collect::<Vec<_>>())?, x.raw_ints(&(-rank..0).collect::<Vec<_>>())?);
    let (front, back) = (x.raw_op("Equal", &[axes, front], &[])?, x.raw_op("Equal", &[axes, back], &[])?);
    let hits = x.raw_op("Or", &[front, back], &[])?;
    let hits = x.raw_cast(hits, DType::F32)?;
    let one = |axis: usize| (0..matters.len()).map(|other| other == axis).collect::<Vec<_>>();
    let powers: Vec<f32> = (0..matters.len()).map(|axis| code(&one(axis), matters)).collect();
    let powers = x.raw_literal(&Array::f32(ndarray::ArrayD::from_shape_vec(vec![powers.len()], powers)?))?;
    let codes = x.raw_op("Mul", &[hits, powers], &[])?;
    x.raw_op("ReduceSum", &[codes], &[("keepdims", Attribute::Int(0))])
}

pub(super) fn expand_choices(x: &Expand, reduce: &ReduceAttributes) -> Result<bool> {
    if !x.has_input(1) || x.constant(1).is_some() {
        return Ok(false);
    }
    let shape = x.shape(0)?.to_vec();
    let Some(choices) = choices(x, reduce, &shape).filter(|choices| choices.len() > 1) else {
        return Ok(false);
    };
    if choices.len() > MAX_CHOICES {
        unsupported!("axes computed at run time: {} choices give the shape of the output", choices.len());
    }
    let matters: Vec<bool> = shape.iter().map(|size| !size.is(1)).collect();
    let selected = code_at_run_time(x, &matters)?;
    let data = x.raw_operand(0)?;
    let mut result = None;
    for choice in &choices {
        let mut axes = Vec::new();
        for (axis, _) in choice.iter().enumerate().filter(|(_, reduced)| **reduced) {
            axes.push(i64::try_from(axis)?);
        }
        let axes = x.raw_ints(&axes)?;
        let keepdims = Attribute::Int(i64::from(reduce.keepdims));
        let reduced = x.raw_op(reduce.kind.op_type(), &[data, axes], &[("keepdims", keepdims)])?;
        result = Some(match result {
            None => reduced,
            Some(others) => {
                let code = ndarray::ArrayD::from_elem(ndarray::IxDyn(&[]), code(choice, &matters));
                let code = x.raw_literal(&Array::f32(code))?;
                let is_selected = x.raw_op("Equal", &[selected, code], &[])?;
                x.raw_op("Where", &[is_selected, reduced, others], &[])?
            }
        });
    }
    x.raw_output(0, result.ok_or_else(|| Error::internal("no choice of axes"))?)?;
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_leave_out_unit_axes() {
        assert_eq!(code(&[true, true, false, true], &[true, false, true, true]), 9.0);
    }
}
