//! The options of a conversion, and the operations on a model.

use std::collections::BTreeSet;
use std::path::PathBuf;

use ndarray::{ArrayD, IxDyn};
use onnx2ncnn::report::Report;
use onnx2ncnn::tensor::{Array, DType, Dim, Elements};
use onnx2ncnn::{Input, Quantization, Weights};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::conversion::Conversion;
use crate::failure::run;
use crate::model::Model;
use crate::simplified::Simplified;

/// The options, as the package passes them: each is given.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
struct Options {
    /// Shapes by the names of inputs; the empty name is the only input.
    input_shapes: Vec<(String, Vec<String>)>,
    inputs: Vec<String>,
    outputs: Vec<String>,
    /// Shapes and elements by the names of inputs.
    set: Vec<(String, Vec<usize>, Numbers)>,
    rename: Vec<(String, String)>,
    fp16: bool,
    precise: bool,
    float32: Vec<String>,
    weights: String,
    kv_cache: bool,
    int8: bool,
    dequantize: bool,
    double_as_float: bool,
    random_as_input: bool,
    strict: bool,
    ncnn_version: Option<u32>,
    skip: Vec<String>,
    data_dir: Option<PathBuf>,
    max_size: Option<u64>,
    /// Whether the simplified graph is kept.
    keep_onnx: bool,
}

#[derive(FromPyObject)]
enum Numbers {
    #[pyo3(transparent)]
    Ints(Vec<i64>),
    #[pyo3(transparent)]
    Floats(Vec<f64>),
}

impl Numbers {
    fn array(self, shape: &[usize]) -> PyResult<Array> {
        let failed = |error: ndarray::ShapeError| PyValueError::new_err(error.to_string());
        let shape = IxDyn(shape);
        Ok(match self {
            Numbers::Ints(list) => Array::i64(ArrayD::from_shape_vec(shape, list).map_err(failed)?),
            Numbers::Floats(list) => {
                let elements = ArrayD::from_shape_vec(shape, list).map_err(failed)?;
                Array::new(DType::F64, Elements::F64(elements))
            }
        })
    }
}

/// A converter of any number of models.
#[pyclass(frozen, module = "onnx2ncnn._native")]
pub struct Converter(onnx2ncnn::Converter);

#[pymethods]
impl Converter {
    #[new]
    fn new(options: &Bound<'_, PyDict>) -> PyResult<Converter> {
        let options: Options = options.extract()?;
        let quantization = match (options.int8, options.dequantize) {
            (true, true) => return Err(PyValueError::new_err("int8 and dequantize exclude each other")),
            (true, false) => Quantization::Int8,
            (false, true) => Quantization::Float,
            (false, false) => Quantization::Exact,
        };
        let weights = options.weights.parse::<Weights>();
        let weights = weights.map_err(|error| PyValueError::new_err(format!("weights: {error}")))?;
        // Python keeps the report of a refused model.
        let mut converter = onnx2ncnn::Converter::new()
            .inputs(options.inputs)
            .outputs(options.outputs)
            .fp16(options.fp16)
            .precise(options.precise)
            .float32(options.float32)
            .weights(weights)
            .kv_cache(options.kv_cache)
            .double_as_float(options.double_as_float)
            .random_as_input(options.random_as_input)
            .strict(options.strict)
            .quantization(quantization)
            .keep_onnx(options.keep_onnx)
            .explain(true);
        for (name, sizes) in options.input_shapes {
            let shape: Result<Vec<Dim>, _> = sizes.iter().map(|size| size.parse()).collect();
            let shape =
                shape.map_err(|error: onnx2ncnn::error::Error| PyValueError::new_err(error.to_string()))?;
            converter = converter.input_shape(name, shape);
        }
        for (name, shape, numbers) in options.set {
            converter = converter.set(name, numbers.array(&shape)?);
        }
        converter = options.rename.into_iter().fold(converter, |c, (old, new)| c.rename(old, new));
        converter = options.skip.into_iter().fold(converter, onnx2ncnn::Converter::skip);
        if let Some(release) = options.ncnn_version {
            converter = converter.ncnn_version(release);
        }
        if let Some(folder) = options.data_dir {
            converter = converter.data_dir(folder);
        }
        if let Some(bytes) = options.max_size {
            converter = converter.max_size(bytes);
        }
        Ok(Converter(converter))
    }

    /// Converts a model.
    fn convert(&self, py: Python<'_>, model: Model) -> PyResult<Conversion> {
        let input = Input::from(model);
        let converted = run(py, || self.0.convert(&input))?;
        Ok(Conversion::new(converted, self.0.clone(), input))
    }

    /// Simplifies a model.
    fn simplify(&self, py: Python<'_>, model: Model) -> PyResult<Simplified> {
        let input = Input::from(model);
        run(py, || self.0.simplify(&input)).map(Simplified::new)
    }

    /// Returns the part of a model that the options select, without simplifications.
    fn part(&self, py: Python<'_>, model: Model) -> PyResult<Simplified> {
        let input = Input::from(model);
        run(py, || self.0.expose(&input, &BTreeSet::new())).map(Simplified::new)
    }

    /// Returns the names of the outputs of a model.
    fn outputs(&self, py: Python<'_>, model: Model) -> PyResult<Vec<String>> {
        let input = Input::from(model);
        let inspection = run(py, || self.0.inspect(&input))?;
        Ok(inspection.outputs.into_iter().map(|output| output.name).collect())
    }

    /// Returns the report on the contents of a model as JSON, and whether the model can be converted.
    fn inspect(&self, py: Python<'_>, model: Model) -> PyResult<String> {
        let input = Input::from(model);
        run(py, || match self.0.convert(&input) {
            Ok(conversion) => Ok(Report::convertible(&conversion.inspection()?).to_json()?),
            Err(refusal) if refusal.inspection().is_some() => Ok(refusal.report().to_json()?),
            Err(refusal) => Err(refusal),
        })
    }
}

/// Returns each pass: its name and its purpose.
#[pyfunction]
pub fn passes() -> Vec<(&'static str, String)> {
    onnx2ncnn::passes().map(|pass| (pass.name, pass.about.to_string())).collect()
}

/// An operator: its domain, its name, the versions that changed it, and the layers, limits and differences.
type Operator = (&'static str, &'static str, Vec<i64>, &'static str, &'static str, &'static str);

/// Returns each operator.
#[pyfunction]
pub fn supported() -> Vec<Operator> {
    let rows = onnx2ncnn::supported().into_iter();
    rows.map(|row| (row.domain, row.name, row.since.to_vec(), row.lowers_to, row.limits, row.differs))
        .collect()
}
