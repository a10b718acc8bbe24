//! Operators that layers of the user compute: shapes, params and weights as the user declares them.

use std::collections::BTreeMap;

use crate::graph::custom::{ANY_SHAPE, CUSTOM_OPERATOR, axes, sizes};
use crate::graph::{Attribute, CustomLayer, CustomParam, CustomWeight};
use crate::lower::check_numbers;
use crate::ncnn::layer::{Custom, EXPRESSIONS, Param, Storage};
use crate::ops::prelude::*;

pub(in crate::ops) const OPS: &[Row] = &[Row::of(NCNN_DOMAIN, CUSTOM_OPERATOR, Access::Any, infer_custom)
    .lower(lower_custom)
    .lowers_to("the layer that --custom-layers declares")];

/// Returns the declaration; a model itself may have a node of this name, without one.
fn declared<'a>(call: &Call<'a>) -> Result<&'a CustomLayer> {
    call.node().custom.as_deref().ok_or_else(|| Error::unsupported("no layer is declared for the operator"))
}

fn infer_custom(call: &Call) -> Result<Vec<Fact>> {
    let layer = declared(call)?;
    let constants = layer.constant_inputs();
    let mut bottoms = (0..call.input_count()).filter(|index| !constants.contains(index));
    let Some(first) = bottoms.next() else { invalid!("all inputs of the layer are constants") };
    let dtype = call.dtype(first)?;
    let bound = bound_sizes(call, layer)?;
    if layer.elementwise {
        return Ok(vec![call.like(first, dtype)?]);
    }
    let named = |name: &str| bound.get(name).cloned().or_else(|| size_attribute(call, name));
    let shape = |text: &String| {
        let wrong = |reason| {
            let expected = "a name is a size of `inputs`, or an integer attribute of the node";
            Error::unsupported(format!("the layer declares the output \"{text}\": {reason}; {expected}"))
        };
        Ok(Fact::new(dtype, sizes(text, named).map_err(wrong)?))
    };
    layer.outputs.iter().map(shape).collect()
}

/// Returns the size that an integer attribute gives.
fn size_attribute(call: &Call, name: &str) -> Option<Dim> {
    match call.node().attributes.get(name)? {
        Attribute::Int(size) => Some(Dim::Known(*size)),
        _ => None,
    }
}

/// Returns the sizes of inputs by the names that the declaration gives them. Sizes of one name are equal.
fn bound_sizes(call: &Call, layer: &CustomLayer) -> Result<BTreeMap<String, Dim>> {
    let mut bound: BTreeMap<String, Dim> = BTreeMap::new();
    for (index, text) in layer.inputs.iter().enumerate() {
        if text.trim() == ANY_SHAPE || !call.has_input(index) {
            continue;
        }
        let shape = call.shape(index)?;
        let parts: Vec<&str> = axes(text).collect();
        if parts.len() != shape.len() {
            let message = format!("its shape is {}, and the layer declares \"{text}\"", display_shape(shape));
            return Err(Error::unsupported(message).at_part(call.label(index)));
        }
        for (part, size) in parts.iter().zip(shape) {
            let same = match part.parse::<i64>() {
                Ok(number) => Dim::Known(number),
                Err(_) => bound.entry((*part).to_owned()).or_insert_with(|| size.clone()).clone(),
            };
            call.require_equal(size, &same).map_err(|error| error.at_part(call.label(index)))?;
        }
    }
    Ok(bound)
}

fn lower_custom(lower: &Lower) -> Result<()> {
    let layer = declared(lower)?;
    let constants = layer.constant_inputs();
    let bottoms: Vec<usize> = (0..lower.input_count())
        .filter(|index| !constants.contains(index) && lower.has_input(*index))
        .collect();
    for index in &bottoms {
        let dtype = lower.dtype(*index)?;
        if !dtype.is_float() {
            let message = format!("it is of type {dtype}, and a layer of the user reads floats");
            let help = "an input that is a constant may be a param: { input = N }";
            return Err(Error::unsupported(message).help(help).at_part(lower.label(*index)));
        }
    }
    let mut params = Vec::new();
    for (id, param) in layer.numbered_params() {
        let at = |error: Error| error.at_part(format!("param {id}"));
        params.extend(value_of(lower, param).map_err(at)?.map(|value| (id, value)));
    }
    params.sort_by_key(|(id, _)| *id);
    let weight = |weight: &CustomWeight| {
        let storage = match weight {
            CustomWeight::Tagged(_) => Storage::Tagged,
            CustomWeight::Raw { .. } => Storage::Raw,
        };
        let tensor = lower.required_constant(weight.input())?;
        check_numbers(tensor).map_err(|error| error.at_part(lower.label(weight.input())))?;
        Ok((storage, tensor.clone()))
    };
    let has_text = params.iter().any(|(_, param)| matches!(param, Param::Text(_)));
    let custom = Custom::new(
        &layer.type_name,
        params.into(),
        layer.weights.iter().map(weight).collect::<Result<_>>()?,
        layer.since.unwrap_or(0).max(if has_text { EXPRESSIONS } else { 0 }),
    )?;
    lower.custom(custom, &bottoms, layer.elementwise)
}

/// Returns the value of a param; `None` if the node lacks the attribute.
fn value_of(call: &Call, param: &CustomParam) -> Result<Option<Param>> {
    let int = |value: i64| i32::try_from(value).map_err(|_| Error::limit(format!("{value} exceeds 32 bits")));
    let ints = |values: &[i64]| values.iter().map(|value| int(*value)).collect::<Result<Vec<i32>>>();
    Ok(Some(match param {
        CustomParam::Int(value) => Param::Int(*value),
        CustomParam::Float(value) => Param::Float(*value),
        CustomParam::Ints(values) => Param::Ints(values.clone()),
        CustomParam::Floats(values) => Param::Floats(values.clone()),
        CustomParam::Input { input } => {
            let array = call.array(*input)?;
            match (array.dtype().is_float(), array.shape().is_empty()) {
                (true, false) => Param::Floats(array.float_list()?),
                (false, false) => Param::Ints(ints(&array.int_list()?)?),
                (true, true) => Param::Float(array.float_list()?.first().copied().unwrap_or_default()),
                (false, true) => Param::Int(int(array.int_list()?.first().copied().unwrap_or_default())?),
            }
        }
        CustomParam::Attribute(name) => match call.node().attributes.get(name.as_str()) {
            None => return Ok(None),
            Some(Attribute::Int(value)) => Param::Int(int(*value)?),
            Some(Attribute::Float(value)) => Param::Float(*value),
            Some(Attribute::Ints(values)) => Param::Ints(ints(values)?),
            Some(Attribute::Floats(values)) => Param::Floats(values.clone()),
            Some(Attribute::String(bytes)) => Param::Text(text_of(bytes)?),
            Some(other) => {
                unsupported!("the attribute {name} of the kind {} cannot be a param", other.kind())
            }
        },
    }))
}

/// Returns a text that the `.param` file may have.
fn text_of(bytes: &[u8]) -> Result<String> {
    let text = std::str::from_utf8(bytes).map_err(|_| Error::unsupported("the text is not valid UTF-8"))?;
    if text.is_empty() || text.contains(['"', ' ', '\n', '\r', '\t']) {
        unsupported!("the text \"{text}\" is empty, or has spaces or quotes, and cannot be a param");
    }
    Ok(text.to_owned())
}
