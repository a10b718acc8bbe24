//! A simplified model.

use std::path::PathBuf;
use std::sync::Arc;

use onnx2ncnn::Storage;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::failure::run;

/// A simplified model.
#[pyclass(frozen, module = "onnx2ncnn._native")]
pub struct Simplified(Arc<onnx2ncnn::Simplified>);

impl Simplified {
    /// Wraps a model of the library.
    pub fn new(simplified: impl Into<Arc<onnx2ncnn::Simplified>>) -> Simplified {
        Simplified(simplified.into())
    }
}

#[pymethods]
impl Simplified {
    /// The warnings.
    #[getter]
    fn warnings(&self) -> Vec<String> {
        self.0.warnings.clone()
    }

    /// Returns the bytes of the ONNX file.
    fn onnx<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        let bytes = run(py, || {
            let mut bytes = Vec::new();
            self.0.write_to(&mut bytes).map(|()| bytes)
        })?;
        Ok(PyBytes::new(py, &bytes))
    }

    /// Writes the ONNX file, and next to it a file of weights if the model is larger than 2 GiB.
    fn save(&self, py: Python<'_>, path: PathBuf) -> PyResult<()> {
        run(py, || self.0.write(&path, &Storage::AsNeeded).map(drop))
    }
}
