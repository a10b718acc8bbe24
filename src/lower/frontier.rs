//! Where to cut a graph of which some nodes cannot be lowered, so that the rest of it can.

use std::collections::{BTreeMap, BTreeSet};

use crate::graph::{Graph, NodeId, ValueId};

/// A part of a model, in the names of its values: what [`Converter::inputs`](crate::Converter::inputs) and
/// [`Converter::outputs`](crate::Converter::outputs) of these names cut out.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cut {
    /// The inputs; empty for the model's own.
    pub inputs: Vec<String>,
    /// The outputs; empty for those asked for.
    pub outputs: Vec<String>,
}

/// Most values that are proposed: with more, what is left over is no longer one thing that somebody would compute otherwise.
const MAX_VALUES: usize = 16;

/// Ways to leave out the `failed` nodes, the best first: what comes before them, and what comes after them. Whether what is left
/// can be converted is for the caller to try. `is_made` tells whether a value is computed and can be an output.
pub(crate) fn propose_cuts(
    graph: &Graph,
    failed: &BTreeSet<NodeId>,
    is_made: impl FnMut(ValueId) -> bool,
) -> Vec<Cut> {
    let names = first_of_each_name(graph);
    let is_named = |id: &ValueId| names.get(graph.value(*id).name.as_str()) == Some(id);
    let mut before = Before { graph, is_made, is_named, seen: BTreeSet::new(), found: Vec::new() };
    before.find(failed);
    let outputs = before.found;
    let inputs = values_behind(graph, failed).filter(|inputs| inputs.iter().all(is_named));
    let named = |ids: &[ValueId]| ids.iter().map(|id| graph.value(*id).name.clone()).collect();
    let cuts = [
        Cut { inputs: Vec::new(), outputs: named(&outputs) },
        Cut { inputs: named(&inputs.unwrap_or_default()), outputs: Vec::new() },
    ];
    let few = |cut: &Cut| (1..=MAX_VALUES).contains(&(cut.inputs.len() + cut.outputs.len()));
    cuts.into_iter().filter(few).collect()
}

/// What each name means where the graph is cut at it. Values made in place of others have none.
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

/// The search for the last values before the nodes that failed. Each is a graph output or read by a node that is left out, so none
/// of them can do without another.
struct Before<'a, M, N> {
    graph: &'a Graph,
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

    /// Finds a value, or those with a name that it is computed from.
    fn find_named(&mut self, id: ValueId, missing: &BTreeSet<ValueId>) {
        let mut stack = vec![id];
        while let Some(id) = stack.pop() {
            let value = self.graph.value(id);
            let given = value.constant.is_some() || self.graph.inputs.contains(&id);
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

/// All that the graph outputs need, once what the nodes that failed compute is given. `None` where an output is computed by such a
/// node itself, and where the outputs need none of them.
fn values_behind(graph: &Graph, failed: &BTreeSet<NodeId>) -> Option<Vec<ValueId>> {
    let mut found = BTreeSet::new();
    let mut seen = BTreeSet::new();
    let mut helps = false;
    let mut stack = graph.outputs.clone();
    while let Some(id) = stack.pop() {
        let value = graph.value(id);
        if value.constant.is_some() || !seen.insert(id) {
            continue;
        }
        if graph.inputs.contains(&id) {
            found.insert(id);
        } else if let Some(producer) = value.producer {
            if failed.contains(&producer) {
                if graph.outputs.contains(&id) {
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

    /// The cuts of a graph in lines such as `bad: a b = c`; a node called `bad` has failed, a value called `_` has no name, though
    /// each `_` is the one before. The inputs are `x` and `z`, the constant is `k`.
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
    fn the_last_values_before_what_failed_are_proposed() {
        for (lines, outputs, expected) in [
            (&["ok: x = a", "bad: a = y"][..], "y", &[" | a"][..]),
            (&["ok: x = a", "bad: a = b", "ok: b = y"], "y", &[" | a", "b | "]),
            // Graph outputs that need nothing of it come first; what follows from a node that failed is left out.
            (&["ok: x = a", "bad: a k = b", "ok: a = c", "bad: b c = y"], "y c", &[" | c a"]),
            // A value that goes past the node is needed after it.
            (&["ok: x = a", "bad: a = b", "ok: b a = y"], "y", &[" | a", "x b | "]),
            // Inside of a node that was replaced.
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
    fn very_many_values_are_no_proposal() {
        let lines: Vec<String> =
            (0..99).flat_map(|i| [format!("ok: x = a{i}"), format!("bad: a{i} = b{i}")]).collect();
        let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
        assert!(cuts(&lines, "b0").is_empty());
    }
}
