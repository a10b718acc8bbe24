//! The layers of a net that was read whose params or weights differ from a conversion's.

use std::collections::BTreeMap;

use super::{Difference, FLOAT32, WeightChange};
use crate::error::{Error, Result};
use crate::ncnn::Net;
use crate::ncnn::contents::LayerName;

/// The largest difference of two elements that are equal but for their rounding: of float32, and of a type
/// with fewer digits, relative to the largest magnitude of the weight.
const ROUNDED: f64 = 1e-6;
const ROUNDED_TYPE: f64 = 1e-3;

/// The param of a constant that says whether it is stored in float16.
const STORED: &str = "load_type";

/// What a net that was read has instead of the params and weights of a conversion.
#[derive(Debug, Default)]
pub(crate) struct Deviations {
    /// The layers with other weights, by their names in the net that was read, and what differs.
    pub weights: Vec<(String, String)>,
    /// Other layers, wiring or params, each in a line. If there are any, the weights of layers are those of
    /// other options, and are not judged.
    pub layers: Vec<String>,
}

impl Net {
    /// Compares the params and weights of a net that was read with those that this net has in its files.
    ///
    /// # Errors
    ///
    /// A weight cannot be read.
    pub(crate) fn deviations(&self, read: &Net) -> Result<Deviations> {
        let (mut param, mut bin) = (Vec::new(), Vec::new());
        self.stream(&mut param, &mut bin)?;
        let unread = |errors| Error::internal(format!("a written net cannot be read: {errors}"));
        let written = self.read_like(&param, bin.into()).map_err(unread)?;
        let comparison = written.compare(read)?;
        let names: BTreeMap<String, String> = comparison.renamed.into_iter().collect();
        let mut deviations = Deviations::default();
        for difference in comparison.differences {
            match difference {
                Difference::Weight { layer, weight, change } => {
                    let name = names.get(&layer.name).cloned().unwrap_or(layer.name);
                    deviations.weights.extend(changed(weight, &change).map(|change| (name, change)));
                }
                other => deviations.layers.extend(described(&other)),
            }
        }
        if !deviations.layers.is_empty() {
            deviations.weights.clear();
        }
        Ok(deviations)
    }
}

/// Describes other elements of a weight; `None` if they are rounded otherwise.
fn changed(weight: &str, change: &WeightChange) -> Option<String> {
    match change {
        WeightChange::Length { old, new } => {
            Some(format!("{weight} has {new} elements, and a conversion writes {old}"))
        }
        WeightChange::Elements { count, of, largest, magnitude, first, old, new } => {
            let permitted = if old == new { ROUNDED } else { ROUNDED_TYPE };
            if *largest <= permitted * magnitude {
                return None;
            }
            let first = first.unwrap_or_default();
            Some(format!(
                "{count} of {of} elements of {weight} are not those of a conversion, from element {first} on, \
                 by at most {largest:.1e}"
            ))
        }
    }
}

/// Describes a difference that is not one of weights.
fn described(difference: &Difference) -> Option<String> {
    let named = |layer: &LayerName| format!("{} \"{}\"", layer.type_name, layer.name);
    let listed =
        |names: &[String]| names.iter().map(|name| format!("\"{name}\"")).collect::<Vec<_>>().join(", ");
    match difference {
        Difference::Removed { layer } => Some(format!("no layer {}", named(layer))),
        Difference::Added { layer } => Some(format!("a further layer {}", named(layer))),
        Difference::Type { layer, new } => Some(format!("{new} instead of {}", named(layer))),
        // The user chooses the layers that compute in float32, and the type in which constants are stored.
        Difference::Param { param, .. } if [FLOAT32, STORED].contains(param) => None,
        Difference::Param { layer, param, old, new } => {
            Some(format!("{}: {param} is {new} instead of {old}", named(layer)))
        }
        Difference::Wiring { layer, old, new } => {
            Some(format!("{} reads {} instead of {}", named(layer), listed(new), listed(old)))
        }
        Difference::Inputs { .. } | Difference::Outputs { .. } | Difference::Weight { .. } => None,
    }
}
