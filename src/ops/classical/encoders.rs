//! Tables of categories: LabelEncoder and OneHotEncoder, where their keys and values are numbers.
//!
//! Spec: <https://onnx.ai/onnx/operators/onnx_aionnxml_LabelEncoder.html>,
//! `onnx_aionnxml_OneHotEncoder.html`.

use ndarray::{ArrayD, IxDyn};
use num_traits::AsPrimitive;

use super::DOMAIN;
use crate::ops::control::impossible::text;
use crate::ops::prelude::*;

pub(in crate::ops) const OPS: &[Row] = &[
    // The values after it are known where the graph is cut.
    Row::defined(DOMAIN, "LabelEncoder", expand_labels)
        .lowers_to("Equal, MatMul, Gather")
        .limits("keys or values that are text; keys that are NaN or occur twice"),
    Row::defined(DOMAIN, "OneHotEncoder", expand_one_hot)
        .lowers_to("Equal, Cast")
        .limits("categories that are text or occur twice"),
];

/// Returns keys or values, which are a list of numbers or a tensor; `None` if they are text.
fn table(call: &Call, [floats, ints, tensor]: [&'static str; 3]) -> Result<Option<Array>> {
    if call.since() >= 4
        && let Some(tensor) = call.optional_tensor(tensor)?
    {
        if tensor.shape().len() != 1 {
            invalid!("keys or values of {} axes, expected 1", tensor.shape().len());
        }
        let array = tensor.load()?;
        return Ok((array.dtype() != DType::String).then_some(array));
    }
    if call.since() < 2 {
        return Ok(None);
    }
    if let Some(list) = call.optional_ints(ints)?.filter(|list| !list.is_empty()) {
        return Ok(Some(Array::i64(ArrayD::from_shape_vec(vec![list.len()], list)?)));
    }
    let list = call.optional_floats(floats)?.filter(|list| !list.is_empty());
    list.map(|list| Ok(Array::f32(ArrayD::from_shape_vec(vec![list.len()], list)?))).transpose()
}

/// Returns the keys, the values, and the value of other elements; `None` if any are text.
fn read_labels(call: &Call) -> Result<Option<[Array; 3]>> {
    let keys = table(call, ["keys_floats", "keys_int64s", "keys_tensor"])?;
    let values = table(call, ["values_floats", "values_int64s", "values_tensor"])?;
    let (Some(keys), Some(values)) = (keys, values) else { return Ok(None) };
    if keys.len() != values.len() || keys.is_empty() {
        invalid!("{} keys and {} values", keys.len(), values.len());
    }
    let tensor = if call.since() >= 4 { call.optional_tensor("default_tensor")? } else { None };
    let default = match tensor {
        Some(tensor) if tensor.len() == 1 => tensor.load()?,
        Some(tensor) => invalid!("{} defaults, expected one", tensor.len()),
        None if values.dtype().is_float() => {
            Array::f32(ArrayD::from_elem(IxDyn(&[]), call.float("default_float")?)).cast(values.dtype())?
        }
        None => Array::i64(ArrayD::from_elem(IxDyn(&[]), call.int("default_int64")?)).cast(values.dtype())?,
    };
    Ok(Some([keys, values, default]))
}

/// Checks that at most one of these numbers equals an element.
fn check_distinct(numbers: &Array) -> Result<()> {
    let mut sorted: Vec<f64> = numbers.to_f64()?.into_iter().collect();
    sorted.sort_by(f64::total_cmp);
    let mut neighbours = sorted.iter().zip(sorted.iter().skip(1));
    if sorted.iter().any(|number| number.is_nan()) || neighbours.any(|(a, b)| a == b) {
        unsupported!("a number that is NaN or occurs twice");
    }
    Ok(())
}

/// Returns the type of the values.
fn value_type(call: &Call) -> Result<DType> {
    let is_set = |name| call.node().attributes.get(name).is_some();
    Ok(match call.since() {
        1 if call.dtype(0)? == DType::String => DType::I64,
        4.. if is_set("values_tensor") => call.tensor("values_tensor")?.dtype(),
        2.. if is_set("values_int64s") => DType::I64,
        2.. if is_set("values_floats") => DType::F32,
        _ => DType::String,
    })
}

fn expand_labels<'x>(x: &'x Expand) -> Result<Expr<'x>> {
    let Some([keys, values, default]) = read_labels(x)? else {
        x.refuse(text());
        return Ok(x.operand(0).cast(value_type(x)?));
    };
    check_distinct(&keys)?;
    let is_key = x.operand(0).unsqueeze(&[-1]).equal(x.make.literal(&keys)).cast(DType::F32);
    // The default comes after the values: a key takes the element back from there to its value.
    let last = values.len().int();
    let steps: Vec<f32> = (1..=last).rev().map(|steps| steps.as_()).collect();
    let steps = Array::f32(ArrayD::from_shape_vec(vec![steps.len(), 1], steps)?);
    let index = x.make.number(last.as_(), DType::F32) - is_key.matmul(x.make.literal(&steps)).squeeze(&[-1]);
    let table = Array::concat(&[values, default.reshape(&[1])?], 0)?;
    Ok(x.make.literal(&table).gather(index.cast(DType::I64), 0))
}

fn read_categories(call: &Call) -> Result<Vec<i64>> {
    match call.optional_ints("cats_int64s")? {
        Some(categories) if call.dtype(0)? != DType::String => Ok(categories),
        _ => Err(text()),
    }
}

fn expand_one_hot<'x>(x: &'x Expand) -> Result<Expr<'x>> {
    let categories = read_categories(x)?;
    let count = categories.len();
    check_distinct(&Array::i64(ArrayD::from_shape_vec(vec![count], categories.clone())?))?;
    // Fractions of an element are dropped.
    let number = x.operand_as(0, DType::I64).unsqueeze(&[-1]);
    Ok(number.equal(x.make.ints(&categories)).cast(DType::F32))
}
