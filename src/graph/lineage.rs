//! Lineage: which nodes do the work of the model's nodes.

use std::collections::{BTreeMap, BTreeSet};

use super::{Graph, Node, NodeId, ValueId};
use crate::common::index::{IndexLists, IndexSet};

/// The record of rewritings. `Graph` maintains it when nodes are replaced, removed and bypassed.
#[derive(Clone, Debug, Default)]
pub(super) struct Lineage {
    /// Nodes, and those whose work they took over.
    taken: Vec<(NodeId, NodeId)>,
    /// Values that removed nodes read: nodes that only they needed are part of their work.
    read: Vec<(ValueId, NodeId)>,
    /// Values that nodes computed which were removed for lack of readers.
    computed: Vec<(ValueId, NodeId)>,
}

impl Lineage {
    /// Records that a node replaces another, or computes its results.
    pub fn take(&mut self, by: NodeId, of: NodeId) {
        self.taken.push((by, of));
    }

    /// Records that a node which read these values was removed.
    pub fn leave(&mut self, gone: NodeId, reads: impl Iterator<Item = ValueId>) {
        self.read.extend(reads.map(|value| (value, gone)));
    }

    /// Records that a node without readers was removed: the former readers do its work too.
    pub fn remove(&mut self, gone: NodeId, node: &Node) {
        self.computed.extend(node.outputs.iter().flatten().map(|output| (*output, gone)));
    }
}

/// The most nodes that are looked at for each of many: chains of them would take the square of the time.
const NEAREST: usize = 64;

/// The lineage of all nodes of a graph.
#[derive(Debug)]
pub(crate) struct Ancestry {
    taken: BTreeMap<NodeId, BTreeSet<NodeId>>,
}

impl Ancestry {
    /// Returns all nodes whose work a node does, including itself.
    pub fn of(&self, node: NodeId) -> BTreeSet<NodeId> {
        let mut found = BTreeSet::new();
        self.visit(node, |id| found.insert(id), usize::MAX, |_, _| ());
        found
    }

    /// Returns nodes whose work a node does, including itself, the nearest first and not many.
    pub fn nearest(&self, node: NodeId) -> Vec<NodeId> {
        let mut found = BTreeSet::new();
        self.visit(node, |id| found.insert(id), NEAREST, |_, _| ())
    }

    /// Adds all nodes whose work a node does to `found`, including itself, and calls `visit` with each and
    /// the node that does its work directly. Those that are in `found` are not followed. Returns the added
    /// ones.
    pub fn reach(
        &self,
        node: NodeId,
        found: &mut IndexSet<NodeId>,
        visit: impl FnMut(NodeId, NodeId),
    ) -> Vec<NodeId> {
        self.visit(node, |id| found.insert(id), usize::MAX, visit)
    }

    fn visit(
        &self,
        node: NodeId,
        mut is_new: impl FnMut(NodeId) -> bool,
        most: usize,
        mut visit: impl FnMut(NodeId, NodeId),
    ) -> Vec<NodeId> {
        let mut added = Vec::new();
        if is_new(node) {
            added.push(node);
        }
        let mut at = 0;
        while let Some(by) = added.get(at).copied() {
            for of in self.taken.get(&by).into_iter().flatten() {
                visit(by, *of);
                if added.len() < most && is_new(*of) {
                    added.push(*of);
                }
            }
            at += 1;
        }
        added
    }
}

impl Graph {
    /// Returns the recorded lineage of all nodes.
    pub(crate) fn ancestry(&self) -> Ancestry {
        let mut taken: BTreeMap<NodeId, BTreeSet<NodeId>> = BTreeMap::new();
        let Lineage { taken: noted, read, computed } = &self.lineage;
        let readers = IndexLists::of(read.iter().copied());
        let needed = computed.iter().flat_map(|(value, of)| readers.get(*value).iter().map(|by| (*by, *of)));
        for (by, of) in noted.iter().copied().chain(needed) {
            taken.entry(by).or_default().insert(of);
        }
        Ancestry { taken }
    }
}

#[cfg(test)]
mod tests {
    use smallvec::smallvec;

    use super::*;
    use crate::common::index::IndexMap;
    use crate::graph::Value;
    use crate::pass::dead::remove_dead_nodes;

    /// Returns a chain of nodes with one input and one output each.
    fn chain(len: usize) -> (Graph, Vec<NodeId>, Vec<ValueId>) {
        let mut graph = Graph::default();
        let values: Vec<ValueId> = (0..=len).map(|_| graph.add_value(Value::default())).collect();
        let nodes = values.windows(2).map(|pair| graph.add_node(node(pair[0], pair[1]))).collect();
        graph.inputs.extend(values.first());
        graph.outputs.extend(values.last());
        (graph, nodes, values)
    }

    fn node(from: ValueId, to: ValueId) -> Node {
        Node { inputs: smallvec![Some(from)], outputs: smallvec![Some(to)], ..Node::default() }
    }

    /// Returns the nodes of a chain whose work the last node of the graph does.
    fn work(graph: &Graph, nodes: &[NodeId]) -> Vec<usize> {
        let last = *graph.node_ids().last().unwrap();
        let done = graph.ancestry().of(last);
        (0..nodes.len()).filter(|index| done.contains(&nodes[*index])).collect()
    }

    /// Replaces a node.
    fn replace(graph: &mut Graph, old: NodeId, new: Vec<Node>) {
        let mut new = Some(new);
        graph.rewrite_nodes(|_, id| Ok((id == old).then(|| new.take().unwrap()))).unwrap();
    }

    #[test]
    fn a_fused_node_does_the_work_of_the_pattern() {
        let (mut graph, nodes, values) = chain(4);
        // The last three become one node, and that one becomes two.
        replace(&mut graph, nodes[3], vec![node(values[1], values[4])]);
        remove_dead_nodes(&mut graph);
        assert_eq!(work(&graph, &nodes), [1, 2, 3]);
        let between = graph.add_value(Value::default());
        let made = graph.value(values[4]).producer.unwrap();
        replace(&mut graph, made, vec![node(values[1], between), node(between, values[4])]);
        assert_eq!(work(&graph, &nodes), [1, 2, 3]);
        let first = graph.ancestry().of(graph.value(between).producer.unwrap());
        assert!(nodes[1..].iter().all(|id| first.contains(id)) && !first.contains(&nodes[0]));
    }

    #[test]
    fn shared_values_are_not_part_of_the_work() {
        let (mut graph, nodes, values) = chain(3);
        graph.outputs.insert(0, values[2]);
        replace(&mut graph, nodes[2], vec![node(values[0], values[3])]);
        remove_dead_nodes(&mut graph);
        assert_eq!(work(&graph, &nodes), [2]);
    }

    #[test]
    fn bypassed_nodes_are_the_work_of_the_producer() {
        let (mut graph, nodes, values) = chain(3);
        graph.redirect(&IndexMap::from_iter([(values[2], values[1])]));
        remove_dead_nodes(&mut graph);
        assert_eq!(work(&graph, &nodes), [2]);
        let done = graph.ancestry().of(nodes[0]);
        assert!(done.contains(&nodes[1]));
    }
}
