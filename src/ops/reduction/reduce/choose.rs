//! Axes that are computed at run time, where the shape of the output leaves several choices: each is computed, and one is taken.

use super::{ReduceAttributes, choices};
use crate::error::Result;
use crate::graph::Attribute;
use crate::ops::run_time::{Choice, check_count, choose};
use crate::pass::expand::{Expand, Operand};
use crate::tensor::{Array, DType};

/// What a choice is told by: the sum of the powers of two at its axes but those of one element.
fn code(reduced: &[bool], matters: &[bool]) -> f32 {
    let powers = std::iter::successors(Some(1.0_f32), |power| Some(power * 2.0));
    let counted = reduced.iter().zip(matters).zip(powers);
    counted.filter(|((reduced, matters), _)| **reduced && **matters).map(|(_, power)| power).sum()
}

/// The code of the axes of input 1.
fn code_at_run_time(x: &mut Expand, matters: &[bool]) -> Result<Operand> {
    let rank = i64::try_from(matters.len())?;
    let axes = x.operand_as(1, DType::I64)?;
    let axes = x.reshape(axes, &[-1, 1])?;
    let (front, back) = (x.ints(&(0..rank).collect::<Vec<_>>())?, x.ints(&(-rank..0).collect::<Vec<_>>())?);
    let (front, back) = (x.op("Equal", &[axes, front], &[])?, x.op("Equal", &[axes, back], &[])?);
    let hits = x.op("Or", &[front, back], &[])?;
    let hits = x.cast(hits, DType::F32)?;
    let one = |axis: usize| (0..matters.len()).map(|other| other == axis).collect::<Vec<_>>();
    let powers: Vec<f32> = (0..matters.len()).map(|axis| code(&one(axis), matters)).collect();
    let powers = x.literal(&Array::f32(ndarray::ArrayD::from_shape_vec(vec![powers.len()], powers)?))?;
    let codes = x.op("Mul", &[hits, powers], &[])?;
    x.op("ReduceSum", &[codes], &[("keepdims", Attribute::Int(0))])
}

pub(super) fn expand_choices(x: &mut Expand, reduce: &ReduceAttributes) -> Result<bool> {
    if !x.has_input(1) || x.constant(1).is_some() {
        return Ok(false);
    }
    let shape = x.shape(0)?.to_vec();
    let Some(choices) = choices(x, reduce, &shape).filter(|choices| choices.len() > 1) else {
        return Ok(false);
    };
    check_count("axes", choices.len())?;
    let matters: Vec<bool> = shape.iter().map(|size| !size.is(1)).collect();
    let taken = code_at_run_time(x, &matters)?;
    let data = x.operand(0)?;
    let mut reductions = Vec::with_capacity(choices.len());
    for choice in &choices {
        let mut axes = Vec::new();
        for (axis, _) in choice.iter().enumerate().filter(|(_, reduced)| **reduced) {
            axes.push(i64::try_from(axis)?);
        }
        let axes = x.ints(&axes)?;
        let keepdims = Attribute::Int(i64::from(reduce.keepdims));
        let result = x.op(reduce.kind.op_type(), &[data, axes], &[("keepdims", keepdims)])?;
        let mut meant = Vec::new();
        if !reductions.is_empty() {
            let number = ndarray::ArrayD::from_elem(ndarray::IxDyn(&[]), code(choice, &matters));
            let number = x.literal(&Array::f32(number))?;
            meant.push(x.op("Equal", &[taken, number], &[])?);
        }
        reductions.push(Choice { result, meant });
    }
    let result = choose(x, &reductions)?;
    x.output(0, result)?;
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
