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
    let required =
        |node: &Node| op::find(node).map_or(usize::MAX, |op| op.schema.required_outputs(node.version));
    let optional = |node: &Node| {
        let first = required(node);
        node.outputs.iter().skip(first).any(unread).then_some(first)
    };
    let found: Vec<(NodeId, usize)> =
        graph.nodes().filter_map(|(id, node)| Some((id, optional(node)?))).collect();
    for (id, first) in found {
        let Some(node) = graph.node_mut(id) else { continue };
        for output in node.outputs.iter_mut().skip(first).filter(|output| unread(output)) {
            *output = None;
        }
    }
}

/// Removes outputs after the first one that are not read, also those that ONNX requires.
pub fn remove_unread_outputs(graph: &mut Graph) {
    let mut read: IndexSet<ValueId> = graph.outputs.iter().chain(&graph.kept).copied().collect();
    graph.nodes().for_each(|(_, node)| read.extend(node.reads()));
    let is_unread = |output: &Option<ValueId>| output.is_some_and(|output| !read.contains(output));
    let nodes = graph.nodes().filter(|(_, node)| node.outputs.iter().skip(1).any(is_unread));
    for id in nodes.map(|(id, _)| id).collect::<Vec<_>>() {
        let outputs = graph.node_mut(id).into_iter().flat_map(|node| node.outputs.iter_mut().skip(1));
        outputs.filter(|output| is_unread(output)).for_each(|output| *output = None);
    }
}
