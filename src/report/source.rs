//! The lowering of each node of the model.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use super::Diagnostic;
use super::model::{Size, sizes};
use crate::common::index::{Index, IndexSet};
use crate::graph::{Graph, Node, NodeId, ValueId};
use crate::ncnn::{Cost, Net};
use crate::pipeline::operator_cost;

/// A node of the model and the layers that do its work.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct NodePart {
    /// Its index in the graph's list of nodes. Nodes of an inlined function have the index of the call.
    pub index: usize,
    /// Its name; may be empty.
    pub name: String,
    /// Its operator.
    pub op_type: String,
    /// The version of the operator set that it follows.
    pub version: i64,
    /// The names of its inputs; empty for omitted ones.
    pub inputs: Vec<String>,
    /// The names of its outputs; empty for omitted ones.
    pub outputs: Vec<String>,
    /// The shapes of its outputs, if the rank is known.
    pub shapes: Vec<Option<Vec<Size>>>,
    /// Its lowering; `None` if the model is refused because of other nodes.
    pub becomes: Option<Becomes>,
    /// The names of the layers that do its work, in order.
    pub layers: Vec<String>,
    /// The cost of these layers, those that it shares with other nodes among them. `None` if a size is
    /// unknown, or without a net.
    pub cost: Option<CostPart>,
    /// The cost of the operator: its multiply-adds, constants, inputs and results. `None` if a size is
    /// unknown.
    pub operator_cost: Option<CostPart>,
}

/// The work of layers, or of an operator; the fields are those of [`Cost`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[allow(missing_docs)] // As `Cost`.
#[non_exhaustive]
pub struct CostPart {
    pub layers: u64,
    pub multiply_adds: u64,
    pub weight_bytes: u64,
    pub blob_bytes: u64,
    pub scalars: u64,
    /// [`Cost::nanoseconds`].
    pub nanoseconds: u64,
}

impl From<Cost> for CostPart {
    fn from(cost: Cost) -> CostPart {
        let Cost { layers, multiply_adds, weight_bytes, blob_bytes, scalars } = cost;
        CostPart { layers, multiply_adds, weight_bytes, blob_bytes, scalars, nanoseconds: cost.nanoseconds() }
    }
}

/// The lowering of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum Becomes {
    /// Separate layers.
    Layers,
    /// Part of layers that also do the work of other nodes.
    Fused,
    /// Constants or sizes, which are known before the net runs.
    Folded,
    /// No layer: its output has no readers, or equals its input.
    Nothing,
    /// The node is refused.
    Refused,
}

/// Returns the nodes of a model, in order, and for each layer of the net the indices of the nodes whose work
/// it does: the nearest ones, and those that no layer before does. `graph` is the lowered graph of `model`.
pub(crate) fn trace(model: &Graph, graph: &Graph, net: &Net) -> (Vec<NodePart>, Vec<Vec<usize>>) {
    let indices: BTreeMap<NodeId, usize> =
        model.nodes().enumerate().map(|(index, (id, _))| (id, index)).collect();
    let ancestry = graph.ancestry();
    let mut reached = IndexSet::default();
    let mut layers_of: Vec<Vec<usize>> = vec![Vec::new(); indices.len()];
    let mut nodes_of = Vec::with_capacity(net.layers.len());
    for (index, layer) in net.layers.iter().enumerate() {
        let mut found = BTreeSet::new();
        for id in layer.provenance.iter().map(NodeId::of).filter(|id| graph.node(*id).is_some()) {
            found.extend(ancestry.nearest(id));
            found.extend(ancestry.reach(id, &mut reached, |_, _| ()));
        }
        let nodes: BTreeSet<usize> = found.iter().filter_map(|id| indices.get(id).copied()).collect();
        for node in &nodes {
            if let Some(layers) = layers_of.get_mut(*node) {
                layers.push(index);
            }
        }
        nodes_of.push(nodes.into_iter().collect::<Vec<_>>());
    }
    let has_one_node =
        |layer: &usize| nodes_of.get(*layer).is_some_and(|nodes: &Vec<usize>| nodes.len() == 1);
    let parts = model.nodes().zip(&layers_of).map(|((_, node), layers)| {
        let becomes = if is_folded(graph, node) {
            Becomes::Folded
        } else if layers.is_empty() {
            Becomes::Nothing
        } else if layers.iter().any(has_one_node) {
            Becomes::Layers
        } else {
            Becomes::Fused
        };
        let layers = || layers.iter().filter_map(|index| net.layers.get(*index));
        let cost = layers().try_fold(Cost::default(), |sum, layer| Some(sum + net.cost(layer)?));
        NodePart {
            becomes: Some(becomes),
            layers: layers().map(|layer| layer.name.clone()).collect(),
            cost: cost.map(CostPart::from),
            ..NodePart::of(model, graph, node)
        }
    });
    (parts.collect(), nodes_of)
}

/// Returns whether all outputs of a node are known without the net.
fn is_folded(graph: &Graph, node: &Node) -> bool {
    let mut outputs = node.outputs.iter().flatten().map(|id| graph.value(*id)).peekable();
    outputs.peek().is_some() && outputs.all(|value| value.constant.is_some() || value.elements.is_some())
}

/// Returns the nodes of a model without a net. `graph` has the inferred shapes.
pub(crate) fn untraced(model: &Graph, graph: &Graph) -> Vec<NodePart> {
    model.nodes().map(|(_, node)| NodePart::of(model, graph, node)).collect()
}

pub(super) fn mark_refused(nodes: &mut [NodePart], diagnostics: &[Diagnostic]) {
    let main = diagnostics.iter().filter(|found| found.at.graph.is_empty());
    let refused: BTreeSet<(usize, &str)> = main
        .filter_map(|found| found.at.node.as_ref())
        .map(|node| (node.index, node.name.as_str()))
        .collect();
    for node in nodes {
        if refused.contains(&(node.index, node.name.as_str())) {
            node.becomes = Some(Becomes::Refused);
        }
    }
}

impl NodePart {
    fn of(model: &Graph, graph: &Graph, node: &Node) -> NodePart {
        let name = |id: &Option<ValueId>| id.map_or_else(String::new, |id| model.value(id).name.clone());
        let shape = |id: &Option<ValueId>| graph.value((*id)?).shape.as_deref().map(sizes);
        NodePart {
            index: node.index,
            name: node.name.clone(),
            op_type: node.qualified_op_type(),
            version: node.version,
            inputs: node.inputs.iter().map(name).collect(),
            outputs: node.outputs.iter().map(name).collect(),
            shapes: node.outputs.iter().map(shape).collect(),
            becomes: None,
            layers: Vec::new(),
            cost: None,
            operator_cost: operator_cost(graph, node).map(CostPart::from),
        }
    }
}
