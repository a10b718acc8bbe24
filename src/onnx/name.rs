//! Unique names of written values, in a graph and in the graphs inside of it.

use std::collections::{BTreeMap, BTreeSet};

use super::proto;
use super::types;
use crate::graph::{Graph, ValueId};
use crate::tensor::Tensor;

/// The names in use in the whole model.
#[derive(Debug, Default)]
pub(super) struct Names {
    taken: BTreeSet<String>,
    /// The last number appended to a name.
    last: BTreeMap<String, usize>,
    /// The names of nodes, which onnxruntime requires to be unique too.
    nodes: BTreeMap<String, usize>,
}

/// A graph with the names under which its values are written.
#[derive(Debug)]
pub(super) struct NamedGraph<'g> {
    pub graph: &'g Graph,
    names: BTreeMap<ValueId, String>,
}

impl Names {
    /// Names the definitions of a graph. Captured values have their names in the enclosing graph.
    pub fn name_graph<'g>(&mut self, graph: &'g Graph, around: Option<&NamedGraph>) -> NamedGraph<'g> {
        let mut names = BTreeMap::new();
        if let Some(around) = around {
            for capture in &graph.captures {
                names.insert(capture.inner, around.name(capture.outer).to_owned());
            }
        }
        // The interface comes first, so that it keeps its names.
        let mut used: Vec<ValueId> = graph.inputs.iter().chain(&graph.outputs).copied().collect();
        for (_, node) in graph.nodes() {
            used.extend(node.reads());
            used.extend(node.outputs.iter().flatten());
        }
        used.extend(&graph.kept);
        for id in used {
            names.entry(id).or_insert_with(|| self.unique(&graph.value(id).name));
        }
        NamedGraph { graph, names }
    }

    /// Returns the name of a node, with a number if another node has it. Nodes without names stay unnamed.
    pub fn unique_node(&mut self, name: &str) -> String {
        let mut unique = name.to_owned();
        while !unique.is_empty() && self.nodes.contains_key(&unique) {
            let last = self.nodes.entry(name.to_owned()).or_insert(0);
            *last += 1;
            unique = format!("{name}_{last}");
        }
        self.nodes.insert(unique.clone(), 0);
        unique
    }

    /// Returns `name`, with a number if it is in use.
    pub fn unique(&mut self, name: &str) -> String {
        let name = if name.is_empty() { "value" } else { name };
        if self.taken.insert(name.to_owned()) {
            return name.to_owned();
        }
        let last = self.last.entry(name.to_owned()).or_insert(0);
        loop {
            *last += 1;
            let numbered = format!("{name}_{last}");
            if self.taken.insert(numbered.clone()) {
                return numbered;
            }
        }
    }
}

impl NamedGraph<'_> {
    /// Returns the name of a value.
    pub fn name(&self, id: ValueId) -> &str {
        self.names.get(&id).map_or("", String::as_str)
    }

    /// Returns name and type of a value.
    pub fn info(&self, id: ValueId) -> proto::ValueInfoProto {
        types::write_info(self.name(id), self.graph.value(id))
    }

    /// Returns the computed values whose types the model declares, without outputs of the graph.
    pub fn declared_values(&self) -> impl Iterator<Item = ValueId> {
        let computed = self.graph.nodes().flat_map(|(_, node)| node.outputs.iter().flatten().copied());
        let outputs: BTreeSet<ValueId> = self.graph.outputs.iter().copied().collect();
        computed.filter(move |id| self.graph.value(*id).declared && !outputs.contains(id))
    }

    /// Returns the constants that are read, with their names.
    pub fn constants(&self) -> impl Iterator<Item = (&str, &Tensor)> {
        let captured: BTreeSet<ValueId> = self.graph.captures.iter().map(|capture| capture.inner).collect();
        self.names
            .iter()
            .filter(move |(id, _)| !captured.contains(id))
            .map(|(id, name)| (name, self.graph.value(*id)))
            // A node of several outputs stays if one of them is constant, and computes that too.
            .filter(|(_, value)| value.producer.is_none())
            .filter_map(|(name, value)| Some((name.as_str(), value.constant.as_ref()?)))
    }

    /// Returns the outputs of a body that are captured values, by position, with the name of a copy:
    /// onnxruntime refuses a body that returns such a value directly.
    pub fn returned_captures(&self, names: &mut Names) -> Vec<(usize, proto::NodeProto)> {
        let mut copies = Vec::new();
        for (index, output) in self.graph.outputs.iter().enumerate() {
            if self.graph.captures.iter().any(|capture| capture.inner == *output) {
                let name = self.name(*output);
                copies.push((
                    index,
                    proto::NodeProto {
                        input: vec![name.to_owned()],
                        output: vec![names.unique(name)],
                        op_type: Some("Identity".to_owned()),
                        ..proto::NodeProto::default()
                    },
                ));
            }
        }
        copies
    }
}
