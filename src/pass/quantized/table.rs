//! The table of scales from which `ncnn2int8` makes int8 layers, read from a quantized network.

use std::collections::BTreeMap;

use num_traits::AsPrimitive;

use super::int8::is_int8_conv;
use super::step::{Steps, constant_input, dequantize_before, of_source};
use super::weight::{is_symmetric, scales};
use crate::error::Result;
use crate::graph::{Graph, Node, ValueId};
use crate::ncnn::Scales;
use crate::ncnn::layer::LARGEST_INT8;
use crate::pass::pattern::{int, is_plain_gemm};
use crate::tensor::{DType, Dim, Tensor};

/// Returns the scales of the layers of a float network that can become int8 layers.
pub(super) fn scales_of(graph: &Graph, found: &BTreeMap<ValueId, Steps>) -> Result<Vec<Scales>> {
    let mut all = Vec::new();
    for (_, node) in graph.nodes() {
        let steps = |value: ValueId| of_source(graph, value, |value| found.get(&value));
        let Some(steps) = node.input(0).and_then(steps).filter(|steps| steps.are_bytes()) else { continue };
        let Some(weight_scales) = weight_scales(graph, node)? else { continue };
        let output = node.output(0).map(|output| graph.value(output).name.clone());
        let layer = if node.name.is_empty() { output.unwrap_or_default() } else { node.name.clone() };
        let weight = weight_scales.iter().map(|scale| 1.0 / scale).collect();
        all.extend(steps.factor(graph).map(|bottom| Scales { layer, weight, bottom }));
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
    let levels = weight.load_listed()?.int_list()?;
    Ok(levels.iter().all(|level| AsPrimitive::<f64>::as_(level.abs()) <= LARGEST_INT8))
}

/// Whether ncnn has an int8 layer for a node: a two-dimensional convolution of one image, with one group or
/// depth-wise, or the product of one row with a matrix.
fn has_int8_layer(graph: &Graph, node: &Node, weight: &[usize]) -> bool {
    let shape = node.input(0).and_then(|value| graph.value(value).shape.as_deref()).unwrap_or_default();
    if node.is("Conv") {
        let weight: Vec<Dim> = weight.iter().map(|size| Dim::Known((*size).as_())).collect();
        return is_int8_conv(node, shape, &weight);
    }
    let is_row = matches!(shape, [rows, _] if rows.is(1));
    node.is("Gemm") && weight.len() == 2 && is_row && is_plain_gemm(node) && int(node, "transB") == Some(1)
}
