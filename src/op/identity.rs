//! Shared identity rules: conditions under which a node forwards an input unchanged.

use crate::common::limits;
use crate::graph::{Graph, Node, ValueId};

/// Returns the first input.
pub(crate) fn first(_: &Graph, node: &Node) -> Option<ValueId> {
    node.input(0)
}

/// Returns the first input, if it is the only one.
pub(crate) fn only_input(_: &Graph, node: &Node) -> Option<ValueId> {
    node.input(0).filter(|_| node.inputs.len() == 1)
}

/// Returns the first input, if the output has its shape: for operators that change elements only together
/// with the shape.
pub(crate) fn same_shape(graph: &Graph, node: &Node) -> Option<ValueId> {
    node.input(0).filter(|input| is_as_output(graph, node, *input))
}

/// Returns whether a value has the shape of the output.
pub(crate) fn is_as_output(graph: &Graph, node: &Node, value: ValueId) -> bool {
    let Some(output) = node.output(0) else { return false };
    let shape = &graph.value(value).shape;
    shape.is_some() && *shape == graph.value(output).shape
}

/// Returns whether a value is a small constant whose elements all equal `number`.
pub(crate) fn is_filled_with(graph: &Graph, value: ValueId, number: f64) -> bool {
    let Some(tensor) = &graph.value(value).constant else { return false };
    if tensor.len() > limits::LOOKED_AT || tensor.is_deferred() {
        return false;
    }
    tensor.load_listed().is_ok_and(|array| array.all_numbers(|element| element == number))
}

/// Returns input `index` if it is not broadcast and all elements of the other one equal `number`.
pub(crate) fn paired_with(graph: &Graph, node: &Node, index: usize, number: f64) -> Option<ValueId> {
    let (value, other) = (node.input(index)?, node.input(1 - index.min(1))?);
    Some(value).filter(|value| is_as_output(graph, node, *value) && is_filled_with(graph, other, number))
}

/// Returns either input as [`paired_with`] does.
pub(crate) fn either_paired_with(graph: &Graph, node: &Node, number: f64) -> Option<ValueId> {
    paired_with(graph, node, 0, number).or_else(|| paired_with(graph, node, 1, number))
}
