//! Matrices that are rounded to integers in blocks by samples.

use std::collections::BTreeMap;
use std::path::PathBuf;

use onnx2ncnn::error::Result;
use serde::{Deserialize, Serialize};

use super::{PythonArguments, run_to_end};

/// The script that rounds matrices.
pub const WEIGHTS: &str = concat!(
    include_str!("session.py"),
    include_str!("samples.py"),
    include_str!("parts.py"),
    include_str!("weights.py")
);

/// The rounding of the matrices of a model.
#[derive(Debug, Serialize)]
pub(in crate::cli) struct Round {
    pub model: PathBuf,
    /// A file of samples, or a folder of them.
    pub data: PathBuf,
    /// The bits of the integers.
    pub bits: usize,
    /// The sizes of matrices that are rounded.
    pub sizes: BTreeMap<&'static str, usize>,
    /// The largest loss of an output, one minus its cosine, if the bits of each matrix follow from it.
    pub max_loss: Option<f64>,
    /// The file for the model with the integers.
    pub rounded: PathBuf,
}

/// What is measured of the rounded model.
#[derive(Debug, Deserialize)]
pub(in crate::cli) struct Rounded {
    /// The number of samples that were set aside for the errors.
    pub samples: usize,
    /// Whether the weights are rounded by samples, not to the nearest integers.
    pub by_samples: bool,
    pub warnings: Vec<String>,
    pub outputs: Vec<OutputError>,
    /// The loss, if there is a largest one.
    pub loss: Option<f64>,
    /// Bits, 32 for floats, and the number of matrices that have them, if there is a largest loss.
    pub bits: Vec<(usize, usize)>,
}

/// The error of an output: the norm of the differences, relative to the norm of the output, if weights are
/// rounded by samples.
#[derive(Debug, Deserialize)]
pub(in crate::cli) struct OutputError {
    pub name: String,
    pub error: f64,
    /// The error if each weight is rounded to the nearest integer.
    pub plain: f64,
}

impl Round {
    /// Writes the rounded model.
    pub fn ask(&self, arguments: &PythonArguments) -> Result<Rounded> {
        run_to_end(WEIGHTS, self, "rounded", "onnx onnxruntime", arguments)
    }
}
