//! The values between a part and the rest of a graph.

use std::collections::BTreeSet;

use super::flow::{Flow, Near};
use super::part::{MAX_VALUES, Parts};
use super::vertices::Vertices;
use crate::common::index::IndexSet;
use crate::graph::{Node, NodeId, ValueId};
use crate::op::{self, Access};

/// The most ends of a part that are its outputs, if fewer values would do.
const FEW_VALUES: usize = 4;

impl Parts {
    /// Returns the outputs of a part: its ends, if that are few values, otherwise the fewest values that
    /// separate the weights from the ends, the last ones. Outputs of the graph that are computed without
    /// weights are outputs, too.
    pub(super) fn outputs(
        &self,
        nodes: &IndexSet<NodeId>,
        ends: &[ValueId],
        is_heavy: impl Fn(&NodeId) -> bool,
        is_available: impl Fn(ValueId) -> bool,
    ) -> Option<Vec<ValueId>> {
        let weights: BTreeSet<NodeId> = nodes.iter().filter(is_heavy).collect();
        let all = weights.iter().copied().chain(self.makers(nodes, ends)).collect();
        let depends =
            |id: ValueId| self.before(&[id], &is_available).iter().any(|node| weights.contains(&node));
        let cut = self
            .last_values(nodes, &all, ends, FEW_VALUES, &is_available)
            .filter(|cut| cut.iter().all(|id| depends(*id)));
        let cut = cut.or_else(|| self.last_values(nodes, &weights, ends, MAX_VALUES, &is_available))?;
        // The outputs of the model are in its order.
        let listed = self.graph.outputs.iter().copied();
        let listed =
            listed.filter(|id| cut.contains(id) || (ends.contains(id) && self.fits(*id) && !depends(*id)));
        let mut outputs: Vec<ValueId> = listed.collect();
        outputs.extend(cut.iter().filter(|id| !self.graph.outputs.contains(id)));
        (!cut.is_empty()).then_some(outputs)
    }

    /// Returns the nodes that compute the ends of a part. If an end cannot be an output of a net, or has the
    /// elements of its input, the nodes that compute its inputs replace its node.
    fn makers(&self, nodes: &IndexSet<NodeId>, ends: &[ValueId]) -> BTreeSet<NodeId> {
        let (mut found, mut seen, mut stack) = (BTreeSet::new(), IndexSet::default(), ends.to_vec());
        while let Some(value) = stack.pop() {
            let producer = self.graph.value(value).producer.filter(|id| nodes.contains(*id));
            let Some((id, node)) = producer.and_then(|id| Some((id, self.graph.node(id)?))) else { continue };
            if !seen.insert(id) {
                continue;
            }
            let computed: Vec<ValueId> = node.reads().filter(|id| self.is_data(*id)).collect();
            if computed.is_empty() || self.fits(value) && !self.has_same_elements(node) {
                found.insert(id);
            } else {
                stack.extend(computed);
            }
        }
        found
    }

    /// Returns whether the result of a node has the elements of its first input.
    fn has_same_elements(&self, node: &Node) -> bool {
        let dtype = |id: Option<ValueId>| id.and_then(|id| self.inferred.value(id).dtype);
        let is_copy = node.is("Identity") || node.is("Cast") && dtype(node.input(0)) == dtype(node.output(0));
        is_copy || op::access(node) == Access::View
    }

    /// Returns the fewest values that separate some nodes from the ends of a part, the last ones.
    fn last_values(
        &self,
        nodes: &IndexSet<NodeId>,
        from: &BTreeSet<NodeId>,
        ends: &[ValueId],
        most: usize,
        is_available: impl Fn(ValueId) -> bool,
    ) -> Option<Vec<ValueId>> {
        let mut net = Vertices::of(self, nodes, is_available, |id| self.fits(id));
        for id in from {
            let node = net.node(*id);
            net.flow.arc(Flow::SOURCE, node);
        }
        for end in ends {
            if let Some((_, from)) = net.values.get(*end) {
                net.flow.arc(*from, Flow::SINK);
            }
        }
        net.cut(most, Near::Sink)
    }

    /// Returns the fewest values that separate the results of failed nodes from the weights and the outputs,
    /// the first ones.
    pub(super) fn inputs(
        &self,
        nodes: &IndexSet<NodeId>,
        outputs: &[ValueId],
        is_heavy: impl Fn(&NodeId) -> bool,
        is_available: impl Fn(ValueId) -> bool,
    ) -> Option<Vec<ValueId>> {
        let is_known = |id: ValueId| self.fits(id) && self.is_known(id);
        let mut net = Vertices::of(self, nodes, |_| false, is_known);
        let available: Vec<ValueId> =
            net.values.iter().map(|(id, _)| id).filter(|id| is_available(*id)).collect();
        for (to, _) in available.iter().filter_map(|id| net.values.get(*id).copied()).collect::<Vec<_>>() {
            net.flow.arc(Flow::SOURCE, to);
        }
        let last = outputs.iter().filter_map(|id| self.graph.value(*id).producer);
        let ends: BTreeSet<NodeId> = nodes.iter().filter(is_heavy).chain(last).collect();
        for id in ends {
            let node = net.node(id);
            net.flow.arc(node, Flow::SINK);
        }
        net.cut(MAX_VALUES, Near::Source)
    }

    /// Adds the inputs of the graph that the nodes read, before others.
    pub(super) fn with_graph_inputs(&self, nodes: &IndexSet<NodeId>, inputs: Vec<ValueId>) -> Vec<ValueId> {
        let read: IndexSet<ValueId> =
            nodes.iter().filter_map(|id| self.graph.node(id)).flat_map(Node::reads).collect();
        let listed = self.graph.inputs.iter().copied().filter(|id| read.contains(*id));
        listed.chain(inputs).collect()
    }
}
