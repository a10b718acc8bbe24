//! Options as JSON: an object with the names of the library.

use std::collections::BTreeMap;

use ndarray::{ArrayD, IxDyn};
use serde_json::{Map, Value};

use super::{OptionInfo, OptionKind, OptionValue, Options, Purpose};
use crate::error::{Error, Result};
use crate::graph::CustomLayer;
use crate::pass::blocks::Weights;
use crate::tensor::{Array, DType, Dim, Elements};

impl Options {
    /// Sets the options of a JSON object, or adds items to them.
    ///
    /// Lists of names and paths are arrays of strings; shapes and arrays are objects by the names of inputs,
    /// pairs objects of strings.
    ///
    /// # Errors
    ///
    /// The text is not a JSON object, a name is unknown, a value has another type, or two options exclude
    /// each other.
    pub(crate) fn put_json(&mut self, text: &str) -> Result<()> {
        let values: Map<String, Value> =
            serde_json::from_str(text).map_err(|error| Error::usage(format!("options: {error}")))?;
        let is_set = |name: &str| values.get(name) == Some(&Value::Bool(true));
        for (name, value) in &values {
            let failed = |reason: &str| Error::usage(format!("options: {name}: {reason}"));
            let info = OptionInfo::named(name).ok_or_else(|| failed("unknown option"))?;
            if let Some(other) = info.excludes.filter(|other| is_set(name) && is_set(other)) {
                return Err(failed(&format!("excludes {other}")));
            }
            let items = items(info, value).ok_or_else(|| failed(&format!("{value} is not valid")))?;
            items.into_iter().try_for_each(|item| self.put(name, item))?;
        }
        Ok(())
    }

    /// Returns the options of the model and the net that were set, as [`Options::put_json`] reads them.
    /// Arrays of more than [`MAX_ELEMENTS`] elements are `null`, which it refuses.
    pub(crate) fn to_json(&self) -> BTreeMap<&'static str, Value> {
        let values = self.items().filter(|(info, _)| matches!(info.purpose, Purpose::Source | Purpose::Net));
        values.filter_map(|(info, items)| Some((info.name, value(info, items)?))).collect()
    }
}

/// The number of elements of the largest array that is written.
const MAX_ELEMENTS: usize = 1 << 16;

/// Returns the value of an option; `None` if it is the default.
fn value(info: &OptionInfo, items: Vec<OptionValue>) -> Option<Value> {
    let mut fields = Map::new();
    let mut list = Vec::new();
    for item in items {
        list.push(match item {
            OptionValue::Flag(false) | OptionValue::Weights(Weights::Float) => return None,
            OptionValue::Flag(flag) => flag.into(),
            OptionValue::Name(name) => name.into(),
            OptionValue::Path(path) => path.to_string_lossy().into(),
            OptionValue::Release(date) => date.into(),
            OptionValue::Bytes(bytes) => bytes.into(),
            OptionValue::Number(number) => number.into(),
            OptionValue::Weights(weights) => {
                Weights::NAMES.iter().find(|(_, kind)| *kind == weights)?.0.into()
            }
            OptionValue::Shape((name, shape)) => {
                fields.insert(name, shape.iter().map(size_value).collect());
                continue;
            }
            OptionValue::Array((name, array)) => {
                fields.insert(name, array_value(&array));
                continue;
            }
            OptionValue::Layer(layer) => serde_json::to_value(layer).ok()?,
            OptionValue::Pair((old, new)) => {
                fields.insert(old, new.into());
                continue;
            }
        });
    }
    match (fields.is_empty(), info.is_list) {
        (false, _) => Some(Value::Object(fields)),
        (true, true) => (!list.is_empty()).then_some(Value::Array(list)),
        (true, false) => list.pop(),
    }
}

/// Returns a size as a number or a name.
fn size_value(size: &Dim) -> Value {
    size.known().map_or_else(|| size.to_string().into(), Value::from)
}

/// Returns the elements of an array as nested lists of numbers, or of sizes by their names. A scalar is a
/// list of one.
fn array_value(array: &Array) -> Value {
    let mut list: Vec<Value> = match array.elements() {
        _ if array.len() > MAX_ELEMENTS => return Value::Null,
        Elements::Dim(sizes) => sizes.iter().map(size_value).collect(),
        Elements::I64(integers) => integers.iter().copied().map(Value::from).collect(),
        Elements::F32(floats) => floats.iter().copied().map(Value::from).collect(),
        Elements::F64(floats) => floats.iter().copied().map(Value::from).collect(),
    };
    for size in array.shape().iter().skip(1).rev() {
        list = list.chunks((*size).max(1)).map(|row| Value::from(row.to_vec())).collect();
    }
    Value::Array(list)
}

/// Returns the items of the value of an option; `None` if it has another type.
fn items(info: &OptionInfo, value: &Value) -> Option<Vec<OptionValue>> {
    match info.kind {
        OptionKind::Shape => named(value, |name, sizes| {
            let sizes: Option<_> = sizes.as_array()?.iter().map(size).collect();
            Some(OptionValue::Shape((name, sizes?)))
        }),
        OptionKind::Array => named(value, |name, value| Some(OptionValue::Array((name, array(value)?)))),
        OptionKind::Pair => named(value, |old, new| Some(OptionValue::Pair((old, new.as_str()?.to_owned())))),
        kind if info.is_list => value.as_array()?.iter().map(|item| scalar(kind, item)).collect(),
        kind => Some(vec![scalar(kind, value)?]),
    }
}

/// Returns an item for each field of an object.
fn named(value: &Value, item: impl Fn(String, &Value) -> Option<OptionValue>) -> Option<Vec<OptionValue>> {
    value.as_object()?.iter().map(|(name, value)| item(name.clone(), value)).collect()
}

fn scalar(kind: OptionKind, value: &Value) -> Option<OptionValue> {
    Some(match kind {
        OptionKind::Flag => OptionValue::Flag(value.as_bool()?),
        OptionKind::Name => OptionValue::Name(value.as_str()?.to_owned()),
        OptionKind::Path => OptionValue::Path(value.as_str()?.into()),
        OptionKind::Release => OptionValue::Release(u32::try_from(value.as_u64()?).ok()?),
        OptionKind::Bytes => OptionValue::Bytes(value.as_u64()?),
        OptionKind::Number => OptionValue::Number(value.as_f64()?),
        OptionKind::Weights => OptionValue::Weights(value.as_str()?.parse::<Weights>().ok()?),
        OptionKind::Layer => OptionValue::Layer(CustomLayer::from_json(&value.to_string()).ok()?),
        OptionKind::Shape | OptionKind::Array | OptionKind::Pair => return None,
    })
}

/// Returns a size: a number, or the name of a free size.
fn size(value: &Value) -> Option<Dim> {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned).parse().ok()
}

/// Returns the array of a number or of nested lists of numbers.
fn array(value: &Value) -> Option<Array> {
    let (mut shape, mut list) = (Vec::new(), Vec::new());
    flatten(value, 0, &mut shape, &mut list)?;
    let integer = |value: &&Value| value.as_i64().or_else(|| value.as_bool().map(i64::from));
    let integers: Option<Vec<i64>> = list.iter().map(integer).collect();
    if let Some(integers) = integers {
        return Some(Array::i64(ArrayD::from_shape_vec(IxDyn(&shape), integers).ok()?));
    }
    if list.iter().any(|value| value.is_string()) {
        let sizes: Vec<Dim> = list.iter().map(|value| size(value)).collect::<Option<_>>()?;
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

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Options> {
        let mut options = Options::default();
        options.put_json(text).map(|()| options)
    }

    #[test]
    fn values_of_every_type() {
        let options = read(
            r#"{"fp16": true, "outputs": ["a", "b"], "input_shapes": {"x": [1, 3, "H", "W"]},
                "set": {"flag": true, "scale": [[1.5, 2]], "n": 3}, "rename": {"a": "b"}, "skip": ["bypass"],
                "ncnn_version": 20240410, "report": "r.json", "max_size": 1000, "weights": "int8"}"#,
        )
        .unwrap();
        assert!(options.fp16 && options.outputs == ["a", "b"] && options.max_size == Some(1000));
        assert_eq!(
            options.input_shapes[0].1,
            [Dim::from(1), Dim::from(3), Dim::symbol("H"), Dim::symbol("W")]
        );
        let shapes: Vec<_> = options.set.iter().map(|(name, array)| (name.as_str(), array.shape())).collect();
        assert_eq!(shapes, [("flag", &[][..]), ("n", &[]), ("scale", &[1, 2])]);
        assert_eq!(options.rename, [("a".to_owned(), "b".to_owned())]);
        assert_eq!(options.report.as_deref(), Some("r.json".as_ref()));
        let written = serde_json::to_string(&options.to_json()).unwrap();
        let again = read(&written).unwrap();
        assert_eq!(serde_json::to_string(&again.to_json()).unwrap(), written);
        assert!(again.report.is_none() && again.max_size == Some(1000), "{written}");
        assert_eq!(again.set[2].1.shape(), [1, 2], "{written}");
    }

    #[test]
    fn defaults_and_large_arrays_are_not_written() {
        let mut options = Options::default();
        assert!(options.to_json().is_empty());
        let long = Array::i64(ArrayD::zeros(IxDyn(&[MAX_ELEMENTS + 1])));
        options.set.push(("x".to_owned(), long));
        let written = serde_json::to_string(&options.to_json()).unwrap();
        assert_eq!(written, r#"{"set":{"x":null}}"#);
        assert!(read(&written).unwrap_err().to_string().contains("not valid"));
    }

    #[test]
    fn errors_name_the_option() {
        for (text, reason) in [
            ("[]", "options: invalid type"),
            (r#"{"fast": true}"#, "options: fast: unknown option"),
            (r#"{"fp16": 1}"#, "options: fp16: 1 is not valid"),
            (r#"{"set": {"x": [[1], [1, 2]]}}"#, "is not valid"),
            (r#"{"int8": true, "dequantize": true}"#, "excludes"),
        ] {
            let error = read(text).unwrap_err().to_string();
            assert!(error.contains(reason), "{error}");
        }
    }
}
