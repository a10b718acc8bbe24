//! Removal of nodes whose outputs are not read.

use crate::common::index::IndexSet;
use crate::graph::{Graph, Node, NodeId, ValueId};
use crate::op;

/// Removes nodes on which neither an output of the graph nor a kept value depends, and optional outputs that
/// are not read.
pub fn remove_dead_nodes(graph: &mut Graph) {
    // The outputs of an unknown operator may be required.
    remove_dead(graph, |node| {
        op::find(node).map_or(usize::MAX, |op| op.schema.required_outputs(node.version))
    });
}

/// Removes dead nodes, and outputs after the first one that are not read, although ONNX may require them.
pub fn remove_unread_outputs(graph: &mut Graph) {
    remove_dead(graph, |_| 1);
}

/// Removes dead nodes, and unread outputs of the others from the index that `first` returns on.
fn remove_dead(graph: &mut Graph, first: impl Fn(&Node) -> usize) {
    let mut needed: IndexSet<ValueId> = graph.outputs.iter().chain(&graph.kept).copied().collect();
    let mut dead = IndexSet::default();
    let ids = graph.node_ids();
    for id in ids.iter().rev() {
        let Some(node) = graph.node(*id) else { continue };
        if node.outputs.iter().flatten().any(|output| needed.contains(*output)) {
            needed.extend(node.reads());
        } else {
            dead.insert(*id);
        }
    }
    graph.remove_nodes(&dead);
    let unread = |output: &Option<ValueId>| output.is_some_and(|output| !needed.contains(output));
    let removable = |node: &Node| {
        let first = first(node);
        node.outputs.iter().skip(first).any(unread).then_some(first)
    };
    let found: Vec<(NodeId, usize)> =
        graph.nodes().filter_map(|(id, node)| Some((id, removable(node)?))).collect();
    for (id, first) in found {
        let Some(node) = graph.node_mut(id) else { continue };
        for output in node.outputs.iter_mut().skip(first).filter(|output| unread(output)) {
            *output = None;
        }
    }
}
