//! Replacement and removal of nodes, and redirection of their inputs. Each edit records the lineage.

use std::collections::BTreeSet;

use super::{Cache, Graph, Node, NodeId, ValueId};
use crate::common::index::{Index, IndexMap, IndexSet};
use crate::error::Result;

impl Graph {
    /// Removes a node whose work other nodes do.
    fn replace_in_order(&mut self, old: NodeId, new: &[NodeId]) {
        self.cache = Cache::default();
        let Some(node) = self.nodes.get_mut(old.index()).and_then(Option::take) else { return };
        self.lineage.leave(old, node.reads());
        // One node may compute the results of several removed ones.
        let elsewhere = node.outputs.iter().flatten().filter_map(|output| self.value(*output).producer);
        let by: BTreeSet<NodeId> = new.iter().copied().chain(elsewhere).filter(|id| *id != old).collect();
        for id in by {
            self.lineage.take(id, old);
        }
    }

    /// Replaces the list of nodes by the replacements that `make` returns for each node in order. Nodes
    /// without a name get the location of the replaced node.
    pub fn rewrite_nodes(
        &mut self,
        mut make: impl FnMut(&mut Graph, NodeId) -> Result<Option<Vec<Node>>>,
    ) -> Result<()> {
        // The new order, once it differs.
        let mut changed: Option<Vec<NodeId>> = None;
        let mut position = 0;
        while let Some(id) = self.order.get(position).copied() {
            let index = self.node(id).map_or(0, |node| node.index);
            match (make(self, id)?, &mut changed) {
                (None, None) => {}
                (None, Some(order)) => order.push(id),
                (Some(mut nodes), _) => {
                    for node in nodes.iter_mut().filter(|node| node.name.is_empty()) {
                        node.index = index;
                    }
                    let made: Vec<NodeId> = nodes.into_iter().map(|node| self.new_node(node)).collect();
                    self.replace_in_order(id, &made);
                    let before = || self.order.iter().take(position).copied().collect();
                    changed.get_or_insert_with(before).extend(made);
                }
            }
            position += 1;
        }
        if let Some(order) = changed {
            self.order = order;
        }
        Ok(())
    }

    /// Replaces each node that `find` matches by the nodes that `make` returns, and returns whether there
    /// were any. Earlier nodes are already replaced when `find` reads the graph.
    pub fn replace_nodes<T>(
        &mut self,
        mut find: impl FnMut(&Graph, &Node) -> Option<T>,
        mut make: impl FnMut(&mut Graph, &Node, T) -> Result<Option<Vec<Node>>>,
    ) -> Result<bool> {
        let mut changed = false;
        self.rewrite_nodes(|graph, id| {
            let Some(node) = graph.node(id) else { return Ok(None) };
            let Some(found) = find(graph, node) else { return Ok(None) };
            let made = make(graph, &node.clone(), found)?;
            changed |= made.is_some();
            Ok(made)
        })?;
        Ok(changed)
    }

    /// Replaces nodes that were found before, and returns whether there are any.
    pub fn replace_found(&mut self, mut found: IndexMap<NodeId, Vec<Node>>) -> Result<bool> {
        if found.is_empty() {
            return Ok(false);
        }
        self.rewrite_nodes(|_, id| Ok(found.remove(id)))?;
        Ok(true)
    }

    /// Removes nodes; their outputs have no producer any more.
    pub(crate) fn remove_nodes(&mut self, removed: &IndexSet<NodeId>) {
        if removed.is_empty() {
            return;
        }
        self.cache = Cache::default();
        for id in removed.iter() {
            if let Some(node) = self.nodes.get(id.index()).and_then(Option::as_ref) {
                self.lineage.leave(id, node.reads());
            }
        }
        for id in removed.iter() {
            let Some(node) = self.nodes.get_mut(id.index()).and_then(Option::take) else { continue };
            self.lineage.remove(id, &node);
            for output in node.outputs.iter().flatten() {
                if let Some(value) = self.values.get_mut(output.index())
                    && value.producer == Some(id)
                {
                    value.producer = None;
                }
            }
        }
        self.order.retain(|id| !removed.contains(*id));
    }

    /// Redirects every reader of a key of `map` to its value; graph outputs stay.
    pub(crate) fn redirect(&mut self, map: &IndexMap<ValueId, ValueId>) {
        if map.is_empty() {
            return;
        }
        self.cache = Cache::default();
        // Each step goes to an earlier value, so a chain ends; one walk finds the ends of all chains.
        let mut ends: IndexMap<ValueId, ValueId> = IndexMap::default();
        for (from, _) in map.iter() {
            let (mut id, mut walked) = (from, Vec::new());
            // The bound guards against a cycle.
            while let (Some(next), true) = (map.get(id), walked.len() < map.len()) {
                walked.push(id);
                id = *next;
                if let Some(end) = ends.get(id) {
                    id = *end;
                    break;
                }
            }
            ends.extend(walked.into_iter().map(|passed| (passed, id)));
        }
        let follow = |id: ValueId| ends.get(id).copied().unwrap_or(id);
        for (from, _) in map.iter() {
            if let (Some(of), Some(by)) = (self.value(from).producer, self.value(follow(from)).producer) {
                self.lineage.take(by, of);
            }
        }
        for id in &self.order {
            let Some(node) = self.nodes.get_mut(id.index()).and_then(Option::as_mut) else { continue };
            for input in node.inputs.iter_mut().flatten() {
                *input = follow(*input);
            }
            for capture in node.bodies_mut().flat_map(|body| &mut body.captures) {
                capture.outer = follow(capture.outer);
            }
        }
    }
}
