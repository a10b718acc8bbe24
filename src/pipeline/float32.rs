//! The results that stay in float32 on runtimes of half precision because the user asks for it.

use std::collections::{BTreeMap, BTreeSet};

use crate::common::index::Index;
use crate::common::near::near_names;
use crate::error::{Error, Result};
use crate::graph::{Graph, Node, NodeId};
use crate::ncnn::{Layer, Net, NetLayer};

/// The nodes of a model whose results stay in float32, and the names by which the user asks for them.
pub(super) struct KeptNodes<'a> {
    asked: BTreeSet<&'a str>,
    /// The names of each node.
    names: BTreeMap<NodeId, BTreeSet<&'a str>>,
}

impl<'a> KeptNodes<'a> {
    /// Finds nodes by their names or the names of their outputs in the graph of a model after reading. Names
    /// of inputs are accepted, too.
    ///
    /// # Errors
    ///
    /// `Usage` if the model has nothing of a name.
    pub fn find(graph: &Graph, names: &'a [String]) -> Result<KeptNodes<'a>> {
        let mut kept =
            KeptNodes { asked: names.iter().map(String::as_str).collect(), names: BTreeMap::new() };
        if kept.asked.is_empty() {
            return Ok(kept);
        }
        for (id, node) in graph.nodes() {
            let names = kept.names_of(graph, node);
            if !names.is_empty() {
                kept.names.insert(id, names);
            }
        }
        let mut known: BTreeSet<&str> = kept.names.values().flatten().copied().collect();
        known.extend(graph.inputs.iter().filter_map(|id| kept.asked.get(graph.value(*id).name.as_str())));
        kept.find_in_bodies(graph, &mut known);
        match kept.asked_without(&known) {
            Some(unknown) => {
                let nodes = graph.nodes().map(|(_, node)| node.name.as_str());
                let values = graph.value_ids().map(|id| graph.value(id).name.as_str());
                let error = Error::usage(format!(
                    "no node, no result of a node and no input of the model has the name {unknown}"
                ));
                let first = kept.asked.difference(&known).next();
                Err(error.help_if_any(first.and_then(|name| near_names(name, nodes.chain(values)))))
            }
            None => Ok(kept),
        }
    }

    /// Keeps the results of the nodes in float32. `graph` is the graph that was lowered. Returns a warning
    /// with the names of nodes of which no layer does the work.
    pub fn mark(&self, net: &mut Net, graph: &Graph) -> Option<String> {
        if self.asked.is_empty() {
            return None;
        }
        let ancestry = graph.ancestry();
        let mut names: BTreeMap<usize, BTreeSet<&str>> = BTreeMap::new();
        for (id, node) in graph.nodes() {
            let taken = ancestry.of(id);
            let mut found = self.names_of(graph, node);
            found.extend(taken.iter().filter_map(|id| self.names.get(id)).flatten());
            names.insert(id.index(), found);
        }
        let (mut indices, mut marked) = (BTreeSet::new(), BTreeSet::new());
        for (index, layer) in net.layers.iter().enumerate() {
            let work = layer.provenance.iter().filter_map(|number| names.get(&number)).flatten().copied();
            let found: BTreeSet<&str> = work.chain(self.input(net, layer)).collect();
            if !found.is_empty() {
                indices.insert(index);
                marked.extend(found);
            }
        }
        net.keep_in_float32(&indices);
        let missing = self.asked_without(&marked)?;
        Some(format!("no layer does the work of {missing}, whose results should stay in float32"))
    }

    /// Returns the list of the names that are not among others, if there are any.
    fn asked_without(&self, others: &BTreeSet<&str>) -> Option<String> {
        let names: Vec<String> = self.asked.difference(others).map(|name| format!("\"{name}\"")).collect();
        (!names.is_empty()).then(|| names.join(", "))
    }

    /// Returns those of the names that a node or one of its outputs has.
    fn names_of(&self, graph: &Graph, node: &Node) -> BTreeSet<&'a str> {
        let outputs = node.outputs.iter().flatten().map(|id| graph.value(*id).name.as_str());
        outputs.chain([node.name.as_str()]).filter_map(|name| self.asked.get(name).copied()).collect()
    }

    /// Adds the names of nodes in bodies of control flow, which are inlined later.
    fn find_in_bodies(&self, graph: &Graph, known: &mut BTreeSet<&'a str>) {
        for body in graph.nodes().flat_map(|(_, node)| node.bodies()) {
            known.extend(body.nodes().flat_map(|(_, node)| self.names_of(body, node)));
            self.find_in_bodies(body, known);
        }
    }

    /// Returns the name of an Input layer's blob, if it is one of the names.
    fn input(&self, net: &Net, layer: &NetLayer) -> Option<&'a str> {
        let is_input = matches!(layer.layer, Layer::Input(_));
        let mut tops = layer.tops.iter().filter(|_| is_input);
        tops.find_map(|top| self.asked.get(net.blob(*top).name.as_str()).copied())
    }
}
