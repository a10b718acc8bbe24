//! Quantized constants: weights and biases.

use num_traits::AsPrimitive;

use super::{constant_input, dequantize_before};
use crate::error::Result;
use crate::graph::{Graph, Node};
use crate::op::resolve_axis;
use crate::pass::pattern::{input, int};

/// Returns the scale of each of `outputs` along an axis of the constant that DequantizeLinear reads, if it
/// has one without blocks whose reciprocals are normal floats.
pub(super) fn scales(
    graph: &Graph,
    dequantize: &Node,
    outputs: usize,
    axis: usize,
) -> Result<Option<Vec<f32>>> {
    let Some(scale) = constant_input(graph, dequantize, 1) else { return Ok(None) };
    let rank = constant_input(graph, dequantize, 0).map_or(0, |constant| constant.shape().len());
    let is_axis = resolve_axis(int(dequantize, "axis").unwrap_or(1), rank).is_ok_and(|given| given == axis);
    let list = scale.load_listed()?.float_list()?;
    let list = match list.as_slice() {
        [one] => vec![*one; outputs],
        _ if list.len() == outputs && scale.shape().len() == 1 && (is_axis || rank == 1) => list,
        _ => return Ok(None),
    };
    let is_regular = list.iter().all(|scale| scale.is_normal() && *scale > 0.0 && (1.0 / scale).is_normal());
    let has_blocks = int(dequantize, "block_size").is_some_and(|size| size != 0);
    Ok(Some(list).filter(|_| is_regular && !has_blocks))
}

/// Whether all zero points of DequantizeLinear are 0.
pub(super) fn is_symmetric(graph: &Graph, dequantize: &Node) -> Result<bool> {
    let Some(zero) = input(dequantize, 2) else { return Ok(true) };
    let Some(zero) = &graph.value(zero).constant else { return Ok(false) };
    Ok(zero.load_listed()?.to_i64()?.iter().all(|zero| *zero == 0))
}

/// Returns the bias of a product, quantized or not, if it is constant; zeros if there is none.
pub(super) fn bias(graph: &Graph, node: &Node, outputs: usize) -> Result<Option<Vec<f32>>> {
    if input(node, 2).is_none() {
        return Ok(Some(vec![0.0; outputs]));
    }
    let list = if let Some(constant) = constant_input(graph, node, 2) {
        constant.load_listed()?.float_list()?
    } else {
        let Some(dequantize) = dequantize_before(graph, node, 2) else { return Ok(None) };
        let Some(constant) = constant_input(graph, dequantize, 0) else { return Ok(None) };
        let Some(scales) = scales(graph, dequantize, constant.len(), 0)? else { return Ok(None) };
        if !is_symmetric(graph, dequantize)? {
            return Ok(None);
        }
        let levels = constant.load_listed()?.int_list()?;
        levels.iter().zip(scales).map(|(level, scale)| AsPrimitive::<f32>::as_(*level) * scale).collect()
    };
    Ok(Some(list).filter(|list| list.len() == outputs))
}
