//! The windows of a net: what lies between blobs that have the elements of values of the model.

use std::collections::{BTreeMap, BTreeSet};

use super::window::{Window, WindowInput, is_move};
use super::{Assumed, Pair, Subject};
use crate::common::index::IndexMap;
use crate::graph::{Graph, NodeId, ValueId};
use crate::ncnn::BlobId;
use crate::op;
use crate::reference;

/// What cuts a net into windows.
pub(super) struct Cuts<'a> {
    subject: &'a Subject<'a>,
    /// The blobs that have the elements of values.
    paired: BTreeMap<BlobId, (ValueId, &'a Pair)>,
    /// The inputs that only the net has, with their sizes.
    lengths: BTreeMap<BlobId, Vec<usize>>,
    /// The values that depend on inputs of the model.
    varying: BTreeSet<ValueId>,
    /// The blobs that depend on inputs of the net: others are constants, whatever their values seem to be.
    moving: BTreeSet<BlobId>,
    /// The layer that computes each blob.
    producers: IndexMap<BlobId, usize>,
    /// The nodes of the model in their order.
    positions: IndexMap<NodeId, usize>,
    /// The values whose elements others have, in other positions.
    origins: IndexMap<ValueId, ValueId>,
}

impl<'a> Cuts<'a> {
    pub fn new(
        subject: &'a Subject<'a>,
        paired: BTreeMap<BlobId, (ValueId, &'a Pair)>,
        lengths: BTreeMap<BlobId, Vec<usize>>,
        varying: BTreeSet<ValueId>,
    ) -> Cuts<'a> {
        let (positions, origins) = (positions(&subject.model.graph), origins(&subject.model.graph));
        let mut moving: BTreeSet<BlobId> = subject.net.inputs.iter().copied().collect();
        for layer in &subject.net.layers {
            if layer.bottoms.iter().any(|blob| moving.contains(blob)) {
                moving.extend(&layer.tops);
            }
        }
        let producers = reference::producers(subject.net);
        Cuts { subject, paired, lengths, varying, moving, producers, positions, origins }
    }

    /// Returns the windows in the order of their last layers.
    pub fn windows(&self) -> Vec<Window> {
        let inputs: BTreeSet<BlobId> = self.subject.net.inputs.iter().copied().collect();
        let ends = self.paired.iter().filter(|(blob, _)| !inputs.contains(blob));
        let mut windows: Vec<Window> =
            ends.map(|(blob, (value, pair))| self.window(*blob, *value, pair)).collect();
        windows.sort_by_key(|window| window.layers.last().copied());
        windows
    }

    /// Returns the window that ends in a blob.
    fn window(&self, blob: BlobId, value: ValueId, pair: &Pair) -> Window {
        let (net, graph) = (self.subject.net, &self.subject.model.graph);
        let is_input =
            |other| other != blob && (self.paired.contains_key(&other) || self.lengths.contains_key(&other));
        let layers = reference::between(net, &self.producers, is_input, &[blob]);
        let read = layers.iter().filter_map(|index| net.layers.get(*index)).flat_map(|layer| &layer.bottoms);
        let read: BTreeSet<BlobId> = read.copied().filter(|other| *other != blob).collect();
        let lengths = read.iter().filter_map(|blob| Some((*blob, self.lengths.get(blob)?.clone()))).collect();
        let inputs = read.into_iter().filter_map(|blob| {
            let (value, pair) = self.paired.get(&blob)?;
            let (value, sizes, order) = (*value, pair.sizes.clone(), pair.order);
            let varies = self.varying.contains(&value) && self.moving.contains(&blob);
            let mut range = op::range::range(graph, value);
            if self.subject.assumed.get(&graph.value(value).name) == Some(&Assumed::NotTiny) {
                range.least = range.least.max(f64::from(f32::MIN_POSITIVE));
            }
            Some(WindowInput { blob, value, sizes, order, varies, range })
        });
        let inputs: Vec<WindowInput> = inputs.collect();
        let is_input = |value| inputs.iter().any(|input| input.value == value);
        let reached = Reached::of(graph, is_input, value);
        let reads = |name: &&String| reached.inputs.iter().any(|input| graph.value(*input).name == **name);
        let ignored = self.subject.ignored.iter().find(reads).cloned();
        // Elements of one value would not fit those of another that depends on it.
        let reads_all = inputs.iter().all(|input| !input.varies || reached.values.contains(&input.value));
        let nodes = (reached.inputs.is_empty() && reads_all).then(|| reached.in_order(&self.positions));
        let (name, sizes, order) = (pair.value.clone(), pair.sizes.clone(), pair.order);
        let is_output = pair.is_output;
        let varying = inputs.iter().filter(|input| input.varies);
        let mut origins = varying.map(|input| self.origins.get(input.value).copied().unwrap_or(input.value));
        let mut seen = BTreeSet::new();
        let shares_elements = !origins.all(|origin| seen.insert(origin));
        Window {
            value,
            blob,
            name,
            sizes,
            order,
            is_output,
            inputs,
            lengths,
            layers,
            nodes,
            ignored,
            shares_elements,
        }
    }
}

/// Returns the value whose elements each result of a move has.
fn origins(graph: &Graph) -> IndexMap<ValueId, ValueId> {
    let mut origins = IndexMap::default();
    for (_, node) in graph.nodes().filter(|(_, node)| is_move(node)) {
        let Some(moved) = node.input(0) else { continue };
        let origin = origins.get(moved).copied().unwrap_or(moved);
        origins.extend(node.outputs.iter().flatten().map(|output| (*output, origin)));
    }
    origins
}

/// Returns the position of each node.
pub(super) fn positions(graph: &Graph) -> IndexMap<NodeId, usize> {
    graph.nodes().map(|(id, _)| id).zip(0..).collect()
}

/// What lies between inputs and a value.
pub(super) struct Reached {
    nodes: BTreeSet<NodeId>,
    /// The values that the nodes read or compute, and the inputs among them.
    pub values: BTreeSet<ValueId>,
    /// The values that no node computes.
    pub inputs: Vec<ValueId>,
}

impl Reached {
    pub fn of(graph: &Graph, is_input: impl Fn(ValueId) -> bool, value: ValueId) -> Reached {
        let mut reached = Reached { nodes: BTreeSet::new(), values: BTreeSet::new(), inputs: Vec::new() };
        let mut left = vec![value];
        while let Some(value) = left.pop() {
            if !reached.values.insert(value) || is_input(value) || graph.value(value).constant.is_some() {
                continue;
            }
            match graph.value(value).producer {
                Some(id) => {
                    if reached.nodes.insert(id) {
                        left.extend(graph.node(id).into_iter().flat_map(|node| node.reads()));
                    }
                }
                None => reached.inputs.push(value),
            }
        }
        reached
    }

    /// Returns the nodes in the order of the graph.
    pub fn in_order(&self, positions: &IndexMap<NodeId, usize>) -> Vec<NodeId> {
        let mut nodes: Vec<NodeId> = self.nodes.iter().copied().collect();
        nodes.sort_by_key(|node| positions.get(*node).copied());
        nodes
    }
}
