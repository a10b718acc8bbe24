//! Sequences that end before the last step: their states stay, and their outputs are 0.

use num_traits::AsPrimitive;

use super::input;
use super::unroll::reshape;
use crate::error::Result;
use crate::graph::Attribute;
use crate::op::Call;
use crate::pass::expand::{Expand, Operand};
use crate::tensor::{Dim, Tensor};

/// How many steps the sequences take.
pub(super) enum Lengths {
    /// All steps.
    All,
    /// Each as many.
    Known(Vec<i64>),
    /// As many as is computed at run time.
    Computed,
}

pub(super) fn read_lengths(call: &Call, steps: &Dim) -> Result<Lengths> {
    if !call.has_input(input::SEQUENCE_LENS) {
        return Ok(Lengths::All);
    }
    // Lengths are often computed from the shape of X: they are compared as sizes.
    let Ok(lengths) = call.dims(input::SEQUENCE_LENS) else { return Ok(Lengths::Computed) };
    if lengths.iter().all(|length| length == steps) {
        return Ok(Lengths::All);
    }
    Ok(lengths.iter().map(Dim::known).collect::<Option<_>>().map_or(Lengths::Computed, Lengths::Known))
}

/// Which sequences still run at a step.
pub(super) enum Masks {
    All,
    Known(Vec<i64>),
    /// Lengths as a column of singles.
    Computed(Operand),
}

impl Masks {
    pub fn new(expand: &mut Expand, steps: &Dim, batch: i64) -> Result<Masks> {
        Ok(match read_lengths(expand, steps)? {
            Lengths::All => Masks::All,
            Lengths::Known(lengths) => Masks::Known(lengths),
            Lengths::Computed => {
                let lengths = expand.operand(input::SEQUENCE_LENS)?;
                let lengths = expand.op("Cast", &[lengths], &[("to", cast_to(expand)?)])?;
                Masks::Computed(reshape(expand, lengths, &[batch, 1])?)
            }
        })
    }

    /// A column with 1 for each sequence that runs at `step`; nothing where all do.
    pub fn at(&self, expand: &mut Expand, step: i64) -> Result<Option<Operand>> {
        match self {
            Masks::All => Ok(None),
            Masks::Known(lengths) => {
                let mask: Vec<f32> =
                    lengths.iter().map(|length| if step < *length { 1.0 } else { 0.0 }).collect();
                if !mask.contains(&0.0) {
                    return Ok(None);
                }
                let mask = Tensor::from_f32(&[mask.len(), 1], mask)?;
                let mask = expand.tensor(mask)?;
                Ok(Some(expand.op("Cast", &[mask], &[("to", cast_to(expand)?)])?))
            }
            Masks::Computed(lengths) => {
                let step = expand.scalar_like(0, step.as_())?;
                let runs = expand.op("Greater", &[*lengths, step], &[])?;
                Ok(Some(expand.op("Cast", &[runs], &[("to", cast_to(expand)?)])?))
            }
        }
    }
}

/// The type of X, as Cast wants it.
fn cast_to(expand: &Expand) -> Result<Attribute> {
    Ok(Attribute::Int(i64::from(expand.dtype(input::X)?.to_onnx())))
}

/// `new` where the mask is 1, else `old`, which is 0 where it is left out.
pub(super) fn masked(
    expand: &mut Expand,
    mask: Operand,
    old: Option<Operand>,
    new: Option<Operand>,
) -> Result<Option<Operand>> {
    let Some(new) = new else { return Ok(None) };
    let Some(old) = old else { return Ok(Some(expand.op("Mul", &[new, mask], &[])?)) };
    let step = expand.op("Sub", &[new, old], &[])?;
    let step = expand.op("Mul", &[step, mask], &[])?;
    Ok(Some(expand.op("Add", &[old, step], &[])?))
}
