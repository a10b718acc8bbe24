//! The options of a conversion, and the operations on a model.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;

use ndarray::{ArrayD, IxDyn};
use onnx2ncnn::error::Error;
use onnx2ncnn::report::Report;
use onnx2ncnn::tensor::{Array, DType, Dim, Elements};
use onnx2ncnn::{CustomLayer, Input, OptionKind, OptionValue, Purpose, Weights};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::chain::Chain;
use crate::conversion::Conversion;
use crate::failure::run;
use crate::model::Model;
use crate::simplified::Simplified;
use crate::variants::Variants;

#[derive(FromPyObject)]
enum Numbers {
    #[pyo3(transparent)]
    Ints(Vec<i64>),
    #[pyo3(transparent)]
    Floats(Vec<f64>),
    #[pyo3(transparent)]
    Sizes(Vec<String>),
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
            Numbers::Sizes(list) => {
                Array::dims(ArrayD::from_shape_vec(shape, sizes(&list)?).map_err(failed)?)
            }
        })
    }
}

fn invalid(error: Error) -> PyErr {
    PyValueError::new_err(error.to_string())
}

/// Returns the sizes of a shape.
fn sizes(list: &[String]) -> PyResult<Vec<Dim>> {
    list.iter().map(|size| size.parse().map_err(invalid)).collect()
}

/// Returns a value of an option.
fn value(kind: OptionKind, item: &Bound<'_, PyAny>) -> PyResult<OptionValue> {
    Ok(match kind {
        OptionKind::Flag => OptionValue::Flag(item.extract()?),
        OptionKind::Name => OptionValue::Name(item.extract()?),
        OptionKind::Path => OptionValue::Path(item.extract()?),
        OptionKind::Release => OptionValue::Release(item.extract()?),
        OptionKind::Bytes => OptionValue::Bytes(item.extract()?),
        OptionKind::Number => OptionValue::Number(item.extract()?),
        OptionKind::Weights => {
            let weights = item.extract::<String>()?.parse::<Weights>();
            let weights = weights.map_err(|error| PyValueError::new_err(format!("weights: {error}")));
            OptionValue::Weights(weights?)
        }
        OptionKind::Shape => {
            let (name, shape): (String, Vec<String>) = item.extract()?;
            OptionValue::Shape((name, sizes(&shape)?))
        }
        OptionKind::Array => {
            let (name, shape, numbers): (String, Vec<usize>, Numbers) = item.extract()?;
            OptionValue::Array((name, numbers.array(&shape)?))
        }
        OptionKind::Pair => OptionValue::Pair(item.extract()?),
        OptionKind::Layer => {
            let text = item.extract::<String>()?;
            let layer = CustomLayer::from_json(&text);
            OptionValue::Layer(
                layer.map_err(|error| PyValueError::new_err(format!("custom_layers: {error}")))?,
            )
        }
        other => return Err(PyValueError::new_err(format!("the extension has no {other:?}"))),
    })
}

/// An option: its name, its word on the command line, the kind of its values, and the option that it excludes.
type OptionRow = (&'static str, String, String, Option<&'static str>);

/// Returns the options of the package. It writes further files itself, and always explains.
#[pyfunction]
pub fn options() -> Vec<OptionRow> {
    let rows = onnx2ncnn::options().iter();
    let rows = rows.filter(|info| info.purpose != Purpose::File && info.name != "explain");
    rows.map(|info| (info.name, info.long_name(), format!("{:?}", info.kind).to_lowercase(), info.excludes))
        .collect()
}

/// Shapes by the names of inputs.
type Shapes = Vec<(String, Vec<String>)>;

/// A converter of any number of models.
#[pyclass(frozen, module = "onnx2ncnn._native")]
pub struct Converter(onnx2ncnn::Converter);

#[pymethods]
impl Converter {
    /// Creates a converter with options, each a name and an item of its value.
    #[new]
    fn new(options: Vec<(String, Bound<'_, PyAny>)>) -> PyResult<Converter> {
        // Python keeps the report of a refused model.
        let mut converter = onnx2ncnn::Converter::new().explain(true);
        for (name, item) in options {
            let kind = onnx2ncnn::options().iter().find(|info| info.name == name).map(|info| info.kind);
            let kind = kind.ok_or_else(|| PyValueError::new_err(format!("unknown option {name}")))?;
            converter = converter.with(&name, value(kind, &item)?).map_err(invalid)?;
        }
        Ok(Converter(converter))
    }

    /// Converts a model.
    fn convert(&self, py: Python<'_>, model: Model) -> PyResult<Conversion> {
        let input = Input::from(model);
        let converted = run(py, || self.0.convert(&input))?;
        Ok(Conversion::new(Arc::new(converted), self.0.clone(), input))
    }

    /// Converts a model as a chain of nets.
    fn convert_chain(&self, py: Python<'_>, model: Model, cuts: Vec<Vec<String>>) -> PyResult<Chain> {
        let input = Input::from(model);
        let chain = run(py, || self.0.convert_chain(&input, &cuts))?;
        Ok(Chain::new(chain, input))
    }

    /// Converts a model for several sizes: each net has a name, and shapes of inputs.
    fn convert_variants(
        &self,
        py: Python<'_>,
        model: Model,
        variants: Vec<(String, Shapes)>,
    ) -> PyResult<Variants> {
        let input = Input::from(model);
        let mut parsed = Vec::with_capacity(variants.len());
        for (name, shapes) in variants {
            let shapes = shapes.into_iter().map(|(input, shape)| Ok((input, sizes(&shape)?)));
            parsed.push((name, shapes.collect::<PyResult<Vec<_>>>()?));
        }
        let variants = run(py, || self.0.convert_variants(&input, &parsed))?;
        Ok(Variants::new(variants, input))
    }

    /// Converts a folder to a bundle. Returns the name, the model and the added options of each net, and the
    /// files.
    fn convert_folder(
        &self,
        py: Python<'_>,
        folder: PathBuf,
        to: PathBuf,
    ) -> PyResult<(Vec<(&'static str, PathBuf, Vec<String>)>, Vec<PathBuf>)> {
        let bundle = run(py, || onnx2ncnn::convert_folder(&self.0, &folder, &to))?;
        let mut files = bundle.further;
        files.extend(bundle.nets.iter().flat_map(|net| [net.param.clone(), net.bin.clone()]));
        let nets = bundle.nets.into_iter().map(|net| (net.name, net.model, net.added)).collect();
        Ok((nets, files))
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
