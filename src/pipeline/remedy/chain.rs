//! A model as a chain of parts, each of which reads results of earlier ones.

use std::collections::{BTreeMap, BTreeSet};

use super::super::Options;
use super::part::Parts;
use crate::common::index::{IndexMap, IndexSet};
use crate::error::{Error, Errors, Result};
use crate::graph::{Node, NodeId, ValueId};
use crate::onnx::Sources;
use crate::pass::cut::named_values;

/// The names of the inputs and outputs of a part of a model.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Link {
    /// The inputs, with types and shapes where the model does not tell them.
    pub inputs: Vec<String>,
    /// The outputs.
    pub outputs: Vec<String>,
    /// The nodes, some of which may belong to other parts, too.
    pub(super) nodes: IndexSet<NodeId>,
    /// The elements of the constants, and the nodes, of no earlier part.
    pub(super) size: u64,
}

/// The parts between some cuts, in order.
#[derive(Debug)]
pub(super) struct Chain {
    /// The names of the values of each cut, in order.
    pub cuts: Vec<Vec<String>>,
    pub links: Vec<Link>,
}

/// Returns the parts of a model between cuts, in order.
///
/// # Errors
///
/// The model cannot be read, a value is unknown, or a cut needs results of a later one.
pub(crate) fn links(
    sources: &Sources,
    options: &Options,
    cuts: &[Vec<String>],
) -> std::result::Result<Vec<Link>, Errors> {
    crate::ops::register();
    let (parts, _) = Parts::read(sources, options)?;
    Ok(parts.links(cuts)?)
}

impl Chain {
    /// Orders cuts, and returns the parts between them; `None` if they are those of no chain.
    pub fn of(parts: &Parts, cuts: &[Vec<String>]) -> Option<Chain> {
        let indices: IndexMap<ValueId, usize> = {
            let made = parts.graph.nodes().map(|(_, node)| node).enumerate();
            made.flat_map(|(at, node)| node.outputs.iter().flatten().map(move |id| (*id, at))).collect()
        };
        let mut ordered: BTreeMap<usize, Vec<String>> = BTreeMap::new();
        for names in cuts {
            let ids = named_values(&parts.graph, names).ok()?;
            // Inputs of the model belong to no cut.
            let kept = ids.iter().zip(names).filter(|(id, _)| parts.graph.value(**id).producer.is_some());
            let (ids, names): (Vec<&ValueId>, Vec<&String>) = kept.unzip();
            let last = ids.iter().filter_map(|id| indices.get(**id)).max();
            if let Some(last) = last.filter(|_| ids.iter().any(|id| !parts.graph.outputs.contains(id))) {
                ordered.entry(*last).or_insert_with(|| names.into_iter().cloned().collect());
            }
        }
        let cuts: Vec<Vec<String>> = ordered.into_values().collect();
        let links = parts.links(&cuts).ok()?;
        Some(Chain { cuts, links })
    }
}

impl Parts {
    /// Returns the parts between cuts, in order.
    fn links(&self, cuts: &[Vec<String>]) -> Result<Vec<Link>> {
        let graph = &self.graph;
        let mut stated: BTreeMap<ValueId, (usize, &String)> = BTreeMap::new();
        for (index, names) in cuts.iter().enumerate() {
            let ids = named_values(graph, names)?;
            stated.extend(ids.into_iter().zip(names).map(|(id, name)| (id, (index + 1, name))));
        }
        // The first cut that needs each node; its part is before that.
        let mut needed: IndexMap<NodeId, usize> = IndexMap::default();
        for cut in (1..=cuts.len()).rev() {
            let values = stated.iter().filter(|(_, (other, _))| *other == cut).map(|(id, _)| *id);
            for node in self.before(&values.collect::<Vec<_>>(), |_| false).iter() {
                needed.insert(node, cut);
            }
        }
        // The part that computes each value.
        let mut made: IndexMap<ValueId, usize> = IndexMap::default();
        for (id, node) in graph.nodes() {
            let part = |id: ValueId| match stated.get(&id) {
                Some((part, _)) => *part,
                None => made.get(id).copied().unwrap_or(0),
            };
            let node_part = node.reads().map(part).max().unwrap_or(0);
            let cut = needed.get(id).copied();
            if cut.is_some_and(|cut| cut < node_part) {
                let names =
                    cut.and_then(|cut| cuts.get(cut - 1)).map(|names| names.join(",")).unwrap_or_default();
                return Err(Error::usage(format!("the cut at \"{names}\" needs values of a later cut")));
            }
            let node_part = cut.map_or(node_part, |cut| node_part.min(cut - 1));
            made.extend(node.outputs.iter().flatten().map(|id| (*id, node_part)));
        }
        let part_of = |id: ValueId| made.get(id).copied().unwrap_or(0);
        let mut wanted: Vec<BTreeSet<ValueId>> = vec![BTreeSet::new(); cuts.len() + 1];
        let want = |id: ValueId, wanted: &mut Vec<BTreeSet<ValueId>>| {
            if let Some(list) = wanted.get_mut(part_of(id)) {
                list.insert(id);
            }
        };
        for id in &graph.outputs {
            want(*id, &mut wanted);
        }
        let mut links = Vec::new();
        for part in (0..=cuts.len()).rev() {
            let outputs = wanted.get(part).cloned().unwrap_or_default();
            let (mut nodes, mut inputs) = (IndexSet::default(), BTreeSet::new());
            let mut stack: Vec<ValueId> = outputs.iter().copied().collect();
            while let Some(id) = stack.pop() {
                let Some(producer) = graph.value(id).producer else {
                    inputs.insert(id);
                    continue;
                };
                let is_handed = part_of(id) < part && self.is_data(id);
                // A model cannot have an input of an unknown type.
                let has_type = || self.inferred.value(id).dtype.is_some();
                if is_handed && (stated.contains_key(&id) || self.fits(id) && has_type()) {
                    want(id, &mut wanted);
                    inputs.insert(id);
                } else if nodes.insert(producer) {
                    stack.extend(graph.node(producer).into_iter().flat_map(Node::reads));
                }
            }
            if outputs.is_empty() {
                continue;
            }
            // The inputs and outputs of the model are in its order.
            let in_order = |listed: &[ValueId], all: &BTreeSet<ValueId>| {
                let first: Vec<ValueId> = listed.iter().copied().filter(|id| all.contains(id)).collect();
                let rest = all
                    .iter()
                    .copied()
                    .filter(|id| !listed.contains(id) && graph.value(*id).constant.is_none());
                first.into_iter().chain(rest).collect::<Vec<_>>()
            };
            let inputs = in_order(&graph.variable_inputs(), &inputs);
            let names = self.input_names(&inputs);
            let named = inputs.iter().zip(names);
            let inputs =
                named.map(|(id, name)| stated.get(id).map_or(name, |(_, text)| (*text).clone())).collect();
            let outputs = self.names(&in_order(&graph.outputs, &outputs));
            links.push(Link { inputs, outputs, size: 0, nodes });
        }
        links.reverse();
        let mut counted: IndexSet<NodeId> = IndexSet::default();
        for link in &mut links {
            link.size = self.size_of(link.nodes.iter().filter(|id| counted.insert(*id)));
        }
        Ok(links)
    }
}
