//! A model as a chain of nets.

use std::path::PathBuf;
use std::sync::Arc;

use onnx2ncnn::{Input, Part};
use pyo3::prelude::*;

use crate::conversion::Conversion;
use crate::failure::run;
use crate::simplified::Simplified;

/// A part of a model: its inputs, its outputs, and the net, or the part itself with the reasons for which it is none.
type StepParts = (Vec<String>, Vec<String>, Option<Conversion>, Option<Simplified>, Vec<String>);

/// A model as a chain of nets.
#[pyclass(frozen, module = "onnx2ncnn._native")]
pub struct Chain {
    chain: onnx2ncnn::Chain,
    input: Input,
}

impl Chain {
    /// Wraps a chain of the library.
    pub fn new(chain: onnx2ncnn::Chain, input: Input) -> Chain {
        Chain { chain, input }
    }
}

#[pymethods]
impl Chain {
    /// Returns the parts in order.
    fn steps(&self) -> Vec<StepParts> {
        let steps = self.chain.steps.iter().map(|step| {
            let (net, rest) = match &step.part {
                Part::Net(net) => {
                    let (net, converter) = (Arc::clone(net), step.converter.clone());
                    (Some(Conversion::new(net, converter, self.input.clone())), None)
                }
                Part::Rest { model, .. } => (None, Some(Simplified::new(Arc::clone(model)))),
            };
            (step.inputs.clone(), step.outputs.clone(), net, rest, step.reasons())
        });
        steps.collect()
    }

    /// Writes the files of all parts, and the list of them.
    fn save(&self, py: Python<'_>, param: PathBuf, bin: PathBuf) -> PyResult<()> {
        run(py, || self.chain.write(&param, &bin))
    }
}
