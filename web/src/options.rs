//! The options of a conversion as JSON, by the names of the command line with `_` for `-`.

use std::collections::BTreeMap;

use ndarray::{ArrayD, IxDyn};
use onnx2ncnn::tensor::{Array, DType, Dim, Elements};
use onnx2ncnn::{Converter, Quantization, Weights};
use serde::Deserialize;
use serde_json::Value;
use wasm_bindgen::prelude::JsError;

use crate::failure::{Result, thrown};

/// The options, none of which is required.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Options {
    /// Shapes by the names of inputs; the empty name is the only input.
    input_shapes: BTreeMap<String, Vec<Value>>,
    inputs: Vec<String>,
    outputs: Vec<String>,
    /// Numbers by the names of inputs, or lists of them.
    set: BTreeMap<String, Value>,
    rename: BTreeMap<String, String>,
    fp16: bool,
    precise: bool,
    float32: Vec<String>,
    weights: Option<String>,
    kv_cache: bool,
    int8: bool,
    dequantize: bool,
    double_as_float: bool,
    random_as_input: bool,
    strict: bool,
    ncnn_version: Option<u32>,
    skip: Vec<String>,
    /// Whether the simplified graph is kept.
    keep_onnx: bool,
}

/// Returns a converter with options.
pub fn converter(options: &str) -> Result<Converter> {
    let options: Options =
        serde_json::from_str(options).map_err(|error| thrown(format!("options: {error}")))?;
    let quantization = match (options.int8, options.dequantize) {
        (true, true) => return Err(JsError::new("options: int8 and dequantize exclude each other")),
        (true, false) => Quantization::Int8,
        (false, true) => Quantization::Float,
        (false, false) => Quantization::Exact,
    };
    let weights = options.weights.as_deref().unwrap_or("float").parse::<Weights>().map_err(thrown)?;
    let mut converter = Converter::new()
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
        .keep_onnx(options.keep_onnx);
    for (name, sizes) in options.input_shapes {
        let shape: Result<Vec<Dim>> = sizes.iter().map(size).collect();
        converter = converter.input_shape(name, shape?);
    }
    for (name, value) in options.set {
        converter = converter.set(name, array(&value)?);
    }
    converter = options.rename.into_iter().fold(converter, |c, (old, new)| c.rename(old, new));
    converter = options.skip.into_iter().fold(converter, Converter::skip);
    Ok(match options.ncnn_version {
        Some(release) => converter.ncnn_version(release),
        None => converter,
    })
}

fn size(size: &Value) -> Result<Dim> {
    let text = size.as_str().map_or_else(|| size.to_string(), str::to_owned);
    text.parse().map_err(thrown)
}

/// Returns the array of a number or a list of numbers.
fn array(value: &Value) -> Result<Array> {
    let list = match value {
        Value::Array(list) => list.as_slice(),
        single => std::slice::from_ref(single),
    };
    let shape = IxDyn(&[list.len()]);
    let integer = |value: &Value| value.as_i64().or_else(|| value.as_bool().map(i64::from));
    let integers: Option<Vec<i64>> = list.iter().map(integer).collect();
    if let Some(integers) = integers {
        return Ok(Array::i64(ArrayD::from_shape_vec(shape, integers).map_err(thrown)?));
    }
    let floats: Option<Vec<f64>> = list.iter().map(Value::as_f64).collect();
    let floats =
        floats.ok_or_else(|| JsError::new("options: set has numbers, booleans, or lists of them"))?;
    let elements = ArrayD::from_shape_vec(shape, floats).map_err(thrown)?;
    Ok(Array::new(DType::F64, Elements::F64(elements)))
}
