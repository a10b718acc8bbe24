//! The values that half precision does not represent: integers beyond those of bfloat16, magnitudes beyond
//! those of float16, coordinates, compared inputs, angles of positions, and sums of squares under roots and
//! logarithms.

use super::energy::{computed_floats, energies};
use crate::common::index::IndexSet;
use crate::graph::{Graph, Node, ValueId};
use crate::ncnn::LARGEST_HALF;
use crate::op::{self, Access, Call, Op, range};
use crate::tensor::{DType, Range, Tensor};

/// The integers that bfloat16 and float16 represent.
const EXACT_INTEGERS: Range = Range { least: -256.0, most: 256.0 };

/// Returns the values of a graph that half precision does not represent.
pub(super) fn precise_values(graph: &Graph) -> IndexSet<ValueId> {
    let mut found = IndexSet::default();
    for id in graph.variable_inputs() {
        if is_large_integer(graph, id) {
            found.insert(id);
        }
    }
    let is_float = |id: &ValueId| graph.value(*id).dtype.is_some_and(DType::is_float);
    let is_int = |id: &ValueId| graph.value(*id).dtype.is_some_and(DType::is_int);
    let mut coordinates = Vec::new();
    // Floats that are computed only from integers, such as the positions of tokens times frequencies.
    let mut positions = IndexSet::default();
    // What is computed from inputs of the network, element by element.
    let mut from_inputs: IndexSet<ValueId> = graph.variable_inputs().into_iter().collect();
    for (_, node) in graph.nodes() {
        let Some((op, call)) = Call::of(graph, node) else { continue };
        // The bounds of a Slice are not elements of its result.
        let is_large = |id: &ValueId| match &graph.value(*id).constant {
            _ if !is_float(id) => false,
            Some(tensor) => exceeds_half(tensor),
            None => found.contains(*id),
        };
        let handed = keeps_magnitude(op) && node.inputs.iter().flatten().any(is_large);
        for output in node.outputs.iter().flatten().copied() {
            let is_large = || handed || introduces_large(graph, node, output);
            if is_float(&output) && is_large() || is_large_integer(graph, output) {
                found.insert(output);
            }
        }
        // A rounding error of a float may change an integer that is computed from it.
        let is_rounded = matches!(op.access, Access::Elementwise | Access::Broadcast)
            && node.outputs.iter().flatten().any(is_int);
        // A rounding error of an input may change the result of its comparison.
        let compares = matches!(op.access, Access::Broadcast)
            && node.outputs.iter().flatten().all(|id| graph.value(*id).dtype == Some(DType::Bool));
        let is_position = |id: &ValueId| positions.contains(*id) || is_int(id);
        let needs_digits = |index| {
            let is_angle =
                || node.is_one_of(&["Cos", "Sin", "Tan"]) && node.inputs.iter().flatten().all(is_position);
            let is_from_inputs = || node.input(index).is_some_and(|id| from_inputs.contains(id));
            is_rounded
                || is_angle()
                || compares && is_from_inputs()
                || op.precise.is_some_and(|rule| rule(&call, index))
        };
        let inputs = node.inputs.iter().enumerate().filter(|(index, _)| needs_digits(*index));
        coordinates.extend(inputs.filter_map(|(_, input)| *input));
        let mut computed =
            node.inputs.iter().flatten().filter(|id| graph.value(**id).constant.is_none()).peekable();
        // Rows of a table are not positions.
        let is_table = call.constant(0).is_some() && matches!(op.access, Access::Selection);
        if computed.peek().is_some() && !is_table && computed.all(is_position) {
            positions.extend(node.outputs.iter().flatten().copied().filter(is_float));
        }
        let is_by_element = !matches!(op.access, Access::Any | Access::Reduction);
        if is_by_element && computed_floats(graph, node).all(|id| from_inputs.contains(id)) {
            from_inputs.extend(node.outputs.iter().flatten().copied());
        }
    }
    // Coordinates are as exact as the values from which they are computed, element by element; angles of
    // positions also by products of matrices.
    while let Some(id) = coordinates.pop() {
        let value = graph.value(id);
        if value.constant.is_some() || !is_float(&id) || !found.insert(id) {
            continue;
        }
        let producer = value.producer.and_then(|node| graph.node(node));
        let is_traced = |node: &&Node| !matches!(op::access(node), Access::Any) || positions.contains(id);
        if let Some(node) = producer.filter(is_traced) {
            coordinates.extend(node.inputs.iter().flatten());
        }
    }
    found.extend(energies(graph).iter());
    found
}

/// Returns whether the layers of a node compute in float32.
pub(super) fn is_float32(call: &Call, precise: &IndexSet<ValueId>) -> bool {
    let graph = call.graph();
    let Node { inputs, outputs, .. } = call.node();
    let is_precise = |id: &ValueId| precise.contains(*id);
    let is_integer = |id: &ValueId| graph.value(*id).dtype.is_some_and(DType::is_int);
    outputs.iter().flatten().any(is_precise)
        || inputs.iter().flatten().any(|id| is_integer(id) && is_precise(id))
}

fn keeps_magnitude(op: &Op) -> bool {
    op.keeps_magnitude || matches!(op.access, Access::View | Access::Selection)
}

/// Returns whether a value has integers that bfloat16 may not represent.
fn is_large_integer(graph: &Graph, id: ValueId) -> bool {
    let value = graph.value(id);
    value.dtype.is_some_and(DType::is_int)
        && value.elements.is_none()
        && !EXACT_INTEGERS.contains(range::range(graph, id))
}

/// Returns whether a result has finite numbers that are infinite in float16, as ConstantOfShape makes them,
/// or where a node makes infinities finite.
fn introduces_large(graph: &Graph, node: &Node, output: ValueId) -> bool {
    let (range, most) = (range::range(graph, output), f64::from(LARGEST_HALF));
    if !range.is_finite() || (range.least >= -most && range.most <= most) {
        return false;
    }
    let is_infinite = |id: &ValueId| {
        let is_float = graph.value(*id).dtype.is_some_and(DType::is_float);
        is_float && !range::range(graph, *id).is_finite()
    };
    range.least > most || range.most < -most || node.inputs.iter().flatten().any(is_infinite)
}

/// Returns whether a constant has a finite element that is infinite in float16, as far as its elements are
/// looked at.
pub(super) fn exceeds_half(tensor: &Tensor) -> bool {
    let Range { least, most } = Range::of_tensor(tensor);
    [least, most].iter().any(|bound| bound.is_finite() && bound.abs() > f64::from(LARGEST_HALF))
}
