//! Reductions with axes computed at run time: the shape of the output leaves a few choices of axes. All are
//! computed, and one is selected at run time.

use super::node::{ReduceAttributes, axis_numbers, choices};
use crate::ops::prelude::*;

/// The maximum number of choices.
const MAX_CHOICES: usize = 8;

/// Returns the number that identifies a choice: the sum of a power of two for each reduced axis of more than
/// one element.
fn code(reduced: &[bool], matters: &[bool]) -> f32 {
    let powers = std::iter::successors(Some(1.0_f32), |power| Some(power * 2.0));
    let counted = reduced.iter().zip(matters).zip(powers);
    counted.filter(|((reduced, matters), _)| **reduced && **matters).map(|(_, power)| power).sum()
}

/// Returns the code of the axes in input 1.
fn code_at_run_time<'x>(x: &'x Expand, matters: &[bool]) -> Result<Expr<'x>> {
    let rank = matters.len().int();
    let axes = x.operand_as(1, DType::I64).reshape(&[-1, 1]);
    let [front, back] = [0..rank, -rank..0].map(|list| axes.equal(x.make.ints(&list.collect::<Vec<_>>())));
    let one = |axis: usize| (0..matters.len()).map(|other| other == axis).collect::<Vec<_>>();
    let powers: Vec<f32> = (0..matters.len()).map(|axis| code(&one(axis), matters)).collect();
    Ok(((front | back).cast(DType::F32) * x.make.floats(&powers)).reduce_all("ReduceSum"))
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
    let data = x.operand(0);
    let mut result: Option<Expr> = None;
    for choice in &choices {
        let reduced = data.reduce(x.op_type(), &axis_numbers(choice), reduce.keepdims);
        result = Some(
            result.map_or(reduced, |others| selected.equal(code(choice, &matters)).select(reduced, others)),
        );
    }
    x.output(0, result.ok_or_else(|| Error::internal("no choice of axes"))?);
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
