//! Nets of one model for several sizes, over one `.bin` file.

use std::path::PathBuf;
use std::sync::Arc;

use onnx2ncnn::Input;
use pyo3::prelude::*;

use crate::conversion::Conversion;
use crate::failure::run;

/// Nets of one model for several sizes, over one `.bin` file.
#[pyclass(frozen, module = "onnx2ncnn._native")]
pub struct Variants {
    variants: onnx2ncnn::Variants,
    input: Input,
}

impl Variants {
    /// Wraps nets of the library.
    pub fn new(variants: onnx2ncnn::Variants, input: Input) -> Variants {
        Variants { variants, input }
    }
}

#[pymethods]
impl Variants {
    /// Returns the name of each net, the net, and the bytes of other nets that it loads.
    fn nets(&self) -> Vec<(String, Conversion, u64)> {
        let nets = self.variants.nets.iter().map(|net| {
            let conversion =
                Conversion::new(Arc::clone(&net.conversion), net.converter.clone(), self.input.clone());
            (net.name.clone(), conversion, net.skipped)
        });
        nets.collect()
    }

    /// Writes the `.param` file of each net, and the `.bin` file; returns its bytes.
    fn save(&self, py: Python<'_>, param: PathBuf, bin: PathBuf) -> PyResult<u64> {
        run(py, || self.variants.write(&param, &bin))
    }
}
