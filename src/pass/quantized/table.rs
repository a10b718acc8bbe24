//! The table of scales from which `ncnn2int8` makes int8 layers, read from a quantized network.

use std::collections::BTreeMap;

use num_traits::AsPrimitive;

use super::weight::{is_symmetric, scales};
use super::{Steps, constant_input, dequantize_before, is_plain_gemm};
use crate::error::Result;
use crate::graph::{Graph, Node, ValueId};
use crate::ncnn::Scales;
use crate::pass::pattern::{input, int};
use crate::tensor::{DType, Tensor};

/// The largest magnitude of an integer in ncnn's int8 layers.
const LARGEST: i32 = 127;

/// Returns the scales of the layers of a float network that can become int8 layers.
pub(super) fn scales_of(graph: &Graph, found: &BTreeMap<ValueId, Steps>) -> Result<Vec<Scales>> {
    let mut all = Vec::new();
    for (_, node) in graph.nodes() {
        let Some(steps) = input(node, 0).and_then(|value| found.get(&value)) else { continue };
        let Some(weight_scales) = weight_scales(graph, node)? else { continue };
        let output = node.outputs.first().copied().flatten().map(|output| graph.value(output).name.clone());
        let layer = if node.name.is_empty() { output.unwrap_or_default() } else { node.name.clone() };
        let weight = weight_scales.iter().map(|scale| 1.0 / scale).collect();
        let largest: f32 = (-steps.low).max(steps.high).as_();
        let bottom = AsPrimitive::<f32>::as_(LARGEST) / (largest * steps.scale);
        if bottom.is_normal() && bottom > 0.0 {
            all.push(Scales { layer, weight, bottom });
        }
    }
    Ok(all)
}

/// Returns the scale of each output of a weight if ncnn has an int8 layer for the node.
fn weight_scales(graph: &Graph, node: &Node) -> Result<Option<Vec<f32>>> {
    let Some(dequantize) = dequantize_before(graph, node, 1) else { return Ok(None) };
    let Some(weight) = constant_input(graph, dequantize, 0) else { return Ok(None) };
    let outputs = weight.shape().first().copied().unwrap_or(0);
    let fits = weight.dtype() == DType::I8
        && has_int8_layer(graph, node, weight.shape())
        && is_symmetric(graph, dequantize)?
        && is_within_bounds(weight)?;
    Ok(scales(graph, dequantize, outputs, 0)?.filter(|_| fits))
}

fn is_within_bounds(weight: &Tensor) -> Result<bool> {
    Ok(weight.load_listed()?.int_list()?.iter().all(|level| level.abs() <= i64::from(LARGEST)))
}

/// Whether ncnn has an int8 layer for a node: a two-dimensional convolution of one image, with one group or
/// depth-wise, or the product of one row with a matrix.
fn has_int8_layer(graph: &Graph, node: &Node, weight: &[usize]) -> bool {
    let shape = input(node, 0).and_then(|value| graph.value(value).shape.as_deref()).unwrap_or_default();
    let fits = match weight {
        [outputs, channels, _, _] if node.is("Conv") => {
            let group = int(node, "group").map_or(1, |group| usize::try_from(group).unwrap_or(0));
            group == 1 || group == *outputs && *channels == 1
        }
        [_, _] if node.is("Gemm") => {
            shape.len() == 2 && is_plain_gemm(node) && int(node, "transB") == Some(1)
        }
        _ => false,
    };
    fits && shape.first().is_some_and(|batch| batch.is(1))
}
