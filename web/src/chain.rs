//! A model as a chain of nets.

use std::path::Path;
use std::sync::Arc;

use onnx2ncnn::{Part, Step};
use wasm_bindgen::prelude::wasm_bindgen;

use crate::conversion::{Conversion, Files, Simplified};

/// A model as a chain of nets.
#[wasm_bindgen]
pub struct Chain {
    chain: onnx2ncnn::Chain,
    files: Files,
}

impl Chain {
    /// Wraps a chain of the library.
    pub fn new(chain: onnx2ncnn::Chain, files: Files) -> Chain {
        Chain { chain, files }
    }

    fn part(&self, index: usize) -> Option<&Part> {
        self.chain.steps.get(index).map(|step| &step.part)
    }
}

#[wasm_bindgen]
impl Chain {
    /// Returns the parts in order as JSON: the names of their inputs and outputs, and the reasons why they are left to onnxruntime.
    pub fn steps(&self) -> String {
        let step = |step: &Step| serde_json::json!({ "inputs": step.inputs, "outputs": step.outputs, "reasons": step.reasons() });
        serde_json::Value::from_iter(self.chain.steps.iter().map(step)).to_string()
    }

    /// Returns the net of a part.
    pub fn net(&self, index: usize) -> Option<Conversion> {
        match self.part(index)? {
            Part::Net(net) => Some(Conversion::new(Ok(Arc::clone(net)), self.files.clone())),
            Part::Rest { .. } => None,
        }
    }

    /// Returns a part that onnxruntime runs.
    pub fn rest(&self, index: usize) -> Option<Simplified> {
        match self.part(index)? {
            Part::Net(_) => None,
            Part::Rest { model, .. } => Some(Simplified::new(Arc::clone(model))),
        }
    }

    /// Returns the list of the parts as JSON, with the names of their files for those of a net.
    pub fn list(&self, param: &str, bin: &str) -> String {
        self.chain.list(Path::new(param), Path::new(bin))
    }
}
