//! The options of a conversion as JSON: an object with the names of the library, and a description of each.

use ndarray::{ArrayD, IxDyn};
use onnx2ncnn::error::Error;
use onnx2ncnn::tensor::{Array, DType, Dim, Elements};
use onnx2ncnn::{Converter, OptionInfo, OptionKind, OptionValue, Purpose, Weights};
use serde_json::{Map, Value, json};
use wasm_bindgen::prelude::{JsError, wasm_bindgen};

use crate::failure::{Result, thrown};

/// Returns the options of a conversion in memory.
fn rows() -> impl Iterator<Item = &'static OptionInfo> {
    let in_memory = |info: &&OptionInfo| {
        let is_path = info.purpose == Purpose::File || info.kind == OptionKind::Path;
        // Refusals are always explained, and the memory is the limit.
        !is_path && info.name != "explain" && info.kind != OptionKind::Bytes
    };
    onnx2ncnn::options().iter().filter(in_memory)
}

/// Returns a description of each option: `[{"name": ..., "word": ..., "kind": ..., ...}]`.
#[wasm_bindgen]
pub fn options() -> String {
    let rows = rows().map(|info| {
        let weights: Vec<&str> = Weights::NAMES.iter().map(|(name, _)| *name).collect();
        json!({
            "name": info.name,
            "word": info.word.map_or_else(|| info.name.replace('_', "-"), str::to_owned),
            "kind": format!("{:?}", info.kind).to_lowercase(),
            "value": info.value,
            "values": if info.kind == OptionKind::Weights { weights } else { Vec::new() },
            "help": info.help.split("\n\n").next().unwrap_or_default(),
            "details": info.help.split_once("\n\n").map_or("", |(_, details)| details),
            "rare": info.is_rare,
            "memory": info.purpose == Purpose::Memory,
            "excludes": info.excludes,
        })
    });
    Value::from_iter(rows).to_string()
}

/// Returns a converter with options.
pub fn converter(options: &str) -> Result<Converter> {
    let options: Map<String, Value> = serde_json::from_str(options).map_err(|error| failed("", error))?;
    // As the library keeps no files, it keeps what a refusal tells.
    let mut converter = Converter::new().explain(true);
    for (name, value) in &options {
        let info =
            rows().find(|info| info.name == name).ok_or_else(|| failed(name, "there is no such option"))?;
        let set = |name: Option<&str>| name.and_then(|name| options.get(name)) == Some(&Value::Bool(true));
        if *value == Value::Bool(true) && set(info.excludes) {
            return Err(failed(name, format!("excludes {}", info.excludes.unwrap_or_default())));
        }
        for item in items(info.kind, value).ok_or_else(|| failed(name, format!("{value} is not valid")))? {
            let item = item.map_err(|error| failed(name, error))?;
            converter = converter.with(name, item).map_err(|error| failed(name, error))?;
        }
    }
    Ok(converter)
}

fn failed(name: &str, error: impl std::fmt::Display) -> JsError {
    thrown(format!("options: {name}{}{error}", if name.is_empty() { "" } else { ": " }))
}

/// The values of an option; those of a list or an object each on its own.
type Items = Vec<std::result::Result<OptionValue, Error>>;

/// Returns the items of the value of an option; `None` if it has another type.
fn items(kind: OptionKind, value: &Value) -> Option<Items> {
    let one = |value: OptionValue| Some(vec![Ok(value)]);
    match kind {
        OptionKind::Flag => one(OptionValue::Flag(value.as_bool()?)),
        OptionKind::Release => one(OptionValue::Release(u32::try_from(value.as_u64()?).ok()?)),
        OptionKind::Weights => Some(vec![weights(value.as_str()?)]),
        OptionKind::Name => value
            .as_array()?
            .iter()
            .map(|name| Some(Ok(OptionValue::Name(name.as_str()?.to_owned()))))
            .collect(),
        OptionKind::Pair => {
            let pair = |(old, new): (&String, &Value)| {
                Some(Ok(OptionValue::Pair((old.clone(), new.as_str()?.to_owned()))))
            };
            value.as_object()?.iter().map(pair).collect()
        }
        OptionKind::Shape => {
            value.as_object()?.iter().map(|(name, sizes)| Some(shape(name, sizes.as_array()?))).collect()
        }
        OptionKind::Array => {
            let given = |(name, value): (&String, &Value)| {
                Some(Ok(OptionValue::Array((name.clone(), array(value)?))))
            };
            value.as_object()?.iter().map(given).collect()
        }
        _ => None,
    }
}

fn weights(name: &str) -> std::result::Result<OptionValue, Error> {
    name.parse::<Weights>().map(OptionValue::Weights).map_err(|error| Error::usage(error.to_string()))
}

fn shape(name: &str, sizes: &[Value]) -> std::result::Result<OptionValue, Error> {
    Ok(OptionValue::Shape((name.to_owned(), sizes.iter().map(size).collect::<std::result::Result<_, _>>()?)))
}

/// Reads a number or a name as a size.
fn size(size: &Value) -> std::result::Result<Dim, Error> {
    size.as_str().map_or_else(|| size.to_string(), str::to_owned).parse()
}

/// Returns the array of a number or of nested lists of numbers; `None` if there is none.
fn array(value: &Value) -> Option<Array> {
    let (mut shape, mut list) = (Vec::new(), Vec::new());
    flatten(value, 0, &mut shape, &mut list)?;
    let integer = |value: &&Value| value.as_i64().or_else(|| value.as_bool().map(i64::from));
    let integers: Option<Vec<i64>> = list.iter().map(integer).collect();
    if let Some(integers) = integers {
        return Some(Array::i64(ArrayD::from_shape_vec(IxDyn(&shape), integers).ok()?));
    }
    if list.iter().any(|value| value.is_string()) {
        let size = |value: &&Value| size(value).ok();
        let sizes: Vec<Dim> = list.iter().map(size).collect::<Option<_>>()?;
        return Some(Array::dims(ArrayD::from_shape_vec(IxDyn(&shape), sizes).ok()?));
    }
    let floats: Vec<f64> = list.iter().map(|value| value.as_f64()).collect::<Option<_>>()?;
    let elements = ArrayD::from_shape_vec(IxDyn(&shape), floats).ok()?;
    Some(Array::new(DType::F64, Elements::F64(elements)))
}

/// Adds the numbers of nested lists, which have the same length at each depth.
fn flatten<'v>(
    value: &'v Value,
    depth: usize,
    shape: &mut Vec<usize>,
    list: &mut Vec<&'v Value>,
) -> Option<()> {
    let Value::Array(rows) = value else {
        list.push(value);
        return (depth == shape.len()).then_some(());
    };
    match shape.get(depth) {
        Some(len) if *len != rows.len() => return None,
        Some(_) => {}
        None if list.is_empty() => shape.push(rows.len()),
        None => return None,
    }
    rows.iter().try_for_each(|row| flatten(row, depth + 1, shape, list))
}
