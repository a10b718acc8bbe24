//! Sums of squares under roots and logarithms: spectra of sound, variances. Half precision represents neither the
//! largest nor the smallest of them, nor the difference of two.

use crate::common::index::IndexSet;
use crate::graph::{Graph, Node, ValueId};
use crate::op::identity::is_filled_with;
use crate::op::{self, Access, Op};

/// Returns the values from which roots and logarithms of sums of squares are computed, back to the values that are
/// squared.
pub(super) fn energies(graph: &Graph) -> IndexSet<ValueId> {
    // Sums of squares, and results of reductions, such as a mean whose square is subtracted from that of squares.
    let (mut energies, mut totals) = (IndexSet::default(), IndexSet::default());
    let mut pending = Vec::new();
    for (_, node) in graph.nodes() {
        let Some(op) = op::find(node) else { continue };
        let outputs = || node.outputs.iter().flatten().copied();
        let come_from = |set: &IndexSet<ValueId>| {
            let mut inputs = computed_floats(graph, node).peekable();
            keeps_energies(op) && inputs.peek().is_some() && inputs.all(|id| set.contains(id))
        };
        if is_square(graph, node) || come_from(&energies) {
            energies.extend(outputs());
        } else if matches!(op.access, Access::Reduction) || come_from(&totals) {
            totals.extend(outputs());
        }
        // Their results are of ordinary magnitude even for energies that half precision does not represent.
        if node.is("Log") || node.is("Sqrt") {
            pending.extend(computed_floats(graph, node).filter(|id| energies.contains(*id)));
        }
    }
    let mut found = IndexSet::default();
    while let Some(id) = pending.pop() {
        if found.insert(id) && (energies.contains(id) || totals.contains(id)) {
            let producer = graph.producer(id);
            pending.extend(producer.into_iter().flat_map(|node| computed_floats(graph, node)));
        }
    }
    found
}

/// Returns whether a node computes the square of its first input.
pub(crate) fn is_square(graph: &Graph, node: &Node) -> bool {
    let is_scalar = |value| graph.value(value).constant.as_ref().is_some_and(|tensor| tensor.len() == 1);
    match node.inputs.as_slice() {
        [a, b] if node.is("Mul") => a == b,
        [_, Some(by)] => node.is("Pow") && is_scalar(*by) && is_filled_with(graph, *by, 2.0),
        _ => false,
    }
}

/// Returns the float inputs of a node that are not constants.
fn computed_floats<'a>(graph: &'a Graph, node: &'a Node) -> impl Iterator<Item = ValueId> + 'a {
    node.inputs.iter().flatten().copied().filter(|id| {
        let value = graph.value(*id);
        value.constant.is_none() && value.dtype.is_some_and(|dtype| dtype.is_float())
    })
}

/// Returns whether the results of an operator on energies are energies: sums, products, moves, and functions of an
/// element.
fn keeps_energies(op: &Op) -> bool {
    let is_by_element = matches!(
        op.access,
        Access::Elementwise | Access::Broadcast | Access::View | Access::Selection | Access::Reduction
    );
    is_by_element || op.multiply_adds.is_some()
}
