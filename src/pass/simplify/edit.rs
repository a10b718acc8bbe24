//! Deferred replacements of nodes.

use crate::common::index::{IndexMap, IndexSet};
use crate::error::Result;
use crate::graph::{Graph, Node, NodeId};
use crate::pass::pattern::Readers;

/// Replacements of nodes. They are collected during the search for patterns and applied at the end, so that
/// the searched graph does not change.
#[derive(Debug, Default)]
pub(super) struct Edits {
    replaced: IndexMap<NodeId, Vec<Node>>,
    touched: IndexSet<NodeId>,
}

impl Edits {
    /// Returns whether none of these nodes is part of an earlier replacement.
    pub fn are_free(&self, nodes: &[NodeId]) -> bool {
        nodes.iter().all(|node| !self.touched.contains(*node))
    }

    /// Excludes nodes from further replacements.
    pub fn touch(&mut self, nodes: &[NodeId]) {
        self.touched.extend(nodes.iter().copied());
    }

    /// Replaces the last node of a pattern by `nodes`; its other nodes stay for other readers.
    pub fn replace(&mut self, pattern: &[NodeId], nodes: Vec<Node>) {
        self.touch(pattern);
        if let Some(last) = pattern.last() {
            self.replaced.insert(*last, nodes);
        }
    }

    /// Applies the replacements, and returns whether there were any.
    pub fn apply(mut self, graph: &mut Graph) -> Result<bool> {
        if self.replaced.is_empty() {
            return Ok(false);
        }
        graph.rewrite_nodes(|_, id| Ok(self.replaced.remove(id)))?;
        Ok(true)
    }
}

/// Replaces the last node of each pattern that `find` matches by the nodes that `make` returns. All patterns are found
/// before the graph changes. Returns whether there were any.
pub(super) fn replace_patterns<T>(
    graph: &mut Graph,
    find: impl Fn(&Graph, &Readers, NodeId, &Node) -> Option<(Vec<NodeId>, T)>,
    make: impl Fn(&mut Graph, T) -> Result<Option<Vec<Node>>>,
) -> Result<bool> {
    let readers = Readers::of(graph);
    let found: Vec<_> = graph.nodes().filter_map(|(id, node)| find(graph, &readers, id, node)).collect();
    let mut edits = Edits::default();
    for (pattern, parts) in found {
        if let Some(nodes) = make(graph, parts)? {
            edits.replace(&pattern, nodes);
        }
    }
    edits.apply(graph)
}

/// Replaces each node that `find` matches by the node that `make` returns. Returns whether there were any.
pub(super) fn replace_nodes<T>(
    graph: &mut Graph,
    mut find: impl FnMut(&Graph, &Node) -> Option<T>,
    make: impl Fn(&mut Graph, &Node, T) -> Result<Node>,
) -> Result<bool> {
    let found: Vec<(NodeId, T)> =
        graph.nodes().filter_map(|(id, node)| Some((id, find(graph, node)?))).collect();
    let mut edits = Edits::default();
    for (id, found) in found {
        let Some(node) = graph.node(id).cloned() else { continue };
        let made = make(graph, &node, found)?;
        edits.replace(&[id], vec![made]);
    }
    edits.apply(graph)
}
