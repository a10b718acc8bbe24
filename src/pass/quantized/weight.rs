//! Constants in quantized values: weights and biases.

use num_traits::AsPrimitive;

use super::input;
use crate::error::Result;
use crate::graph::{Attribute, Graph, Node};
use crate::pass::pattern::producer;

/// The step of each of `outputs` along an axis of what DequantizeLinear reads, where it is a number with a reciprocal.
pub(super) fn scales(
    graph: &Graph,
    dequantize: &Node,
    outputs: usize,
    axis: usize,
) -> Result<Option<Vec<f32>>> {
    let Some(scale) = input(dequantize, 1).and_then(|scale| graph.value(scale).constant.as_ref()) else {
        return Ok(None);
    };
    let given = match dequantize.attributes.get("axis") {
        Some(Attribute::Int(given)) => *given,
        _ => 1,
    };
    let rank = input(dequantize, 0).and_then(|value| graph.value(value).constant.as_ref());
    let rank = rank.map_or(0, |constant| constant.shape().len());
    let along_outputs =
        i64::try_from(axis)? == if given < 0 { given.saturating_add(i64::try_from(rank)?) } else { given };
    let list = scale.load_listed()?.float_list()?;
    let blocks = matches!(dequantize.attributes.get("block_size"), Some(Attribute::Int(size)) if *size != 0);
    let list = match list.as_slice() {
        [one] => vec![*one; outputs],
        _ if list.len() == outputs && scale.shape().len() == 1 && (along_outputs || rank == 1) => list,
        _ => return Ok(None),
    };
    let usual = list.iter().all(|scale| scale.is_normal() && *scale > 0.0 && (1.0 / scale).is_normal());
    Ok(Some(list).filter(|_| usual && !blocks))
}

/// Whether what DequantizeLinear reads has no zero point but 0.
pub(super) fn is_about_zero(graph: &Graph, dequantize: &Node) -> Result<bool> {
    let Some(zero) = input(dequantize, 2) else { return Ok(true) };
    let Some(zero) = &graph.value(zero).constant else { return Ok(false) };
    Ok(zero.load_listed()?.to_i64()?.iter().all(|zero| *zero == 0))
}

/// The bias of a product, which may be quantized too; zeros where there is none.
pub(super) fn bias(graph: &Graph, node: &Node, outputs: usize) -> Result<Option<Vec<f32>>> {
    let Some(value) = input(node, 2) else { return Ok(Some(vec![0.0; outputs])) };
    let list = match (&graph.value(value).constant, producer(graph, value, "DequantizeLinear")) {
        (Some(constant), _) => constant.load_listed()?.float_list()?,
        (None, Some(dequantize)) => {
            let constant = input(dequantize, 0).and_then(|value| graph.value(value).constant.as_ref());
            let Some(constant) = constant.filter(|_| is_about_zero(graph, dequantize).unwrap_or(false))
            else {
                return Ok(None);
            };
            let Some(scales) = scales(graph, dequantize, constant.len(), 0)? else { return Ok(None) };
            let elements = constant.load_listed()?.int_list()?;
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
