//! Networks whose values are rounded to quantized steps on the way: QuantizeLinear, and DequantizeLinear after it.
//!
//! Float arithmetic does not compute what they compute (see `pass::rounding`): either the steps are left out, or it is computed with
//! the integers that they are meant for.

mod float;
mod integer;
mod table;
mod weight;

use std::collections::BTreeMap;

use super::pattern::{producer, scalar};
use crate::error::Result;
use crate::graph::{AttributeMap, Graph, Ids, Node, Symbol, Value, ValueId};
use crate::ncnn::Scales;
use crate::op::{CONTRIB_DOMAIN, OWN_DOMAIN};
use crate::tensor::{Array, DType, Tensor};

/// What becomes of a network that is quantized throughout.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Quantization {
    /// It is refused, where it is not operators on quantized values: no float arithmetic gives the same.
    #[default]
    Exact,
    /// Steps are left out, and the bounds of the quantized types stay.
    Float,
    /// Operators between steps are computed in integers, convolutions and linear maps by ncnn's int8 layers.
    Int8,
}

/// The versions of Clip from which bounds are inputs.
const CLIP: i64 = 11;

/// The versions of QuantizeLinear and DequantizeLinear from which quantized values may have 16 or 4 bits.
const NARROW_AND_WIDE: i64 = 21;

/// Operators that move elements or choose among them: what they do to numbers they do to quantized values.
const MOVING: &[&str] = &[
    "DepthToSpace",
    "Expand",
    "Flatten",
    "Gather",
    "GlobalMaxPool",
    "Identity",
    "MaxPool",
    "Reshape",
    "Slice",
    "SpaceToDepth",
    "Squeeze",
    "Tile",
    "Transpose",
    "Unsqueeze",
];

/// A value that is rounded to steps, and taken as a number again.
#[derive(Clone, Copy, Debug)]
struct Steps {
    /// What is rounded.
    x: ValueId,
    /// The size of a step.
    scale: f32,
    /// The steps from zero to the bounds of the type.
    low: i32,
    high: i32,
}

/// Pairs of QuantizeLinear and DequantizeLinear with one scale, by what the latter gives.
fn find_steps(graph: &Graph) -> BTreeMap<ValueId, Steps> {
    let pairs = graph.nodes().filter(|(_, node)| node.is("DequantizeLinear"));
    pairs
        .filter_map(|(_, node)| Some((node.outputs.first().copied().flatten()?, read_steps(graph, node)?)))
        .collect()
}

fn input(node: &Node, index: usize) -> Option<ValueId> {
    node.inputs.get(index).copied().flatten()
}

fn read_steps(graph: &Graph, dequantize: &Node) -> Option<Steps> {
    let quantised = input(dequantize, 0)?;
    let quantize = producer(graph, quantised, "QuantizeLinear")?;
    let x = input(quantize, 0)?;
    let number = |node: &Node, index: usize| match input(node, index) {
        Some(value) => scalar(graph, value),
        None => Some(0.0),
    };
    let (scale, zero) = (number(quantize, 1)?, number(quantize, 2)?);
    let same = number(dequantize, 1) == Some(scale) && number(dequantize, 2) == Some(zero);
    let result = dequantize.outputs.first().copied().flatten()?;
    let singles = [x, result].iter().all(|value| graph.value(*value).dtype == Some(DType::F32));
    let (low, high) = graph.value(quantised).dtype?.int_range()?;
    let zero: i64 = num_traits::cast(zero)?;
    let steps = |bound: i128| i32::try_from(bound.checked_sub(i128::from(zero))?).ok();
    let scale: f32 = num_traits::cast(scale)?;
    (same && singles && scale.is_normal() && scale > 0.0).then_some(Steps {
        x,
        scale,
        low: steps(low)?,
        high: steps(high)?,
    })
}

/// Makes of the steps what is asked for; the answer is what users should know. `scales` are those of a net in float.
pub(crate) fn requantize(
    graph: &mut Graph,
    quantization: Quantization,
    scales: &mut Vec<Scales>,
) -> Result<Option<String>> {
    Ok(match quantization {
        Quantization::Exact => None,
        Quantization::Float => {
            name_operators(graph)?;
            float::to_plain(graph)?;
            let found = find_steps(graph);
            *scales = table::scales_of(graph, &found)?;
            let steps = to_float(graph, &found)?;
            Some(format!("{steps} values are not rounded to quantized steps: the net computes in float"))
        }
        Quantization::Int8 => {
            name_operators(graph)?;
            integer::to_integers(graph)?;
            None
        }
    })
}

/// QuantizeLinear and DequantizeLinear of onnxruntime's domain, which have types of 16 and 4 bits in any operator set, are ONNX's own.
fn name_operators(graph: &mut Graph) -> Result<()> {
    let opset = float::opset(graph);
    graph.rewrite_nodes(|graph, id| {
        let is_known = |node: &&Node| {
            node.domain == CONTRIB_DOMAIN
                && ["QuantizeLinear", "DequantizeLinear"].contains(&node.op_type.as_str())
        };
        let Some(node) = graph.node(id).filter(is_known) else { return Ok(None) };
        let mut values = node.inputs.iter().chain(&node.outputs).flatten();
        let old = values.all(|value| {
            matches!(graph.value(*value).dtype, Some(DType::F32 | DType::I8 | DType::U8 | DType::I32))
        });
        let version = if old { opset } else { opset.max(NARROW_AND_WIDE) };
        Ok(Some(vec![Node { domain: Symbol::default(), version, ..node.clone() }]))
    })
}

/// Leaves out the steps: what is beyond the bounds of the quantized type is still held there, which is how quantized networks write
/// their activations. The answer is how many there were.
fn to_float(graph: &mut Graph, found: &BTreeMap<ValueId, Steps>) -> Result<usize> {
    graph.rewrite_nodes(|graph, id| {
        let Some((node, steps)) = steps_of(graph, found, id) else { return Ok(None) };
        let bounds = [steps.low, steps.high].map(|bound| bound_as(bound, steps.scale));
        Ok(Some(vec![clip(graph, &node, steps.x, bounds, node.outputs.clone())?]))
    })?;
    Ok(found.len())
}

/// The node at `id`, where it is the second of a pair.
fn steps_of(
    graph: &Graph,
    found: &BTreeMap<ValueId, Steps>,
    id: crate::graph::NodeId,
) -> Option<(Node, Steps)> {
    let node = graph.node(id).filter(|node| node.is("DequantizeLinear"))?;
    let steps = found.get(&node.outputs.first().copied().flatten()?)?;
    Some((node.clone(), *steps))
}

fn bound_as(bound: i32, scale: f32) -> f32 {
    let bound: f32 = num_traits::AsPrimitive::as_(bound);
    bound * scale
}

/// A constant of no axes.
fn number(graph: &mut Graph, value: f32) -> Result<ValueId> {
    let array = Array::f32(ndarray::ArrayD::from_elem(ndarray::IxDyn(&[]), value));
    graph.add_constant("", Tensor::from_array(&array)?)
}

/// A node in the place of `at`.
fn made(at: &Node, op_type: &str, inputs: &[ValueId], outputs: Ids) -> Node {
    Node {
        name: at.name.clone(),
        index: at.index,
        op_type: op_type.into(),
        version: at.version.max(CLIP),
        inputs: inputs.iter().copied().map(Some).collect(),
        outputs,
        ..Node::default()
    }
}

/// The same of this program's own domain.
fn own(at: &Node, op_type: &str, inputs: &[ValueId], attributes: AttributeMap) -> Node {
    Node {
        domain: OWN_DOMAIN.into(),
        version: 1,
        attributes,
        ..made(at, op_type, inputs, at.outputs.clone())
    }
}

fn clip(graph: &mut Graph, at: &Node, x: ValueId, bounds: [f32; 2], outputs: Ids) -> Result<Node> {
    let [low, high] = bounds;
    let (low, high) = (number(graph, low)?, number(graph, high)?);
    Ok(made(at, "Clip", &[x, low, high], outputs))
}

/// A value that a new node gives.
fn between(graph: &mut Graph) -> ValueId {
    graph.add_value(Value::default())
}
