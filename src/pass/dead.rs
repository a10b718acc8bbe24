//! Removes nodes whose outputs nobody reads.

use crate::common::index::IndexSet;
use crate::graph::{Graph, Node, NodeId, ValueId};
use crate::op;

/// Keeps what the graph's outputs need, and what is to be kept; also takes away optional outputs that nobody reads.
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
    // Which outputs of an operator that is not known are optional is not known either.
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
