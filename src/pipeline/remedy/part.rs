//! Parts of a graph without the nodes that cannot be converted.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use super::super::simplify::prepare;
use super::super::{Metadata, Options};
use super::expected::misleading;
use super::outline::{self, Names};
use super::weight::{is_folded, weights};
use crate::common::index::{IndexMap, IndexSet};
use crate::error::{Errors, Result};
use crate::graph::{Graph, Node, NodeId, ValueId};
use crate::onnx::{Model, Sources};
use crate::op;
use crate::tensor::DType;

/// The maximum number of values around a part: what is left out between more of them is hard to compute
/// elsewhere.
pub(super) const MAX_VALUES: usize = 16;

/// The number of values around a part from which on it counts less than a smaller part with fewer.
const MANY_VALUES: usize = 8;

/// The most divisions of the failed nodes into those before a part and those after it.
const MAX_DIVISIONS: usize = 24;

/// The part of all weights from which on constants of nodes other than products are weights: tables, not
/// offsets.
const LARGE: u64 = 100;

/// A part of a graph between two sets of values.
#[derive(Debug)]
pub(super) struct Part {
    /// The inputs of the part; empty for those of the graph.
    pub inputs: Vec<ValueId>,
    pub outputs: Vec<ValueId>,
    pub nodes: IndexSet<NodeId>,
    /// The elements of its constants, and its nodes.
    pub size: u64,
}

pub(super) fn is_text(inferred: &Graph, id: ValueId) -> bool {
    inferred.value(id).dtype == Some(DType::String)
}

/// A graph, and what is known of the conversion of its nodes.
pub(super) struct Parts {
    pub graph: Graph,
    /// The graph with inferred values, which have the same ids. Constants are folded.
    pub inferred: Graph,
    /// The names in it of sizes that depend on elements.
    pub computed_sizes: Names,
    /// The nodes that cannot be converted.
    pub failed: BTreeSet<NodeId>,
    /// Values of unknown shapes that their readers do not tell.
    pub misleading: IndexSet<ValueId>,
    /// Values that cannot be inputs or outputs of a net.
    unfit: BTreeSet<ValueId>,
    by_index: BTreeMap<usize, Vec<NodeId>>,
    names: BTreeMap<String, ValueId>,
    sizes: IndexMap<NodeId, u64>,
    /// The nodes of parts that were found before.
    counted: IndexSet<NodeId>,
    /// The size of the whole graph.
    pub total: u64,
    /// The nodes with weights; all with named results in a graph without any.
    heavy: IndexSet<NodeId>,
}

impl Parts {
    /// Reads a model as the options ask for it, and its metadata.
    pub fn read(sources: &Sources, options: &Options) -> Result<(Parts, Metadata)> {
        let Model { mut graph, metadata, .. } = sources.read()?;
        prepare(&mut graph, options)?;
        Ok((Parts::new(graph), Metadata::of(metadata)))
    }

    pub fn new(graph: Graph) -> Parts {
        let mut inferred = graph.clone();
        let computed_sizes = outline::infer(&mut inferred);
        let mut by_index: BTreeMap<usize, Vec<NodeId>> = BTreeMap::new();
        let mut sizes = IndexMap::default();
        let mut total = 0;
        for (id, node) in graph.nodes() {
            by_index.entry(node.index).or_default().push(id);
            let weights = if is_folded(&inferred, node) { 0 } else { weights(&graph, &inferred, node) };
            total += weights + 1;
            sizes.insert(id, weights + 1);
        }
        let is_product = |node: &Node| op::find(node).is_some_and(|op| op.multiply_adds.is_some());
        let nodes = graph.nodes().map(|(id, node)| (id, node, sizes.get(id).copied().unwrap_or(0)));
        let mut heavy: IndexSet<NodeId> = nodes
            .filter(|(_, node, size)| *size > 1 && (is_product(node) || *size > total / LARGE))
            .map(|(id, ..)| id)
            .collect();
        if heavy.is_empty() {
            // No value separates a node from its readers whose results have no names.
            let is_named = |id: &ValueId| !graph.value(*id).name.is_empty();
            let named = graph.nodes().filter(|(_, node)| node.outputs.iter().flatten().any(is_named));
            heavy.extend(named.map(|(id, _)| id));
        }
        let mut names = BTreeMap::new();
        for id in graph.value_ids().filter(|id| !graph.value(*id).name.is_empty()) {
            names.entry(graph.value(id).name.clone()).or_insert(id);
        }
        // No blob contains text, whatever computes it. A classifier may return labels as text with numbers.
        let is_of_text = |node: &Node| {
            node.reads().any(|id| is_text(&inferred, id))
                || node.outputs.iter().flatten().all(|id| is_text(&inferred, *id))
        };
        let failed: BTreeSet<NodeId> =
            graph.nodes().filter(|(_, node)| is_of_text(node)).map(|(id, _)| id).collect();
        let (unfit, counted) = (BTreeSet::new(), IndexSet::default());
        Parts {
            misleading: misleading(&graph, &inferred),
            graph,
            inferred,
            computed_sizes,
            failed,
            unfit,
            by_index,
            names,
            sizes,
            counted,
            total,
            heavy,
        }
    }

    /// Learns from the errors of a conversion.
    pub fn learn(&mut self, errors: &Errors) {
        for error in errors.iter() {
            match &error.at().node {
                Some(at) => {
                    let nodes = self.by_index.get(&at.index).map(Vec::as_slice).unwrap_or_default();
                    // The nodes of a function have the index of the call.
                    let is_it = |id: &&NodeId| {
                        self.graph.node(**id).is_some_and(|node| !at.name.is_empty() && node.name == at.name)
                    };
                    let named: Vec<NodeId> = nodes.iter().filter(is_it).copied().collect();
                    self.failed.extend(if named.is_empty() { nodes.to_vec() } else { named });
                }
                None => self.learn_of_value(error.at().part.as_deref().unwrap_or_default()),
            }
        }
        // Equal nodes were merged, and the error names one of them.
        let key = |node: &Node| (node.domain.clone(), node.op_type.clone(), node.inputs.clone());
        let failed: HashSet<_> = self.failed.iter().filter_map(|id| self.graph.node(*id)).map(key).collect();
        let equal: Vec<NodeId> =
            self.graph.nodes().filter(|(_, node)| failed.contains(&key(node))).map(|(id, _)| id).collect();
        self.failed.extend(equal);
    }

    /// Learns that a value cannot be an input or an output: what reads an input of the model fails.
    fn learn_of_value(&mut self, part: &str) {
        let name = part.split_once(" \"").and_then(|(_, name)| name.strip_suffix('"'));
        let Some(id) = name.and_then(|name| self.names.get(name)) else { return };
        if self.graph.inputs.contains(id) {
            self.failed.extend(self.graph.readers().get(*id));
        } else {
            self.unfit.insert(*id);
        }
    }

    /// Counts the nodes of a part as nothing, to find other parts.
    pub fn discount(&mut self, part: &Part) {
        self.counted.extend(part.nodes.iter());
    }

    /// Returns the parts around the failed nodes, the best first.
    pub fn parts(&self) -> Vec<Part> {
        let order: Vec<NodeId> =
            self.graph.nodes().map(|(id, _)| id).filter(|id| self.failed.contains(id)).collect();
        let step = order.len().div_ceil(MAX_DIVISIONS).max(1);
        let mut before: BTreeSet<usize> = (0..=order.len()).step_by(step).collect();
        before.insert(order.len());
        let available = |count| order.iter().take(count).copied().collect::<BTreeSet<NodeId>>();
        let mut parts: Vec<Part> =
            before.into_iter().filter_map(|count| self.part(&available(count))).collect();
        let worth = |part: &Part| {
            let many = part.inputs.len() + part.outputs.len() > MANY_VALUES;
            // Nobody has the results of failed nodes before an earlier part has run.
            let is_later = !part.inputs.is_empty();
            part.size >> (usize::from(many) + usize::from(is_later))
        };
        parts.sort_by_key(|part| std::cmp::Reverse(worth(part)));
        parts
    }

    /// Returns the values that there are once the nodes of `available` have been computed: their results, and
    /// those with weights from which they are computed. A part with these results is a later part of a chain:
    /// earlier weights are not in it.
    fn computed(&self, available: &BTreeSet<NodeId>) -> IndexSet<ValueId> {
        let read = available.iter().filter_map(|id| self.graph.node(*id)).flat_map(Node::reads);
        let earlier = self.before(&read.collect::<Vec<_>>(), |_| false);
        let mut computed = IndexSet::default();
        for (id, node) in self.graph.nodes().filter(|(id, _)| available.contains(id) || earlier.contains(*id))
        {
            let has_weights = self.heavy.contains(id) || node.reads().any(|value| computed.contains(value));
            if has_weights || available.contains(&id) {
                computed.extend(node.outputs.iter().flatten().copied());
            }
        }
        computed
    }

    /// Returns the values that depend on some nodes.
    fn after(&self, nodes: &BTreeSet<NodeId>) -> IndexSet<ValueId> {
        let mut after = IndexSet::default();
        for (id, node) in self.graph.nodes() {
            if nodes.contains(&id) || node.reads().any(|value| after.contains(value)) {
                after.extend(node.outputs.iter().flatten().copied());
            }
        }
        after
    }

    /// Returns the part that needs the results of the failed nodes of `available`, and nothing of the others.
    fn part(&self, available: &BTreeSet<NodeId>) -> Option<Part> {
        let is_heavy = |id: &NodeId| self.heavy.contains(*id) && !self.counted.contains(*id);
        let graph = &self.graph;
        let computed = self.computed(available);
        let mut missing: IndexSet<ValueId> = IndexSet::default();
        let mut ends: Vec<ValueId> = graph.outputs.clone();
        for (id, node) in graph.nodes().filter(|(id, _)| !available.contains(id)) {
            if self.failed.contains(&id) || node.reads().any(|value| missing.contains(value)) {
                missing.extend(node.outputs.iter().flatten().copied());
                ends.extend(node.reads());
            }
        }
        let is_available = |id: ValueId| computed.contains(id);
        let mut seen = IndexSet::default();
        ends.retain(|id| {
            let is_number = self.is_data(*id) && !is_text(&self.inferred, *id);
            let is_computed = graph.value(*id).producer.is_some() && is_number;
            is_computed && !missing.contains(*id) && !is_available(*id) && seen.insert(*id)
        });
        if !available.is_empty() {
            // What depends on earlier weights alone is a result of an earlier part.
            let after = self.after(available);
            ends.retain(|id| after.contains(*id));
        }
        let outputs = self.outputs(&self.before(&ends, is_available), &ends, is_heavy, is_available)?;
        let needed = self.before(&outputs, is_available);
        let inputs = self.inputs(&needed, &outputs, is_heavy, is_available)?;
        let nodes = self.before(&outputs, |id| inputs.contains(&id));
        let size = self.size_of(nodes.iter().filter(|id| !self.counted.contains(*id)));
        let inputs = if inputs.is_empty() { inputs } else { self.with_graph_inputs(&nodes, inputs) };
        let count = inputs.len() + outputs.len();
        let is_all = inputs.is_empty() && (outputs == graph.outputs || !available.is_empty());
        let part = Part { inputs, outputs, nodes, size };
        (!part.outputs.is_empty() && count <= MAX_VALUES && !is_all).then_some(part)
    }

    /// Returns the nodes from which values are computed, not beyond the values of `stops`.
    pub fn before(&self, values: &[ValueId], stops: impl Fn(ValueId) -> bool) -> IndexSet<NodeId> {
        let mut found = IndexSet::default();
        let mut stack = values.to_vec();
        while let Some(id) = stack.pop() {
            let producer = self.graph.value(id).producer.filter(|_| !stops(id));
            if let Some(node) = producer.filter(|node| found.insert(*node)) {
                stack.extend(self.graph.node(node).into_iter().flat_map(Node::reads));
            }
        }
        found
    }

    /// Returns whether a value is computed from elements of inputs, not only from sizes.
    pub fn is_data(&self, id: ValueId) -> bool {
        let value = self.inferred.value(id);
        value.constant.is_none() && value.elements.is_none()
    }

    /// Returns whether a value can be an input or an output of a net, as far as it is known.
    pub fn fits(&self, id: ValueId) -> bool {
        let (value, inferred) = (self.graph.value(id), self.inferred.value(id));
        let is_number =
            |dtype| !matches!(dtype, DType::Bool | DType::String | DType::F64 | DType::C64 | DType::C128);
        self.names.get(&value.name) == Some(&id)
            && inferred.dtype.is_none_or(is_number)
            && value.other_type.is_none()
            && !self.unfit.contains(&id)
    }

    /// Returns the size of nodes.
    pub fn size_of(&self, nodes: impl Iterator<Item = NodeId>) -> u64 {
        nodes.filter_map(|id| self.sizes.get(id)).sum()
    }

    /// Returns the names of values.
    pub fn names(&self, ids: &[ValueId]) -> Vec<String> {
        ids.iter().map(|id| self.graph.value(*id).name.clone()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph::Value;
    use crate::tensor::dims;

    /// Returns the parts of a graph in lines such as `bad: a b = c`, the best first; the nodes `bad` fail,
    /// and a value `_` has no name. The inputs are `x` and `z`.
    fn parts(lines: &[&str], outputs: &str) -> Vec<String> {
        let mut graph = Graph::default();
        let mut ids: BTreeMap<String, ValueId> = BTreeMap::new();
        let value = |name: &str| Value {
            name: name.replace('_', ""),
            dtype: Some(DType::F32),
            shape: Some(dims(&[1]).into()),
            ..Value::default()
        };
        for name in ["x", "z"] {
            let id = graph.add_value(value(name));
            graph.inputs.push(id);
            ids.insert(name.to_owned(), id);
        }
        let mut failed = BTreeSet::new();
        for line in lines {
            let (word, values) = line.split_once(": ").unwrap();
            let (reads, made) = values.split_once(" = ").unwrap();
            let inputs: Vec<_> = reads.split(' ').map(|name| Some(ids[name])).collect();
            let mut outputs = Vec::new();
            for name in made.split(' ') {
                let id = graph.add_value(value(name));
                ids.insert(name.to_owned(), id);
                outputs.push(Some(id));
            }
            let id =
                graph.add_node(Node { inputs: inputs.into(), outputs: outputs.into(), ..Node::default() });
            if word == "bad" {
                failed.insert(id);
            }
        }
        graph.outputs = outputs.split(' ').map(|name| ids[name]).collect();
        crate::ops::register();
        let mut parts = Parts::new(graph);
        parts.failed = failed;
        let shown = |part: &Part| {
            format!("{} | {}", parts.names(&part.inputs).join(" "), parts.names(&part.outputs).join(" "))
        };
        parts.parts().iter().map(shown).collect()
    }

    #[test]
    fn parts_lie_around_failed_nodes() {
        for (lines, outputs, expected) in [
            (&["ok: x = a", "bad: a = y"][..], "y", &[" | a"][..]),
            (&["ok: x = a", "bad: a = b", "ok: b = y"], "y", &[" | a", "b | y"]),
            // A value that bypasses the node is an input of the later part.
            (&["ok: x = a", "bad: a = b", "ok: b a = y"], "y", &[" | a", "a b | y"]),
            // All that the failed node reads, not the one value from which it is computed.
            (&["ok: x = a", "ok: a = b", "ok: a = c", "bad: b c = y"], "y", &[" | b c"]),
            // The outputs of the model first.
            (&["ok: x = a", "bad: a = b", "ok: a = c"], "b c", &[" | c a"]),
            (&["bad: x = a", "ok: a = b", "bad: b = y"], "y", &["a | b"]),
            // Inside of a replaced node.
            (&["ok: x = a", "ok: z = b", "ok: a b = _", "bad: _ = y"], "y", &[" | a b"]),
            (&["bad: x = y"], "y", &[]),
            (&["bad: x = a", "ok: a z = y"], "y", &["z a | y"]),
        ] {
            assert_eq!(parts(lines, outputs), expected, "{lines:?}");
        }
    }

    #[test]
    fn many_values_are_no_part() {
        let lines: Vec<String> =
            (0..99).flat_map(|i| [format!("ok: x = a{i}"), format!("bad: a{i} = b{i}")]).collect();
        let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
        assert!(parts(&lines, "b0").is_empty());
    }
}
