//! Sums of squares under roots and logarithms: spectra of sound, variances. Half precision represents neither the
//! largest nor the smallest of them, nor the difference of two.

use crate::common::index::IndexSet;
use crate::graph::{Graph, Node, ValueId};
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
        if op.squares.is_some_and(|holds| holds(graph, node)) || come_from(&energies) {
            energies.extend(outputs());
        } else if matches!(op.access, Access::Reduction) || come_from(&totals) {
            totals.extend(outputs());
        }
        if op.takes_energies {
            pending.extend(computed_floats(graph, node).filter(|id| energies.contains(*id)));
        }
    }
    let mut found = IndexSet::default();
    while let Some(id) = pending.pop() {
        if found.insert(id) && (energies.contains(id) || totals.contains(id)) {
            let producer = graph.value(id).producer.and_then(|node| graph.node(node));
            pending.extend(producer.into_iter().flat_map(|node| computed_floats(graph, node)));
        }
    }
    found
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
