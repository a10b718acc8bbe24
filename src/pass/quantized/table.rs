//! The scales that `ncnn2int8` makes int8 layers by, of the steps of a quantized network.

use std::collections::BTreeMap;

use num_traits::AsPrimitive;

use super::weight::{is_about_zero, scales};
use super::{Steps, input};
use crate::error::Result;
use crate::graph::{Attribute, Graph, Node, ValueId};
use crate::ncnn::Scales;
use crate::pass::pattern::producer;
use crate::tensor::{DType, Tensor};

/// The largest magnitude of an integer in ncnn's int8 layers.
const LARGEST: i32 = 127;

/// The scales of the layers that could multiply integers, for a net in float whose bottoms are not moved.
pub(super) fn scales_of(graph: &Graph, found: &BTreeMap<ValueId, Steps>) -> Result<Vec<Scales>> {
    let mut all = Vec::new();
    for (_, node) in graph.nodes() {
        let Some(steps) = input(node, 0).and_then(|value| found.get(&value)) else { continue };
        let Some(steps_of_weight) = weight_steps(graph, node)? else { continue };
        let output = node.outputs.first().copied().flatten().map(|output| graph.value(output).name.clone());
        let layer = if node.name.is_empty() { output.unwrap_or_default() } else { node.name.clone() };
        let weight = steps_of_weight.iter().map(|scale| 1.0 / scale).collect();
        let largest: f32 = (-steps.low).max(steps.high).as_();
        let reach: f32 = LARGEST.as_();
        let bottom = reach / (largest * steps.scale);
        if bottom.is_normal() && bottom > 0.0 {
            all.push(Scales { layer, weight, bottom });
        }
    }
    Ok(all)
}

/// The step of each output of a weight that an int8 layer can have.
fn weight_steps(graph: &Graph, node: &Node) -> Result<Option<Vec<f32>>> {
    let Some(dequantize) = input(node, 1).and_then(|weight| producer(graph, weight, "DequantizeLinear"))
    else {
        return Ok(None);
    };
    let Some(tensor) = input(dequantize, 0).and_then(|value| graph.value(value).constant.clone()) else {
        return Ok(None);
    };
    let outputs = tensor.shape().first().copied().unwrap_or(0);
    let fits = tensor.dtype() == DType::I8
        && has_layer(graph, node, tensor.shape())
        && is_about_zero(graph, dequantize)?
        && is_small(&tensor)?;
    Ok(scales(graph, dequantize, outputs, 0)?.filter(|_| fits))
}

/// Whether no integer is beyond what ncnn multiplies.
fn is_small(weight: &Tensor) -> Result<bool> {
    Ok(weight.load_listed()?.int_list()?.iter().all(|element| element.abs() <= i64::from(LARGEST)))
}

/// The attributes of Gemm that int8 layers know, and their values.
const GEMM: [(&str, &[Attribute]); 4] = [
    ("transA", &[Attribute::Int(0)]),
    ("transB", &[Attribute::Int(1)]),
    ("alpha", &[Attribute::Float(1.0)]),
    ("beta", &[Attribute::Float(1.0)]),
];

/// Whether ncnn has an int8 layer for a node: a convolution of one image in two dimensions, whole or depth-wise, or a linear map of one
/// row.
fn has_layer(graph: &Graph, node: &Node, weight: &[usize]) -> bool {
    let shape = input(node, 0).and_then(|value| graph.value(value).shape.as_deref()).unwrap_or_default();
    let single = shape.first().is_some_and(|batch| batch.is(1));
    match (node.is("Conv"), node.is("Gemm"), weight) {
        (true, _, [outputs, channels, _, _]) => {
            let group = match node.attributes.get("group") {
                Some(Attribute::Int(group)) => usize::try_from(*group).unwrap_or(0),
                _ => 1,
            };
            single && (group == 1 || group == *outputs && *channels == 1)
        }
        (_, true, [_, _]) => {
            let is_plain = |(name, values): &(&str, &[Attribute])| match node.attributes.get(*name) {
                Some(Attribute::Int(value)) => matches!(values, [Attribute::Int(known)] if known == value),
                Some(Attribute::Float(value)) => {
                    matches!(values, [Attribute::Float(known)] if known == value)
                }
                Some(_) => false,
                // Left out, nothing is transposed.
                None => *name != "transB",
            };
            single && shape.len() == 2 && GEMM.iter().all(is_plain)
        }
        _ => false,
    }
}
