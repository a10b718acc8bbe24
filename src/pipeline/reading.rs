//! Readings of a model in which sizes stay free: what its names and its exporter mean is not written in it.

use std::collections::BTreeMap;

use super::convert::{Reading, convert_with, has_counts};
use super::{Conversion, Options};
use crate::error::{Errors, Where};
use crate::onnx::Sources;
use crate::ops;
use crate::pass::first_axis::Counts;
use crate::tensor::SizeCondition;

/// Converts a model in the first reading that is not refused: first axes that count other things than batches
/// stay free if possible, and axes that are removed if they have one element have more, if possible.
pub(crate) fn convert(sources: &Sources, options: &Options) -> std::result::Result<Conversion, Errors> {
    ops::register();
    let mut reading = Reading { counts: Counts::Free, squeezes: None };
    let mut refusal = match convert_as(sources, options, reading) {
        Err(refusal) => refusal,
        converted => return converted,
    };
    if has_counts(sources, options)? {
        reading.counts = Counts::One;
        refusal = match convert_as(sources, options, reading) {
            Err(refusal) => refusal,
            converted => return converted,
        };
    }
    let is_branch = |at: &Where| at.node.as_ref().is_some_and(|node| node.op_type == "If");
    if refusal.iter().any(|error| is_branch(error.at())) {
        for squeezes in [false, true] {
            let reading = Reading { squeezes: Some(squeezes), ..reading };
            if let Ok(converted) = convert_as(sources, options, reading) {
                return Ok(converted);
            }
        }
    }
    Err(refusal)
}

/// Converts a model in a reading. If the conditions on the net leave one value to a free size, the model is
/// converted again with that value.
fn convert_as(
    sources: &Sources,
    options: &Options,
    reading: Reading,
) -> std::result::Result<Conversion, Errors> {
    let mut fixed = BTreeMap::new();
    loop {
        let converted = convert_with(sources, options, &fixed, reading)?;
        let conditions = converted.conditions.iter().cloned().collect();
        match SizeCondition::determined(&conditions)? {
            Some((name, value)) if !fixed.contains_key(&name) => fixed.extend([(name, value)]),
            _ => return Ok(converted),
        }
    }
}
