//! Topological order of the nodes.

use std::collections::BTreeSet;

use super::{Cache, Graph, NodeId};
use crate::common::index::{IndexLists, IndexMap, IndexSet};
use crate::error::{Error, Result};

impl Graph {
    /// Returns whether each node comes after the producers of its inputs.
    fn is_sorted(&self) -> bool {
        let mut passed: IndexSet<NodeId> = IndexSet::default();
        self.nodes().all(|(id, node)| {
            let mut producers = node.reads().filter_map(|value| self.value(value).producer);
            let follows = producers.all(|producer| passed.contains(producer));
            passed.insert(id);
            follows
        })
    }

    /// Sorts the nodes topologically, and otherwise keeps their order.
    pub fn sort_nodes(&mut self) -> Result<()> {
        // The usual case.
        if self.is_sorted() {
            return Ok(());
        }
        self.cache = Cache::default();
        let indices: IndexMap<NodeId, usize> =
            self.order.iter().enumerate().map(|(i, id)| (*id, i)).collect();
        let mut needs: BTreeSet<(NodeId, NodeId)> = BTreeSet::new();
        for (id, node) in self.nodes() {
            let producers = node.reads().filter_map(|value| self.value(value).producer);
            needs.extend(producers.map(|producer| (producer, id)));
        }
        let readers = IndexLists::of(needs.iter().copied());
        let mut waiting: IndexMap<NodeId, usize> = self.order.iter().map(|id| (*id, 0)).collect();
        for (_, reader) in &needs {
            if let Some(count) = waiting.get_mut(*reader) {
                *count += 1;
            }
        }
        let keyed = |id: NodeId| (indices.get(id).copied().unwrap_or(0), id);
        let is_free = |id: &NodeId| waiting.get(*id) == Some(&0);
        let mut ready: BTreeSet<(usize, NodeId)> =
            self.order.iter().copied().filter(is_free).map(keyed).collect();
        let mut order = Vec::with_capacity(self.order.len());
        while let Some((_, id)) = ready.pop_first() {
            order.push(id);
            for reader in readers.get(id) {
                if let Some(count) = waiting.get_mut(*reader) {
                    *count -= 1;
                    if *count == 0 {
                        ready.insert(keyed(*reader));
                    }
                }
            }
        }
        if order.len() != self.order.len() {
            let stuck = self.nodes().find(|(id, _)| waiting.get(*id).is_some_and(|count| *count > 0));
            let error = Error::invalid("the node depends on its own output");
            return Err(match stuck {
                Some((_, node)) => error.at_node(|| node.at()),
                None => error,
            });
        }
        self.order = order;
        Ok(())
    }
}
