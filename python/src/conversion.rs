//! A converted model.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use onnx2ncnn::cli;
use onnx2ncnn::error::{Error, Result};
use onnx2ncnn::report::Report;
use onnx2ncnn::{Converter, Dim, HalfBlob, Input, Port, Proof};
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;
use pyo3::types::PyBytes;

use crate::failure::{run, with_arguments};
use crate::model::shared;

/// A size of a shape.
#[derive(IntoPyObject)]
pub enum Size {
    Known(i64),
    /// A free size, as an expression.
    Free(String),
}

/// An input or output: name, type and shape in the model, name and shape of the blob, and whether the blob has
/// 32-bit integers.
type PortParts = (String, String, Vec<Size>, String, Vec<Size>, bool, Option<String>);

/// A blob in half precision: the name that keeps it in float32, the blob, the first blob that its layer reads, the work
/// of the layer, the terms of its sums, and whether it transforms them.
type HalfParts = (String, String, Option<String>, u64, u64, bool);

/// Proofs at several sizes as JSON, and the verdict on them.
type ProofParts = (String, String);

/// Shapes; `None` is an unknown size.
type Shapes = Vec<Vec<Option<i64>>>;

/// A converted model.
#[pyclass(frozen, module = "onnx2ncnn._native")]
pub struct Conversion {
    conversion: Arc<onnx2ncnn::Conversion>,
    converter: Converter,
    input: Input,
}

impl Conversion {
    /// Wraps a conversion of the library.
    pub fn new(conversion: Arc<onnx2ncnn::Conversion>, converter: Converter, input: Input) -> Conversion {
        Conversion { conversion, converter, input }
    }

    fn full_report(&self, comparison: Option<String>) -> Result<Report> {
        let Some(text) = comparison else { return self.conversion.report(self.conversion.written()?) };
        let failed = |error| Error::internal("the comparison cannot be read").caused_by(error);
        self.conversion.compared_report(serde_json::from_str(&text).map_err(failed)?)
    }

    fn bin_len(&self) -> Result<usize> {
        let len = match self.conversion.net().bin_bytes()? {
            Some(len) => len,
            None => self.conversion.written()?.bin_bytes,
        };
        Ok(usize::try_from(len)?)
    }
}

#[pymethods]
impl Conversion {
    /// The inputs.
    #[getter]
    fn inputs(&self) -> Vec<PortParts> {
        self.conversion.inputs.iter().map(port_parts).collect()
    }

    /// The outputs.
    #[getter]
    fn outputs(&self) -> Vec<PortParts> {
        self.conversion.outputs.iter().map(port_parts).collect()
    }

    /// The axes of each input that each axis of its blob merges.
    #[getter]
    fn input_axes(&self) -> Vec<Vec<Vec<usize>>> {
        self.conversion.inputs.iter().map(Port::axes).collect()
    }

    /// Whether the model sorts elements by their values.
    fn sorts(&self, py: Python<'_>) -> PyResult<bool> {
        run(py, || self.conversion.sorts())
    }

    /// The warnings of the conversion.
    #[getter]
    fn warnings(&self) -> Vec<String> {
        self.conversion.warnings.iter().map(|text| with_arguments(text)).collect()
    }

    /// Returns the warnings about weights that are not stored in the requested type.
    fn weight_warnings(&self, py: Python<'_>) -> PyResult<Vec<String>> {
        let warnings = run(py, || self.conversion.written().map(|written| written.warnings.clone()))?;
        Ok(warnings.iter().map(|text| with_arguments(text)).collect())
    }

    /// The assumed facts: value, name of the fact, and description.
    #[getter]
    fn assumptions(&self) -> Vec<(String, &'static str, &'static str)> {
        let assumptions = self.conversion.assumptions.iter();
        assumptions.map(|found| (found.value.clone(), found.fact.name(), found.fact.describe())).collect()
    }

    /// The conditions on free sizes.
    #[getter]
    fn conditions(&self) -> Vec<String> {
        self.conversion.conditions.iter().map(ToString::to_string).collect()
    }

    /// Returns the conditions on free sizes in words, with an example.
    fn conditions_in_words(&self) -> Option<String> {
        cli::conditions_in_words(&self.conversion)
    }

    /// The oldest release of ncnn that loads the net.
    #[getter]
    fn since(&self) -> u32 {
        self.conversion.net().since()
    }

    /// The number of layers.
    fn __len__(&self) -> usize {
        self.conversion.net().layers.len()
    }

    /// Returns the text of the .param file.
    fn param(&self, py: Python<'_>) -> PyResult<String> {
        run(py, || Ok::<_, Error>(self.conversion.net().param_text()))
    }

    /// Returns the bytes of the .bin file, which are written to memory.
    fn bin<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        let len = run(py, || self.bin_len())?;
        PyBytes::new_with(py, len, |bytes| {
            run(py, || {
                let mut rest: &mut [u8] = bytes;
                self.conversion.write_to(io::sink(), &mut rest)?;
                if !rest.is_empty() {
                    return Err(Error::internal("the .bin file is smaller than it should be"));
                }
                Ok(())
            })
        })
    }

    /// Writes both files.
    fn save(&self, py: Python<'_>, param: PathBuf, bin: PathBuf) -> PyResult<()> {
        run(py, || self.conversion.write(&param, &bin).map(drop))
    }

    /// Returns a program that runs the net of these files, and the files that it needs next to it: paths and texts.
    fn program(
        &self,
        py: Python<'_>,
        path: PathBuf,
        param: PathBuf,
        bin: PathBuf,
    ) -> PyResult<Vec<(PathBuf, String)>> {
        run(py, || self.conversion.program(&path, &param, &bin))
    }

    /// Writes both files after they were compared with the model, and returns the proofs.
    fn save_proved(&self, py: Python<'_>, param: PathBuf, bin: PathBuf) -> PyResult<ProofParts> {
        run(py, || {
            let (_, proofs) = self.conversion.write_proved(&self.converter, &self.input, (&param, &bin))?;
            proof_parts(&proofs)
        })
    }

    /// Compares the net of these files with the model.
    fn prove(&self, py: Python<'_>, param: PyBackedBytes, bin: PyBackedBytes) -> PyResult<ProofParts> {
        run(py, || {
            let net = self.conversion.read_net(&param, shared(bin)).map_err(|errors| {
                let help = "`onnx2ncnn check` lists all faults";
                Error::usage("the files are not those of a net").caused_by(errors).help(help)
            })?;
            proof_parts(&Proof::compared(self.conversion.prove(&self.converter, &self.input, &net)?)?)
        })
    }

    /// Returns the report as JSON, with a comparison, which is JSON, too.
    fn report(&self, py: Python<'_>, comparison: Option<String>) -> PyResult<String> {
        run(py, || self.full_report(comparison)?.to_json())
    }

    /// Returns the report as a page, with a comparison.
    fn html(&self, py: Python<'_>, comparison: Option<String>) -> PyResult<String> {
        run(py, || self.full_report(comparison)?.to_html())
    }

    /// Returns a small drawing of the net as SVG, unless it has thousands of layers.
    fn svg(&self, py: Python<'_>) -> PyResult<Option<String>> {
        run(py, || Ok::<_, Error>(self.full_report(None)?.to_svg()))
    }

    /// Returns the simplified model as bytes, if it was kept.
    fn onnx<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        let bytes = run(py, || {
            let mut bytes = Vec::new();
            self.conversion.write_onnx_to(&mut bytes).map(|()| bytes)
        })?;
        Ok(PyBytes::new(py, &bytes))
    }

    /// Returns the shapes of the blobs of the inputs, and those of the outputs in the model, for inputs of these
    /// shapes. A size that does not follow from those of the inputs is `None`.
    fn resolve(&self, py: Python<'_>, shapes: BTreeMap<String, Vec<i64>>) -> PyResult<(Shapes, Shapes)> {
        run(py, || {
            let sizes = self.conversion.free_sizes(&shapes)?;
            let resolved = |shape: &[Dim]| -> Result<Vec<Option<i64>>> {
                shape.iter().map(|size| Ok(size.substitute(&sizes).checked()?.known())).collect()
            };
            let forms: Result<Shapes> =
                self.conversion.inputs.iter().map(|port| resolved(&port.form)).collect();
            let outputs: Result<Shapes> =
                self.conversion.outputs.iter().map(|port| resolved(&port.shape)).collect();
            Ok::<_, Error>((forms?, outputs?))
        })
    }

    /// The inputs whose elements select rows of tables, with the number of rows.
    #[getter]
    fn index_limits(&self) -> BTreeMap<String, i64> {
        self.conversion.index_limits()
    }

    /// Returns shapes of the inputs for which the net is valid, with free sizes from `size` on.
    fn shapes_at(&self, py: Python<'_>, size: i64) -> PyResult<Option<BTreeMap<String, Vec<i64>>>> {
        run(py, || self.conversion.shapes_at(size))
    }

    /// Returns shapes of the inputs of two calls in turn, if the runtime keeps caches of the net; see
    /// [`Conversion::calls_at`](onnx2ncnn::Conversion::calls_at).
    fn calls_at(&self, py: Python<'_>, size: i64) -> PyResult<Vec<BTreeMap<String, Vec<i64>>>> {
        run(py, || self.conversion.calls_at(size))
    }

    /// Returns the blobs of intermediate values: value, blob, and whether it has 32-bit integers.
    fn inner_blobs(&self) -> Vec<(String, String, bool)> {
        let blobs = self.conversion.inner_blobs().into_iter();
        blobs.map(|inner| (inner.value, inner.blob, inner.int32)).collect()
    }

    /// Returns the blobs that runtimes of half precision store in it, with the work of their layers; see
    /// [`HalfBlob`](onnx2ncnn::HalfBlob).
    fn half_blobs(&self, py: Python<'_>) -> PyResult<Vec<HalfParts>> {
        let blobs = run(py, || self.conversion.half_blobs())?;
        let parts = |half: HalfBlob| {
            (half.name, half.blob, half.bottom, half.work, half.terms, half.is_roughly_transformed)
        };
        Ok(blobs.into_iter().map(parts).collect())
    }

    /// Returns the outputs of the nodes of which layers with variants in int8 do the work.
    fn int8_candidates(&self, py: Python<'_>, depthwise: bool) -> PyResult<Vec<String>> {
        run(py, || cli::candidates(&self.conversion, depthwise))
    }

    /// Returns the number of nodes whose inputs onnxruntime rounds to int8, unless the model is exposed.
    fn rounded_by_onnxruntime(&self, py: Python<'_>) -> PyResult<usize> {
        run(py, || self.conversion.rounded_by_onnxruntime())
    }

    /// Returns the part of the model that was converted as an ONNX file, with further values as outputs.
    fn expose<'py>(&self, py: Python<'py>, values: BTreeSet<String>) -> PyResult<Bound<'py, PyBytes>> {
        let bytes = run(py, || {
            let mut bytes = Vec::new();
            self.converter.expose(&self.input, &values)?.write_to(&mut bytes)?;
            Ok::<_, onnx2ncnn::Refusal>(bytes)
        })?;
        Ok(PyBytes::new(py, &bytes))
    }
}

fn proof_parts(proofs: &[Proof]) -> Result<ProofParts> {
    let failed = |error| Error::internal("the proof cannot be written").caused_by(error);
    Ok((serde_json::to_string(proofs).map_err(failed)?, Proof::verdict(proofs)))
}

fn port_parts(port: &Port) -> PortParts {
    let Port { name, dtype, shape, blob, form, int32, cache, .. } = port;
    (name.clone(), dtype.clone(), sizes(shape), blob.clone(), sizes(form), *int32, cache.clone())
}

fn sizes(shape: &[Dim]) -> Vec<Size> {
    let size = |size: &Dim| size.known().map_or_else(|| Size::Free(size.to_string()), Size::Known);
    shape.iter().map(size).collect()
}
