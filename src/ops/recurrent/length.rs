//! Sequences that end before the last step: they keep their states, and their outputs are 0.

use num_traits::AsPrimitive;

use super::node::input;
use crate::ops::prelude::*;

/// The lengths of the sequences.
pub(super) enum Lengths {
    /// All sequences take all steps.
    All,
    /// The number of steps of each sequence.
    Known(Vec<i64>),
    /// The lengths are computed at run time.
    Computed,
}

pub(super) fn read_lengths(call: &Call, steps: &Dim) -> Lengths {
    if !call.has_input(input::SEQUENCE_LENS) {
        return Lengths::All;
    }
    // Lengths are often computed from the shape of X, so they are compared as symbolic sizes.
    let Ok(lengths) = call.dims(input::SEQUENCE_LENS) else { return Lengths::Computed };
    if lengths.iter().all(|length| length == steps) {
        return Lengths::All;
    }
    Dim::known_sizes(&lengths).map_or(Lengths::Computed, Lengths::Known)
}

/// The sequences that have not ended at a step.
pub(super) enum Masks<'x> {
    All,
    Known {
        lengths: Vec<i64>,
        shape: Vec<i64>,
        expand: &'x Expand<'x>,
        dtype: DType,
    },
    /// The lengths as floats, in the type of X.
    Computed(Expr<'x>),
}

impl<'x> Masks<'x> {
    /// Reads the lengths as a value of this shape.
    pub fn new(expand: &'x Expand, steps: &Dim, shape: &[i64]) -> Result<Masks<'x>> {
        let dtype = expand.dtype(input::X)?;
        Ok(match read_lengths(expand, steps) {
            Lengths::All => Masks::All,
            Lengths::Known(lengths) => Masks::Known { lengths, shape: shape.to_vec(), expand, dtype },
            Lengths::Computed => {
                let lengths = expand.operand(input::SEQUENCE_LENS).cast(dtype);
                Masks::Computed(lengths.reshape(shape))
            }
        })
    }

    /// Returns 0 for sequences that have ended at `step`, else 1; `None` if none has ended.
    pub fn at(&self, step: i64) -> Option<Expr<'x>> {
        match self {
            Masks::All => None,
            Masks::Known { lengths, shape, expand, dtype } => {
                let mask: Vec<f32> =
                    lengths.iter().map(|length| if step < *length { 1.0 } else { 0.0 }).collect();
                let has_ended = mask.contains(&0.0);
                has_ended.then(|| expand.make.floats(&mask).reshape(shape).cast(*dtype))
            }
            Masks::Computed(lengths) => {
                let step: f32 = step.as_();
                lengths.dtype.map(|dtype| lengths.greater(step).cast(dtype))
            }
        }
    }
}

/// Returns `new` for sequences with mask 1, else `old`, or 0 if `old` is omitted.
pub(super) fn masked<'x>(mask: Expr<'x>, old: Option<Expr<'x>>, new: Option<Expr<'x>>) -> Option<Expr<'x>> {
    let new = new?;
    Some(old.map_or_else(|| new * mask, |old| old + (new - old) * mask))
}
