//! Networks whose values are rounded to quantized steps by QuantizeLinear, and converted back by
//! DequantizeLinear.
//!
//! Float arithmetic does not give the same result (see `pass::rounding`): either the rounding is dropped, or
//! the computation uses integers.

mod float;
mod int8;
mod recurrent;
mod step;
mod table;
mod weight;

use std::collections::BTreeMap;

use num_traits::AsPrimitive;

use super::builder::replacement_of;
use super::infer::infer_and_fold;
use super::pattern::only_output;
use crate::common::count::count;
use crate::error::Result;
use crate::graph::{Graph, Node, Symbol, ValueId};
use crate::ncnn::Scales;
use crate::op::CONTRIB_DOMAIN;
use crate::tensor::DType;
use int8::Rounded;
use recurrent::RecurrentLayers;
pub(crate) use recurrent::{INT8_GRU, INT8_LSTM};
use step::{Steps, find_steps};

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
    /// The rounding is dropped as well, and convolutions and matrix products become int8 layers with the
    /// scales of the model.
    Int8,
}

/// The version since which the bounds of Clip are inputs.
const CLIP: i64 = 11;

/// The version of QuantizeLinear and DequantizeLinear since which quantized values may have 16 or 4 bits.
const NARROW_AND_WIDE: i64 = 21;

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
    let layers = RecurrentLayers::of(quantization, release)?;
    let ranged = float::to_plain(graph, layers)?;
    // New values have no shapes, and new scales are no constants yet.
    infer_and_fold(graph)?;
    let found = find_steps(graph);
    // The ranges of values follow from their bounds.
    clip_only(graph, &found)?;
    recurrent::dequantize_weights(graph, layers)?;
    if quantization == Quantization::Int8 {
        return int8::to_int8(graph, &Rounded { steps: &found, ranged: &ranged }, release);
    }
    *scales = table::scales_of(graph, &found)?;
    let values = count(found.len() + ranged.len(), "value");
    Ok(Some(format!("{values} without rounding to quantized steps: the net computes in float")))
}

/// Replaces QuantizeLinear and DequantizeLinear of onnxruntime's domain, which have types of 16 and 4 bits in
/// any operator set, by ONNX's.
fn to_onnx_domain(graph: &mut Graph) -> Result<()> {
    let opset = float::opset(graph);
    let find = |_: &Graph, node: &Node| {
        let is_of_quantized = ["QuantizeLinear", "DequantizeLinear"].contains(&node.op_type.as_str());
        (node.domain == CONTRIB_DOMAIN && is_of_quantized).then_some(())
    };
    graph.replace_nodes(find, |graph, node, ()| {
        let mut values = node.inputs.iter().chain(&node.outputs).flatten();
        let has_old_types = values.all(|value| {
            matches!(graph.value(*value).dtype, Some(DType::F32 | DType::I8 | DType::U8 | DType::I32))
        });
        let version = if has_old_types { opset } else { opset.max(NARROW_AND_WIDE) };
        Ok(Some(vec![Node { domain: Symbol::default(), version, ..node.clone() }]))
    })?;
    Ok(())
}

/// Replaces each pair by Clip to the bounds of the quantized type, which often are those of an activation.
fn clip_only(graph: &mut Graph, found: &BTreeMap<ValueId, Steps>) -> Result<()> {
    let find = |_: &Graph, node: &Node| found.get(&only_output(node)?).copied();
    graph.replace_nodes(find, |graph, node, steps| {
        let [low, high] = [steps.low, steps.high].map(|bound| AsPrimitive::<f32>::as_(bound) * steps.scale);
        replacement_of(graph, node, node.version.max(CLIP), |made| {
            let [low, high] = [low, high].map(|bound| made.number(bound, DType::F32));
            Ok(Some(made.value(steps.x).clip(low, high)))
        })
    })?;
    Ok(())
}
