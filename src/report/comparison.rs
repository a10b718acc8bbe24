//! The comparison of a net with its model, in a report.

use serde::{Deserialize, Serialize};

/// The comparison of a net with its model: in onnxruntime, or layer by layer without a runtime.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ComparisonPart {
    /// The outputs of the model.
    pub outputs: Vec<Distance>,
    /// Intermediate values, in the order of layers.
    pub layers: Vec<Distance>,
    /// The result in a line, for a comparison layer by layer without a runtime.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verdict: Option<String>,
    /// The seconds of a run of the net, if they are measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seconds: Option<f64>,
}

/// The distance of a value in the net from that of the model.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Distance {
    /// The name of the value in the model.
    pub name: String,
    /// The name of its blob.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub blob: Option<String>,
    /// Whether both are the same within the tolerance.
    pub same: bool,
    /// The largest difference; `None` if the values cannot be compared.
    pub max_abs: Option<f64>,
    /// That difference, relative to the largest magnitude of the value.
    pub relative: Option<f64>,
    /// The cosine of the angle between both.
    pub cosine: Option<f64>,
    /// The reason why the numbers are missing.
    #[serde(default)]
    pub why: String,
    /// The relative error of the layers since the compared blobs before, where these have the model's values.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub alone: Option<f64>,
    /// What explains the difference.
    #[serde(default)]
    pub note: String,
    /// The seconds of the layers since the intermediate value before it, on a device.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seconds: Option<f64>,
}

impl ComparisonPart {
    /// Creates a comparison of outputs and intermediate values, with the time of a run.
    pub fn new(outputs: Vec<Distance>, layers: Vec<Distance>, seconds: Option<f64>) -> ComparisonPart {
        ComparisonPart { outputs, layers, verdict: None, seconds }
    }
}

impl Distance {
    /// Returns the largest difference, absolute and relative, and the cosine, or why these are missing.
    pub fn describe(&self) -> String {
        match (self.max_abs, self.relative, self.cosine) {
            (Some(max_abs), Some(relative), Some(cosine)) if self.why.is_empty() => {
                let note = if self.note.is_empty() { String::new() } else { format!("  {}", self.note) };
                let seconds =
                    self.seconds.map_or(String::new(), |seconds| format!("  {:.3} ms", 1e3 * seconds));
                let isolated = self.alone.map_or(String::new(), |error| format!("  alone {error:.3e}"));
                format!(
                    "max abs {max_abs:.3e}  relative {relative:.3e}{isolated}  cosine {cosine:.6}{note}{seconds}"
                )
            }
            _ => self.why.clone(),
        }
    }
}
