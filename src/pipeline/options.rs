//! The options of a conversion.

use std::collections::BTreeSet;
use std::path::PathBuf;

use crate::lower::Cut;
use crate::ncnn::Embedding;
use crate::onnx::ReadOptions;
use crate::pass::blocks::Weights;
use crate::pass::quantized::Quantization;
use crate::tensor::{Array, Dim};

/// The options of a conversion, as [`Converter`](crate::Converter) sets them. Its methods document them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Options {
    pub read: ReadOptions,
    pub input_shapes: Vec<(String, Vec<Dim>)>,
    pub input_values: Vec<(String, Array)>,
    pub inputs: Vec<String>,
    pub outputs: Vec<String>,
    pub random_as_input: bool,
    pub renames: Vec<(String, String)>,
    pub double_as_float: bool,
    pub ncnn_version: Option<u32>,
    pub quantization: Quantization,
    pub weights: Weights,
    pub fp16: bool,
    pub precise: bool,
    pub float32: Vec<String>,
    pub kv_cache: bool,
    pub strict: bool,
    pub table: Option<PathBuf>,
    pub embedding: Embedding,
    pub emit_onnx: Option<PathBuf>,
    pub keep_onnx: bool,
    pub report: Option<PathBuf>,
    pub html: Option<PathBuf>,
    pub skip: BTreeSet<String>,
    pub check: bool,
    pub explain: bool,
}

impl Options {
    /// The same options for a part of the model.
    pub fn cut_at(&self, cut: &Cut) -> Options {
        let or =
            |part: &Vec<String>, own: &Vec<String>| if part.is_empty() { own.clone() } else { part.clone() };
        let (inputs, outputs) = (or(&cut.inputs, &self.inputs), or(&cut.outputs, &self.outputs));
        // A renamed value may lie outside of the part.
        let renames = Vec::new();
        Options {
            inputs,
            outputs,
            renames,
            emit_onnx: None,
            keep_onnx: false,
            report: None,
            html: None,
            ..self.clone()
        }
    }
}
