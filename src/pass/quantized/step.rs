//! Steps of quantized values, and questions about the nodes around them.

use std::collections::BTreeMap;

use crate::graph::{Graph, Node, ValueId};
use crate::op::{self, Access};
use crate::pass::pattern::{only_output, producer, scalar};
use crate::tensor::{DType, Tensor};

/// The maximum length of a chain of operators that move elements.
pub(super) const MAX_MOVES: usize = 16;

/// A value that QuantizeLinear rounds and DequantizeLinear converts back.
#[derive(Clone, Copy, Debug)]
pub(super) struct Steps {
    /// The value before rounding.
    pub x: ValueId,
    pub scale: f32,
    /// The bounds of the type minus the zero point.
    pub low: i32,
    pub high: i32,
}

/// Finds pairs of QuantizeLinear and DequantizeLinear with one scale, by the output of the latter.
pub(super) fn find_steps(graph: &Graph) -> BTreeMap<ValueId, Steps> {
    let pairs = graph.nodes().filter(|(_, node)| node.is("DequantizeLinear"));
    pairs.filter_map(|(_, node)| Some((only_output(node)?, read_steps(graph, node)?))).collect()
}

fn read_steps(graph: &Graph, dequantize: &Node) -> Option<Steps> {
    let quantized = dequantize.input(0)?;
    let quantize = producer(graph, quantized, "QuantizeLinear")?;
    let x = quantize.input(0)?;
    let parameter = |node: &Node, index: usize| match node.input(index) {
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
pub(super) fn dequantize_before<'a>(graph: &'a Graph, node: &Node, index: usize) -> Option<&'a Node> {
    producer(graph, node.input(index)?, "DequantizeLinear")
}

/// Returns input `index` of a node if it is a constant.
pub(super) fn constant_input<'a>(graph: &'a Graph, node: &Node, index: usize) -> Option<&'a Tensor> {
    graph.value(node.input(index)?).constant.as_ref()
}

/// Whether the operator moves or selects elements of its first input.
pub(super) fn is_move(node: &Node) -> bool {
    let moves = matches!(op::access(node), Access::View | Access::Selection) || node.is("Identity");
    moves && node.outputs.len() == 1
}

/// Returns what is known of a value, or of one whose elements it consists of.
pub(super) fn of_source<T>(graph: &Graph, value: ValueId, known: impl Fn(ValueId) -> Option<T>) -> Option<T> {
    let mut value = value;
    for _ in 0..=MAX_MOVES {
        if let Some(found) = known(value) {
            return Some(found);
        }
        let producer = graph.producer(value).filter(|node| is_move(node))?;
        value = producer.input(0)?;
    }
    None
}
