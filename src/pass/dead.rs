//! Removal of nodes whose outputs are not read.

use crate::common::index::IndexSet;
use crate::graph::{Graph, Node, NodeId, ValueId};
use crate::op;

/// Removes nodes on which neither an output of the graph nor a kept value depends, and optional outputs that
/// are not read.
pub fn remove_dead_nodes(graph: &mut Graph) {
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
    // The outputs of an unknown operator may be required.
    let has_more =
        |node: &Node| node.outputs.iter().any(unread) && op::find(node).is_some_and(|op| !op.variadic);
    let found: Vec<NodeId> = graph.nodes().filter(|(_, node)| has_more(node)).map(|(id, _)| id).collect();
    for id in found {
        let Some(node) = graph.node_mut(id) else { continue };
        for output in node.outputs.iter_mut().filter(|output| unread(output)) {
            *output = None;
        }
    }
}
