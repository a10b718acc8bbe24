//! Quantization by the tool of onnxruntime.

use std::path::{Path, PathBuf};

use onnx2ncnn::error::Result;
use serde::{Deserialize, Serialize};

use super::{PythonArguments, run_to_end};

/// The script that quantizes models.
pub const QUANTIZE: &str =
    concat!(include_str!("session.py"), include_str!("samples.py"), include_str!("quantize.py"));

/// What the script needs.
const PACKAGES: &str = "onnx onnxruntime ncnn";

/// The quantization of a model.
#[derive(Debug, Default, Serialize)]
pub(in crate::cli) struct Quantize {
    /// The float model.
    pub model: PathBuf,
    /// A file of samples, or a folder of them.
    pub data: PathBuf,
    /// The subtracted numbers and the factors of the channels of images; none for the default.
    pub mean: Vec<f64>,
    pub norm: Vec<f64>,
    /// Whether images are read as BGR.
    pub bgr: bool,
    /// The file for the samples, as arrays `INDEX/INPUT`.
    pub samples: PathBuf,
    /// The name of the calibration method.
    pub method: String,
    /// Names of nodes, or of their outputs, that stay in float.
    pub keep: Vec<String>,
    /// Outputs of the nodes of which int8 layers can do the work.
    pub candidates: Vec<String>,
    /// The file for the quantized model.
    pub quantized: PathBuf,
    /// The maximum loss, for which some samples are set aside.
    pub max_loss: Option<f64>,
}

/// A quantized model with further nodes in float.
#[derive(Debug, Serialize)]
struct Variant<'a> {
    model: &'a Path,
    quantized: &'a Path,
    /// The first outputs of the nodes.
    keep: &'a [String],
    variant: &'a Path,
}

/// The result of a quantization.
#[derive(Debug, Deserialize)]
pub(in crate::cli) struct Quantized {
    /// The number of samples.
    pub samples: usize,
    /// The quantized nodes.
    pub layers: Vec<LayerError>,
}

/// The error of the result of a quantized node.
#[derive(Debug, Deserialize)]
pub(in crate::cli) struct LayerError {
    pub name: String,
    /// The norm of the difference over that of the float result.
    pub error: f64,
    /// For a maximum loss, the first output of the node, and the loss at the outputs of the model if only it
    /// is quantized.
    #[serde(default)]
    pub output: String,
    #[serde(default)]
    pub effect: f64,
}

impl Quantize {
    /// Quantizes the model.
    pub fn ask(&self, arguments: &PythonArguments) -> Result<Quantized> {
        run_to_end(QUANTIZE, self, "quantized", PACKAGES, arguments)
    }

    /// Writes the quantized model with the nodes of these outputs in float.
    pub fn write_variant(&self, keep: &[String], path: &Path, arguments: &PythonArguments) -> Result<()> {
        let variant = Variant { model: &self.model, quantized: &self.quantized, keep, variant: path };
        run_to_end(QUANTIZE, &variant, "quantized", PACKAGES, arguments).map(|_: Quantized| ())
    }
}
