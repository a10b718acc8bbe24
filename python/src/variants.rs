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

    /// Writes the `.param` file of each net, and the `.bin` file, by default by their names; returns its bytes.
    #[pyo3(signature = (param, bin=None))]
    fn save(&self, py: Python<'_>, param: PathBuf, bin: Option<PathBuf>) -> PyResult<u64> {
        let bin = bin.unwrap_or_else(|| self.variants.bin(&param));
        run(py, || self.variants.write(&param, &bin))
    }
}
