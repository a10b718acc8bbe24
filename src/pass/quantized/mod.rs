//! Networks whose values are rounded to quantized steps by QuantizeLinear, and converted back by
//! DequantizeLinear.
//!
//! Float arithmetic does not give the same result (see `pass::rounding`): either the rounding is dropped, or
//! the computation uses integers.

mod float;
mod int8;
mod recurrent;
mod table;
mod weight;

use std::collections::BTreeMap;

use num_traits::AsPrimitive;

use super::builder::in_place_of;
use super::infer::infer_and_fold;
use super::pattern::{input, int, only_output};
use super::pattern::{producer, scalar};
use crate::error::Result;
use crate::graph::{Attribute, Graph, Node, Symbol, ValueId};
use crate::ncnn::Scales;
use crate::op::{self, Access, CONTRIB_DOMAIN};
use crate::tensor::{DType, Tensor};
use int8::Rounded;
pub(crate) use recurrent::{INT8_GRU, INT8_LSTM};

/// The conversion of a network that is quantized throughout.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Quantization {
    /// The network is refused, unless it consists of operators on quantized values: float arithmetic does not
    /// give the same result.
    #[default]
    Exact,
    /// The rounding is dropped, and the bounds of the quantized types stay.
    Float,
    /// The rounding is dropped as well, and convolutions and matrix products become int8 layers with the scales
    /// of the model.
    Int8,
}

/// The version since which the bounds of Clip are inputs.
const CLIP: i64 = 11;

/// The version of QuantizeLinear and DequantizeLinear since which quantized values may have 16 or 4 bits.
const NARROW_AND_WIDE: i64 = 21;

/// The maximum length of a chain of operators that move elements.
const MAX_MOVES: usize = 16;

/// A value that QuantizeLinear rounds and DequantizeLinear converts back.
#[derive(Clone, Copy, Debug)]
struct Steps {
    /// The value before rounding.
    x: ValueId,
    scale: f32,
    /// The bounds of the type minus the zero point.
    low: i32,
    high: i32,
}

/// Finds pairs of QuantizeLinear and DequantizeLinear with one scale, by the output of the latter.
fn find_steps(graph: &Graph) -> BTreeMap<ValueId, Steps> {
    let pairs = graph.nodes().filter(|(_, node)| node.is("DequantizeLinear"));
    pairs.filter_map(|(_, node)| Some((only_output(node)?, read_steps(graph, node)?))).collect()
}

fn read_steps(graph: &Graph, dequantize: &Node) -> Option<Steps> {
    let quantized = input(dequantize, 0)?;
    let quantize = producer(graph, quantized, "QuantizeLinear")?;
    let x = input(quantize, 0)?;
    let parameter = |node: &Node, index: usize| match input(node, index) {
        Some(value) => scalar(graph, value),
        None => Some(0.0),
    };
    let (scale, zero) = (parameter(quantize, 1)?, parameter(quantize, 2)?);
    let is_pair = parameter(dequantize, 1) == Some(scale) && parameter(dequantize, 2) == Some(zero);
    let is_float = [x, only_output(dequantize)?].iter().all(|v| graph.value(*v).dtype == Some(DType::F32));
    let (low, high) = graph.value(quantized).dtype?.int_range()?;
    let zero: i64 = num_traits::cast(zero)?;
    let level = |bound: i128| i32::try_from(bound.checked_sub(i128::from(zero))?).ok();
    let scale: f32 = num_traits::cast(scale)?;
    let steps = Steps { x, scale, low: level(low)?, high: level(high)? };
    (is_pair && is_float && scale.is_normal() && scale > 0.0).then_some(steps)
}

/// Returns the DequantizeLinear that computes input `index` of a node.
fn dequantize_before<'a>(graph: &'a Graph, node: &Node, index: usize) -> Option<&'a Node> {
    producer(graph, input(node, index)?, "DequantizeLinear")
}

/// Returns input `index` of a node if it is a constant.
fn constant_input<'a>(graph: &'a Graph, node: &Node, index: usize) -> Option<&'a Tensor> {
    graph.value(input(node, index)?).constant.as_ref()
}

/// Whether the operator moves or selects elements of its first input.
fn is_move(node: &Node) -> bool {
    let moves = matches!(op::access(node), Access::View | Access::Selection) || node.is("Identity");
    moves && node.outputs.len() == 1
}

/// Returns what is known of a value, or of one whose elements it consists of.
fn of_source<T>(graph: &Graph, value: ValueId, known: impl Fn(ValueId) -> Option<T>) -> Option<T> {
    let mut value = value;
    for _ in 0..=MAX_MOVES {
        if let Some(found) = known(value) {
            return Some(found);
        }
        let producer = graph.node(graph.value(value).producer?).filter(|node| is_move(node))?;
        value = input(producer, 0)?;
    }
    None
}

/// Whether Gemm is the product of two matrices plus a bias: A is not transposed, alpha and beta are 1.
fn is_plain_gemm(node: &Node) -> bool {
    let is_one = |name: &str| match node.attributes.get(name) {
        Some(Attribute::Float(value)) => *value == 1.0,
        _ => true,
    };
    is_one("alpha") && is_one("beta") && !is_set(node, "transA")
}

/// Whether an integer attribute is given and not 0.
fn is_set(node: &Node, name: &str) -> bool {
    int(node, name).is_some_and(|flag| flag != 0)
}

/// Applies `quantization` and returns a warning for the user. `scales` receives the scales of a float
/// network. `release` is the oldest release of ncnn that must load the net, if the user asked for one.
pub(crate) fn requantize(
    graph: &mut Graph,
    quantization: Quantization,
    release: Option<u32>,
    scales: &mut Vec<Scales>,
) -> Result<Option<String>> {
    if quantization == Quantization::Exact {
        return Ok(None);
    }
    to_onnx_domain(graph)?;
    let ranged = float::to_plain(graph)?;
    // New values have no shapes, and new scales are no constants yet.
    infer_and_fold(graph)?;
    let found = find_steps(graph);
    // The ranges of values follow from their bounds.
    clip_only(graph, &found)?;
    recurrent::dequantize_weights(graph, quantization, release)?;
    let mut warning = None;
    if quantization == Quantization::Int8 {
        int8::to_int8(graph, &Rounded { steps: &found, ranged: &ranged }, release)?;
    } else {
        *scales = table::scales_of(graph, &found)?;
        let count = found.len() + ranged.len();
        warning =
            Some(format!("{count} values are not rounded to quantized steps: the net computes in float"));
    }
    Ok(warning)
}

/// Replaces QuantizeLinear and DequantizeLinear of onnxruntime's domain, which have types of 16 and 4 bits in
/// any operator set, by ONNX's own.
fn to_onnx_domain(graph: &mut Graph) -> Result<()> {
    let opset = float::opset(graph);
    graph.rewrite_nodes(|graph, id| {
        let is_known = |node: &&Node| {
            node.domain == CONTRIB_DOMAIN
                && ["QuantizeLinear", "DequantizeLinear"].contains(&node.op_type.as_str())
        };
        let Some(node) = graph.node(id).filter(is_known) else { return Ok(None) };
        let mut values = node.inputs.iter().chain(&node.outputs).flatten();
        let has_old_types = values.all(|value| {
            matches!(graph.value(*value).dtype, Some(DType::F32 | DType::I8 | DType::U8 | DType::I32))
        });
        let version = if has_old_types { opset } else { opset.max(NARROW_AND_WIDE) };
        Ok(Some(vec![Node { domain: Symbol::default(), version, ..node.clone() }]))
    })
}

/// Replaces each pair by Clip to the bounds of the quantized type, which often are those of an activation.
fn clip_only(graph: &mut Graph, found: &BTreeMap<ValueId, Steps>) -> Result<()> {
    graph.rewrite_nodes(|graph, id| {
        let Some(node) = graph.node(id).filter(|node| node.is("DequantizeLinear")) else { return Ok(None) };
        let Some(steps) = only_output(node).and_then(|output| found.get(&output)) else { return Ok(None) };
        let node = node.clone();
        let [low, high] = [steps.low, steps.high].map(|bound| AsPrimitive::<f32>::as_(bound) * steps.scale);
        in_place_of(graph, &node, node.version.max(CLIP), |made| {
            let [low, high] = [low, high].map(|bound| made.number(bound, DType::F32));
            Ok(Some(made.value(steps.x).clip(low, high)))
        })
    })
}
