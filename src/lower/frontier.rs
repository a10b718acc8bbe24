//! Proposals of cuts: parts of a graph that remain convertible without the nodes that failed.

use std::collections::{BTreeMap, BTreeSet};

use crate::graph::{Graph, NodeId, ValueId};

/// A part of a model, by the names of its values: the arguments of
/// [`Converter::inputs`](crate::Converter::inputs) and [`Converter::outputs`](crate::Converter::outputs).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cut {
    /// The inputs; empty for those of the model.
    pub inputs: Vec<String>,
    /// The outputs; empty for the requested ones.
    pub outputs: Vec<String>,
}

/// The maximum number of proposed values: with more, the removed part is no longer a unit that could be
/// computed elsewhere.
const MAX_VALUES: usize = 16;

/// Returns cuts without the `failed` nodes, the best first: the part before them, and the part after. The
/// caller tries whether they can be converted. `is_made` returns whether a value is computed and can be an
/// output.
pub(crate) fn propose_cuts(
    graph: &Graph,
    failed: &BTreeSet<NodeId>,
    is_made: impl FnMut(ValueId) -> bool,
) -> Vec<Cut> {
    let names = first_of_each_name(graph);
    let is_named = |id: &ValueId| names.get(graph.value(*id).name.as_str()) == Some(id);
    let given: BTreeSet<ValueId> = graph.inputs.iter().copied().collect();
    let (seen, found) = Default::default();
    let mut before = Before { graph, given: &given, is_made, is_named, seen, found };
    before.find(failed);
    let outputs = before.found;
    let inputs = values_after(graph, &given, failed).filter(|inputs| inputs.iter().all(is_named));
    let named = |ids: &[ValueId]| ids.iter().map(|id| graph.value(*id).name.clone()).collect();
    let cuts = [
        Cut { inputs: Vec::new(), outputs: named(&outputs) },
        Cut { inputs: named(&inputs.unwrap_or_default()), outputs: Vec::new() },
    ];
    let few = |cut: &Cut| (1..=MAX_VALUES).contains(&(cut.inputs.len() + cut.outputs.len()));
    cuts.into_iter().filter(few).collect()
}

/// Returns the value of each name; values of replaced nodes have none.
fn first_of_each_name(graph: &Graph) -> BTreeMap<&str, ValueId> {
    let mut names = BTreeMap::new();
    for id in graph.value_ids() {
        let name = graph.value(id).name.as_str();
        if !name.is_empty() {
            names.entry(name).or_insert(id);
        }
    }
    names
}

/// The search for the last values before the failed nodes. Each is a graph output or read by a removed node,
/// so none is superfluous.
struct Before<'a, M, N> {
    graph: &'a Graph,
    /// The inputs of the graph.
    given: &'a BTreeSet<ValueId>,
    is_made: M,
    is_named: N,
    seen: BTreeSet<ValueId>,
    found: Vec<ValueId>,
}

impl<M: FnMut(ValueId) -> bool, N: Fn(&ValueId) -> bool> Before<'_, M, N> {
    /// Finds them in the order of graph outputs and then of readers.
    fn find(&mut self, failed: &BTreeSet<NodeId>) {
        let mut missing: BTreeSet<ValueId> = BTreeSet::new();
        let mut ends = self.graph.outputs.clone();
        for (id, node) in self.graph.nodes() {
            if failed.contains(&id) || node.reads().any(|value| missing.contains(&value)) {
                missing.extend(node.outputs.iter().flatten().filter(|output| !(self.is_made)(**output)));
                ends.extend(node.reads());
            }
        }
        for end in ends {
            self.find_named(end, &missing);
        }
    }

    /// Finds a value, or the named ones from which it is computed.
    fn find_named(&mut self, id: ValueId, missing: &BTreeSet<ValueId>) {
        let mut stack = vec![id];
        while let Some(id) = stack.pop() {
            let value = self.graph.value(id);
            let given = value.constant.is_some() || self.given.contains(&id);
            if given || missing.contains(&id) || !self.seen.insert(id) {
                continue;
            }
            if (self.is_named)(&id) {
                if (self.is_made)(id) {
                    self.found.push(id);
                }
            } else if let Some(node) = value.producer.and_then(|producer| self.graph.node(producer)) {
                let reads: Vec<ValueId> = node.reads().collect();
                stack.extend(reads.iter().rev());
            }
        }
    }
}

/// Returns the values on which the graph outputs depend if the outputs of the failed nodes are given. `None`
/// if such a node computes an output, or the outputs do not depend on any of them.
fn values_after(
    graph: &Graph,
    inputs: &BTreeSet<ValueId>,
    failed: &BTreeSet<NodeId>,
) -> Option<Vec<ValueId>> {
    let outputs: BTreeSet<ValueId> = graph.outputs.iter().copied().collect();
    let mut found = BTreeSet::new();
    let mut seen = BTreeSet::new();
    let mut helps = false;
    let mut stack = graph.outputs.clone();
    while let Some(id) = stack.pop() {
        let value = graph.value(id);
        if value.constant.is_some() || !seen.insert(id) {
            continue;
        }
        if inputs.contains(&id) {
            found.insert(id);
        } else if let Some(producer) = value.producer {
            if failed.contains(&producer) {
                if outputs.contains(&id) {
                    return None;
                }
                helps = true;
                found.insert(id);
            } else if let Some(node) = graph.node(producer) {
                stack.extend(node.reads());
            }
        }
    }
    helps.then(|| found.into_iter().collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph::{Node, Value};

    /// Returns the cuts of a graph in lines such as `bad: a b = c`; the node `bad` has failed, a value `_`
    /// has no name, and each `_` is the previous one. The inputs are `x` and `z`, the constant is `k`.
    fn cuts(lines: &[&str], outputs: &str) -> Vec<String> {
        let mut graph = Graph::default();
        let mut ids: BTreeMap<String, ValueId> = BTreeMap::new();
        for name in ["x", "z"] {
            let id = graph.add_value(Value { name: name.to_owned(), ..Value::default() });
            graph.inputs.push(id);
            ids.insert(name.to_owned(), id);
        }
        let array = crate::tensor::Array::f32(ndarray::ArrayD::zeros(vec![1]));
        let k = graph.add_constant("k", crate::tensor::Tensor::from_array(&array).unwrap()).unwrap();
        ids.insert("k".to_owned(), k);
        let mut failed = BTreeSet::new();
        let mut missing = BTreeSet::new();
        for line in lines {
            let (name, values) = line.split_once(": ").unwrap();
            let (reads, made) = values.split_once(" = ").unwrap();
            let inputs: Vec<_> = reads.split(' ').map(|name| Some(ids[name])).collect();
            let blocked = name == "bad" || inputs.iter().flatten().any(|id| missing.contains(id));
            let outputs: Vec<_> = made
                .split(' ')
                .map(|name| {
                    let known = if name == "_" { "" } else { name };
                    let id = graph.add_value(Value { name: known.to_owned(), ..Value::default() });
                    ids.insert(name.to_owned(), id);
                    Some(id)
                })
                .collect();
            if blocked {
                missing.extend(outputs.iter().flatten().copied());
            }
            let id =
                graph.add_node(Node { inputs: inputs.into(), outputs: outputs.into(), ..Node::default() });
            if name == "bad" {
                failed.insert(id);
            }
        }
        graph.outputs = outputs.split(' ').map(|name| ids[name]).collect();
        let shown = |cut: &Cut| format!("{} | {}", cut.inputs.join(" "), cut.outputs.join(" "));
        propose_cuts(&graph, &failed, |id| !missing.contains(&id)).iter().map(shown).collect()
    }

    #[test]
    fn the_last_values_before_failed_nodes_are_proposed() {
        for (lines, outputs, expected) in [
            (&["ok: x = a", "bad: a = y"][..], "y", &[" | a"][..]),
            (&["ok: x = a", "bad: a = b", "ok: b = y"], "y", &[" | a", "b | "]),
            // Graph outputs that do not depend on the node come first; consumers of a failed node are
            // dropped.
            (&["ok: x = a", "bad: a k = b", "ok: a = c", "bad: b c = y"], "y c", &[" | c a"]),
            // A value that bypasses the node is needed after it.
            (&["ok: x = a", "bad: a = b", "ok: b a = y"], "y", &[" | a", "x b | "]),
            // Inside of a replaced node.
            (&["ok: x = a", "ok: z = b", "ok: a b = _", "bad: _ = y"], "y", &[" | a b"]),
            (&["ok: x = _", "bad: _ = y"], "y", &[]),
            // At the beginning.
            (&["bad: x = y"], "y", &[]),
            (&["bad: x = a", "ok: a = y"], "y", &["a | "]),
            (&["bad: x = a", "ok: a z k = y"], "y", &["z a | "]),
            (&["bad: x = _", "ok: _ = y"], "y", &[]),
        ] {
            assert_eq!(cuts(lines, outputs), expected, "{lines:?}");
        }
    }

    #[test]
    fn too_many_values_are_not_proposed() {
        let lines: Vec<String> =
            (0..99).flat_map(|i| [format!("ok: x = a{i}"), format!("bad: a{i} = b{i}")]).collect();
        let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
        assert!(cuts(&lines, "b0").is_empty());
    }
}
