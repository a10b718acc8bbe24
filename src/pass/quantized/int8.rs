//! Convolutions and linear maps with integers, as ncnn's int8 layers compute them (`Convolution::forward_int8`).
//!
//! ncnn rounds to steps from -127 to 127 about zero. Where the model's steps lie otherwise, the input is moved by a constant, the
//! padding is what zero is moved to, and the bias takes up what all weights together make of it: the same integers are multiplied
//! and added. One of 256 steps, the last one, is one too many.

use std::collections::BTreeMap;

use num_traits::AsPrimitive;

use super::{Steps, between, clip, find_steps, input, made, number, own, steps_of};
use crate::error::Result;
use crate::graph::{Attribute, Graph, Node, NodeId, ValueId};
use crate::ncnn::Scales;
use crate::pass::pattern::{producer, scalar};
use crate::tensor::{DType, Tensor};

/// The largest magnitude of an integer in ncnn's int8 layers.
const LARGEST: i32 = 127;

/// A layer with integers.
struct Plan {
    steps: Steps,
    /// The weight as integers, and the step of each output.
    weight: Tensor,
    weight_scales: Vec<f32>,
    bias: Vec<f32>,
    /// The steps that the input is moved down by.
    offset: i32,
}

/// Makes int8 layers of what has quantised inputs and weights; elsewhere values are rounded in float. The answer is how many layers
/// there are.
pub(super) fn to_int8(graph: &mut Graph) -> Result<usize> {
    let found = find_steps(graph);
    let mut plans: BTreeMap<NodeId, Plan> = BTreeMap::new();
    for (id, node) in graph.nodes() {
        let steps = input(node, 0).and_then(|value| found.get(&value));
        if let Some(steps) = steps
            && let Some(plan) = plan(graph, node, *steps)?
        {
            plans.insert(id, plan);
        }
    }
    let count = plans.len();
    let mut moved: BTreeMap<(ValueId, u32, i32), ValueId> = BTreeMap::new();
    graph.rewrite_nodes(|graph, id| {
        if let Some(plan) = plans.remove(&id) {
            let Some(node) = graph.node(id).cloned() else { return Ok(None) };
            return build(graph, &node, plan, &mut moved).map(Some);
        }
        let Some((node, steps)) = steps_of(graph, &found, id) else { return Ok(None) };
        round(graph, &node, &steps).map(Some)
    })?;
    Ok(count)
}

/// The scales of the layers that could multiply integers, for a net in float whose bottoms are not moved.
pub(super) fn scales_of(graph: &Graph, found: &BTreeMap<ValueId, Steps>) -> Result<Vec<Scales>> {
    let mut all = Vec::new();
    for (_, node) in graph.nodes() {
        let Some(steps) = input(node, 0).and_then(|value| found.get(&value)) else { continue };
        let Some(plan) = plan(graph, node, *steps)? else { continue };
        let output = node.outputs.first().copied().flatten().map(|output| graph.value(output).name.clone());
        let layer = if node.name.is_empty() { output.unwrap_or_default() } else { node.name.clone() };
        let weight = plan.weight_scales.iter().map(|scale| 1.0 / scale).collect();
        let largest: f32 = (-steps.low).max(steps.high).as_();
        let reach: f32 = LARGEST.as_();
        all.push(Scales { layer, weight, bottom: reach / (largest * steps.scale) });
    }
    Ok(all)
}

/// The steps in float arithmetic.
fn round(graph: &mut Graph, at: &Node, steps: &Steps) -> Result<Vec<Node>> {
    let (inverse, scale) = (number(graph, 1.0 / steps.scale)?, number(graph, steps.scale)?);
    let (scaled, rounded, held) = (between(graph), between(graph), between(graph));
    let bounds = [steps.low, steps.high].map(AsPrimitive::as_);
    Ok(vec![
        made(at, "Mul", &[steps.x, inverse], vec![Some(scaled)]),
        made(at, "Round", &[scaled], vec![Some(rounded)]),
        clip(graph, at, rounded, bounds, vec![Some(held)])?,
        made(at, "Mul", &[held, scale], at.outputs.clone()),
    ])
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

fn plan(graph: &Graph, node: &Node, steps: Steps) -> Result<Option<Plan>> {
    let Some(weight) = input(node, 1).and_then(|weight| producer(graph, weight, "DequantizeLinear")) else {
        return Ok(None);
    };
    let Some(tensor) = input(weight, 0).and_then(|value| graph.value(value).constant.clone()) else {
        return Ok(None);
    };
    let outputs = tensor.shape().first().copied().unwrap_or(0);
    let (Some(weight_scales), true) = (
        scales(graph, weight, outputs)?,
        tensor.dtype() == DType::I8 && has_layer(graph, node, tensor.shape()),
    ) else {
        return Ok(None);
    };
    let offset = if steps.low >= -LARGEST - 1 && steps.high <= LARGEST { 0 } else { steps.low + LARGEST };
    // A byte of steps, and zero among those that padding can be.
    if steps.high - steps.low > 255 || offset.abs() > LARGEST {
        return Ok(None);
    }
    let Some(sums) = sums(&tensor, outputs)? else { return Ok(None) };
    let Some(mut bias) = bias(graph, node, outputs)? else { return Ok(None) };
    for ((bias, sum), scale) in bias.iter_mut().zip(sums).zip(&weight_scales) {
        let (sum, offset): (f64, f64) = (sum.as_(), offset.as_());
        let part = offset * f64::from(steps.scale) * f64::from(*scale) * sum;
        *bias = (f64::from(*bias) + part).as_();
    }
    if bias.iter().any(|bias| !bias.is_finite()) {
        return Ok(None);
    }
    Ok(Some(Plan { steps, weight: tensor, weight_scales, bias, offset }))
}

/// The step of each output of a weight without a zero point, where its reciprocal is a number.
fn scales(graph: &Graph, dequantize: &Node, outputs: usize) -> Result<Option<Vec<f32>>> {
    let constant = |index| input(dequantize, index).map(|value| graph.value(value).constant.as_ref());
    let zero = match constant(2) {
        Some(Some(zero)) => zero.load()?.to_i64()?.iter().all(|zero| *zero == 0),
        Some(None) => false,
        None => true,
    };
    let Some(Some(scale)) = constant(1) else { return Ok(None) };
    let along_outputs = match dequantize.attributes.get("axis") {
        Some(Attribute::Int(axis)) => *axis == 0,
        _ => false,
    };
    let list = scale.load()?.float_list()?;
    let blocks = matches!(dequantize.attributes.get("block_size"), Some(Attribute::Int(size)) if *size != 0);
    let list = match list.as_slice() {
        [one] => vec![*one; outputs],
        _ if list.len() == outputs && scale.shape().len() == 1 && along_outputs => list,
        _ => return Ok(None),
    };
    let usual = list.iter().all(|scale| scale.is_normal() && *scale > 0.0 && (1.0 / scale).is_normal());
    Ok(Some(list).filter(|_| zero && usual && !blocks))
}

/// The sum of the weights of each output, where none is beyond what ncnn multiplies.
fn sums(weight: &Tensor, outputs: usize) -> Result<Option<Vec<i64>>> {
    let elements = weight.load()?.int_list()?;
    let Some(each) = elements.len().checked_div(outputs).filter(|each| *each > 0) else { return Ok(None) };
    let small = elements.iter().all(|element| element.abs() <= i64::from(LARGEST));
    Ok(small.then(|| elements.chunks(each).map(|row| row.iter().sum()).collect()))
}

/// The bias, which may be quantised too; zeros where there is none.
fn bias(graph: &Graph, node: &Node, outputs: usize) -> Result<Option<Vec<f32>>> {
    let Some(value) = input(node, 2) else { return Ok(Some(vec![0.0; outputs])) };
    let list = match (&graph.value(value).constant, producer(graph, value, "DequantizeLinear")) {
        (Some(constant), _) => constant.load()?.float_list()?,
        (None, Some(dequantize)) => {
            let Some(constant) = input(dequantize, 0).and_then(|value| graph.value(value).constant.as_ref())
            else {
                return Ok(None);
            };
            let Some(scales) = bias_scales(graph, dequantize, constant.len())? else { return Ok(None) };
            let elements = constant.load()?.int_list()?;
            let scaled = |(element, scale): (&i64, &f32)| -> f32 {
                let element: f32 = element.as_();
                element * scale
            };
            elements.iter().zip(&scales).map(scaled).collect()
        }
        (None, None) => return Ok(None),
    };
    Ok(Some(list).filter(|list| list.len() == outputs))
}

/// The step of each element of a bias without a zero point.
fn bias_scales(graph: &Graph, dequantize: &Node, len: usize) -> Result<Option<Vec<f32>>> {
    let zero = input(dequantize, 2).map(|value| graph.value(value).constant.as_ref());
    let zero = match zero {
        Some(Some(zero)) => zero.load()?.to_i64()?.iter().all(|zero| *zero == 0),
        Some(None) => false,
        None => true,
    };
    let Some(scale) = input(dequantize, 1) else { return Ok(None) };
    if let Some(one) = scalar(graph, scale) {
        return Ok(zero.then(|| vec![one.as_(); len]));
    }
    let Some(scale) = &graph.value(scale).constant else { return Ok(None) };
    Ok(Some(scale.load()?.float_list()?).filter(|list| zero && list.len() == len))
}

/// The input moved, where it has to be, and the layer.
fn build(
    graph: &mut Graph,
    node: &Node,
    plan: Plan,
    moved: &mut BTreeMap<(ValueId, u32, i32), ValueId>,
) -> Result<Vec<Node>> {
    let mut nodes = Vec::new();
    let Steps { x, scale, .. } = plan.steps;
    let bottom = match (plan.offset, moved.get(&(x, scale.to_bits(), plan.offset))) {
        (0, _) => x,
        (_, Some(known)) => *known,
        (offset, None) => {
            let distance = number(graph, super::bound_as(-offset, scale))?;
            let sum = between(graph);
            nodes.push(made(node, "Add", &[x, distance], vec![Some(sum)]));
            moved.insert((x, scale.to_bits(), offset), sum);
            sum
        }
    };
    let outputs = plan.bias.len();
    let inverse = plan.weight_scales.iter().map(|scale| 1.0 / scale).collect();
    let weight = graph.add_constant("", plan.weight)?;
    let scales = graph.add_constant("", Tensor::from_f32(&[outputs], inverse)?)?;
    let bias = graph.add_constant("", Tensor::from_f32(&[outputs], plan.bias)?)?;
    let mut attributes: BTreeMap<String, Attribute> =
        if node.is("Conv") { node.attributes.clone() } else { BTreeMap::new() };
    attributes.insert("scale".to_owned(), Attribute::Float(1.0 / scale));
    attributes.insert("zero".to_owned(), Attribute::Int(i64::from(-plan.offset)));
    let op_type = if node.is("Conv") { "Int8Conv" } else { "Int8Linear" };
    nodes.push(own(node, op_type, &[bottom, weight, scales, bias], attributes));
    Ok(nodes)
}
