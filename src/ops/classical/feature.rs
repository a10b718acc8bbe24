//! Preprocessing: the operators of `ai.onnx.ml` that are plain arithmetic, element by element or row by row.
//!
//! Spec: <https://onnx.ai/onnx/operators/onnx_aionnxml_Scaler.html>, `onnx_aionnxml_Imputer.html`.

use ndarray::{ArrayD, IxDyn};

use super::DOMAIN;
use crate::ops::prelude::*;

pub(in crate::ops) const OPS: &[Row] = &[
    Row::defined(DOMAIN, "ArrayFeatureExtractor", expand_extractor).lowers_to("Gather along the last axis"),
    Row::defined(DOMAIN, "Binarizer", expand_binarizer).lowers_to("Greater, Cast"),
    Row::defined(DOMAIN, "FeatureVectorizer", expand_vectorizer)
        .lowers_to("Concat")
        .limits("inputs that are not matrices of the stated sizes"),
    Row::defined(DOMAIN, "Imputer", expand_imputer).lowers_to("Where the input equals the replaced value"),
    Row::defined(DOMAIN, "Normalizer", expand_normalizer)
        .lowers_to("Div by the sum or the root of the squares of each row")
        .limits("the norm MAX, which runtimes interpret differently"),
    Row::defined(DOMAIN, "Scaler", expand_scaler).lowers_to("(x - offset) * scale"),
];

fn expand_extractor<'x>(x: &'x Expand) -> Result<Expr<'x>> {
    let mut result = x.operand(0).gather(x.operand(1).reshape(&[-1]), -1);
    if x.shape(0)?.len() == 1 {
        result = result.reshape(&[1, -1]);
    }
    Ok(result)
}

fn expand_binarizer<'x>(x: &'x Expand) -> Result<Expr<'x>> {
    let threshold = x.float("threshold")?;
    Ok(x.operand_as(0, DType::F32).greater(threshold).cast(x.dtype(0)?))
}

fn expand_vectorizer<'x>(x: &'x Expand) -> Result<Expr<'x>> {
    let sizes = x.optional_ints("inputdimensions")?.unwrap_or_default();
    let part = |index| {
        let [_, size] = x.shape(index)? else { unsupported!("the input is not a matrix") };
        if sizes.get(index).is_some_and(|expected| !size.is(*expected)) {
            unsupported!("the input has {size} columns, expected another number");
        }
        Ok(x.operand_as(index, DType::F32))
    };
    let parts = (0..x.input_count()).map(part).collect::<Result<Vec<_>>>()?;
    Ok(x.make.concat(&parts, 1))
}

/// Returns the value to replace, and its replacement: one value, or one for each column.
fn read_imputer(call: &Call) -> Result<(Array, Array)> {
    let vector = |array: Array| -> Result<Array> { array.cast(call.dtype(0)?) };
    let scalar = IxDyn(&[]);
    let floats = (call.optional_floats("imputed_value_floats")?, call.float("replaced_value_float")?);
    let ints = (call.optional_ints("imputed_value_int64s")?, call.int("replaced_value_int64")?);
    match (call.dtype(0)?.is_float(), floats, ints) {
        (true, (Some(values), replaced), _) => Ok((
            vector(Array::f32(ArrayD::from_elem(scalar, replaced)))?,
            vector(Array::f32(ArrayD::from_shape_vec(vec![values.len()], values)?))?,
        )),
        (false, _, (Some(values), replaced)) => Ok((
            vector(Array::i64(ArrayD::from_elem(scalar, replaced)))?,
            vector(Array::i64(ArrayD::from_shape_vec(vec![values.len()], values)?))?,
        )),
        _ => Err(Error::invalid("the replacing values are missing")),
    }
}

fn expand_imputer<'x>(x: &'x Expand) -> Result<Expr<'x>> {
    let (replaced, values) = read_imputer(x)?;
    let columns = x.shape(0)?.last().and_then(Dim::known);
    if values.len() != 1 && columns != Some(values.len().int()) {
        invalid!("{} values do not fit the number of columns", values.len());
    }
    let data = x.operand(0);
    let missing = if replaced.to_f64()?.iter().any(|value| value.is_nan()) {
        data.is_nan()
    } else {
        data.equal(x.make.literal(&replaced))
    };
    Ok(missing.select(x.make.literal(&values), data))
}

fn read_norm(call: &Call) -> Result<&'static str> {
    match call.string("norm")? {
        "L1" => Ok("ReduceL1"),
        "L2" => Ok("ReduceL2"),
        "MAX" => {
            unsupported!(
                "the norm MAX: of the elements in the specification, of their magnitudes in some runtimes"
            )
        }
        other => Err(Error::invalid(format!("\"{other}\"")).at_part("attribute norm")),
    }
}

fn expand_normalizer<'x>(x: &'x Expand) -> Result<Expr<'x>> {
    let data = x.operand_as(0, DType::F32);
    let size = data.reduce(read_norm(x)?, &[-1], true);
    // A row of zeros is unchanged.
    Ok(data / size.equal(0.0).select(1.0, size))
}

/// Returns offset and scale: one value, or one for each column.
fn read_scaler(call: &Call) -> Result<[Vec<f32>; 2]> {
    let columns = call.shape(0)?.last().and_then(Dim::known);
    let read = |name: &str, default: f32| -> Result<Vec<f32>> {
        let values =
            call.optional_floats(name)?.filter(|list| !list.is_empty()).unwrap_or_else(|| vec![default]);
        if values.len() != 1 && columns != Some(values.len().int()) {
            return Err(
                Error::invalid(format!("{} values", values.len())).at_part(format!("attribute {name}"))
            );
        }
        Ok(values)
    };
    Ok([read("offset", 0.0)?, read("scale", 1.0)?])
}

fn expand_scaler<'x>(x: &'x Expand) -> Result<Expr<'x>> {
    let [offset, scale] = read_scaler(x)?.map(|list| x.make.floats(&list));
    Ok((x.operand_as(0, DType::F32) - offset) * scale)
}
