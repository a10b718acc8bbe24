//! Sequences that end before the last step: they keep their states, and their outputs are 0.

use num_traits::AsPrimitive;

use super::input;
use crate::error::Result;
use crate::graph::Attribute;
use crate::op::Call;
use crate::pass::expand::{Expand, Operand};
use crate::tensor::{Dim, Tensor};

/// The lengths of the sequences.
pub(super) enum Lengths {
    /// All sequences take all steps.
    All,
    /// The number of steps of each sequence.
    Known(Vec<i64>),
    /// The lengths are computed at run time.
    Computed,
}

pub(super) fn read_lengths(call: &Call, steps: &Dim) -> Result<Lengths> {
    if !call.has_input(input::SEQUENCE_LENS) {
        return Ok(Lengths::All);
    }
    // Lengths are often computed from the shape of X, so they are compared as symbolic sizes.
    let Ok(lengths) = call.dims(input::SEQUENCE_LENS) else { return Ok(Lengths::Computed) };
    if lengths.iter().all(|length| length == steps) {
        return Ok(Lengths::All);
    }
    Ok(lengths.iter().map(Dim::known).collect::<Option<_>>().map_or(Lengths::Computed, Lengths::Known))
}

/// The sequences that have not ended at a step.
pub(super) enum Masks {
    All,
    Known(Vec<i64>),
    /// The lengths as a column of floats.
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
                Masks::Computed(expand.reshape(lengths, &[batch, 1])?)
            }
        })
    }

    /// Emits a column with 0 for sequences that have ended at `step`, else 1; `None` if none has ended.
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
                let mask = expand.op("Greater", &[*lengths, step], &[])?;
                Ok(Some(expand.op("Cast", &[mask], &[("to", cast_to(expand)?)])?))
            }
        }
    }
}

/// Returns the type of X as the attribute `to` of Cast.
fn cast_to(expand: &Expand) -> Result<Attribute> {
    Ok(Attribute::Int(i64::from(expand.dtype(input::X)?.to_onnx())))
}

/// Emits `new` for sequences with mask 1, else `old`, or 0 if `old` is omitted.
pub(super) fn masked(
    expand: &mut Expand,
    mask: Operand,
    old: Option<Operand>,
    new: Option<Operand>,
) -> Result<Option<Operand>> {
    let Some(new) = new else { return Ok(None) };
    let Some(old) = old else { return Ok(Some(expand.op("Mul", &[new, mask], &[])?)) };
    let change = expand.op("Sub", &[new, old], &[])?;
    let change = expand.op("Mul", &[change, mask], &[])?;
    Ok(Some(expand.op("Add", &[old, change], &[])?))
}
