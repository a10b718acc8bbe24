//! Options as JSON: an object with the names of the library.

use ndarray::{ArrayD, IxDyn};
use serde_json::{Map, Value};

use super::{OptionInfo, OptionKind, OptionValue, Options, options};
use crate::error::{Error, Result};
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
    /// The text is not a JSON object, a name is unknown, a value has another type, or two options exclude each
    /// other.
    pub(crate) fn put_json(&mut self, text: &str) -> Result<()> {
        let given: Map<String, Value> =
            serde_json::from_str(text).map_err(|error| Error::usage(format!("options: {error}")))?;
        let is_set = |name: &str| given.get(name) == Some(&Value::Bool(true));
        for (name, value) in &given {
            let failed = |reason: &str| Error::usage(format!("options: {name}: {reason}"));
            let info = options().iter().find(|info| info.name == name);
            let info = info.ok_or_else(|| failed("unknown option"))?;
            if let Some(other) = info.excludes.filter(|other| is_set(name) && is_set(other)) {
                return Err(failed(&format!("excludes {other}")));
            }
            let items = items(info, value).ok_or_else(|| failed(&format!("{value} is not valid")))?;
            items.into_iter().try_for_each(|item| self.put(name, item))?;
        }
        Ok(())
    }
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
        assert_eq!(options.report.unwrap().to_str(), Some("r.json"));
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
