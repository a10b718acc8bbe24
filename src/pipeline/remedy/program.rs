//! Parts from which a program of `--example` computes the rest of the model.

use super::super::Conversion;
use super::super::rest::{Omitted, Rest, rest};
use super::{Remedy, Search};

impl Search<'_> {
    /// Returns a part, from which a program computes the rest if it can: with the constants for that.
    pub(super) fn with_program(&mut self, part: Remedy, converted: &Conversion) -> Remedy {
        if !part.inputs.is_empty() {
            return part;
        }
        match rest(converted) {
            Some(Rest::Computed(_)) => Remedy { has_program: true, ..part },
            Some(Rest::Omitted(Omitted { operators, constants, values }))
                if operators.is_empty() && values.is_empty() =>
            {
                let mut larger = part.clone();
                larger.outputs.extend(constants);
                let Some(Ok(converted)) = self.attempt(&larger) else { return part };
                match rest(&converted) {
                    Some(Rest::Computed(_)) => Remedy { has_program: true, ..larger },
                    _ => part,
                }
            }
            _ => part,
        }
    }
}
