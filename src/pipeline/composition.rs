//! Compositions: the layers that do the work of a node, and their cost compared with its operator.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use crate::common::count::count;
use crate::common::groups::Groups;
use crate::common::index::{Index, IndexSet};
use crate::error::NodeAt;
use crate::graph::{Graph, Node, NodeId, Value};
use crate::ncnn::{Cost, Net, NetLayer};
use crate::op::{self, Call};

/// The factor above which a composition is named in a warning.
const MUCH: u64 = 20;

/// The multiply-adds that take a nanosecond.
const STEPS: u64 = 20;

/// The time in nanoseconds below which no composition is named.
const LITTLE: u64 = 500_000;

/// The time in nanoseconds below which a layer is not looked at: nets have many small ones.
const SMALL: u64 = 2_000;

/// The most compositions that are named one by one.
const NAMED: usize = 5;

/// The most types of layers that are named.
const TYPES: usize = 4;

/// Nodes of a model that share layers, and their costs.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Composition {
    /// The node that takes the most time of the layers.
    pub node: NodeAt,
    /// The number of nodes.
    pub nodes: usize,
    /// The cost of the layers.
    pub layers: Cost,
    /// The cost of the operators: their multiply-adds, constants, inputs and results.
    pub operators: Cost,
    /// The number of layers of each type, the most frequent first.
    pub types: Vec<(&'static str, usize)>,
}

/// Layers that share nodes.
#[derive(Default)]
struct Group {
    /// `None` if the cost of one is unknown.
    cost: Option<Cost>,
    types: BTreeMap<&'static str, usize>,
    /// The nodes, each with the time of the layers that do its work.
    nodes: BTreeMap<NodeId, u64>,
}

impl Group {
    fn add(&mut self, layer: &NetLayer, cost: Option<Cost>, nodes: &BTreeSet<NodeId>) {
        let sum = if self.types.is_empty() { Some(Cost::default()) } else { self.cost };
        self.cost = sum.zip(cost).map(|(sum, cost)| sum + cost);
        *self.types.entry(layer.layer.type_name()).or_default() += 1;
        for node in nodes {
            if let Some(time) = self.nodes.get_mut(node) {
                *time = time.saturating_add(cost.map_or(0, |cost| cost.nanoseconds()));
            }
        }
    }
}

impl Composition {
    /// Returns the factor by which the layers exceed the operators, in multiply-adds or in bytes, if it is a
    /// large one.
    pub fn excess(&self) -> Option<u64> {
        let (layers, operators) = (&self.layers, &self.operators);
        let bytes = |cost: &Cost| cost.weight_bytes.saturating_add(cost.blob_bytes);
        // An operator without products takes a step for each element.
        let steps = operators.multiply_adds.max(operators.blob_bytes / 4).max(1);
        let done = layers.multiply_adds.max(layers.scalars.saturating_mul(STEPS));
        let factor = (done / steps).max(bytes(layers) / bytes(operators).max(1));
        (factor > MUCH && layers.nanoseconds() > LITTLE).then_some(factor)
    }
}

/// The costs of the operators of a graph, before they are replaced.
#[derive(Debug, Default)]
pub(crate) struct Operators {
    costs: BTreeMap<NodeId, Operator>,
}

#[derive(Debug)]
struct Operator {
    at: NodeAt,
    cost: Option<Cost>,
}

impl Operators {
    /// Reads the nodes of a graph with inferred shapes.
    pub fn of(graph: &Graph) -> Operators {
        let entry = |(id, node): (NodeId, &Node)| {
            let operator = || Operator { at: node.at(), cost: operator_cost(graph, node) };
            op::find(node).map(|_| (id, operator()))
        };
        Operators { costs: graph.nodes().filter_map(entry).collect() }
    }

    /// Returns the compositions of a net, the most costly first; `graph` is the graph that was lowered. Those
    /// with free sizes are left out, and small layers are.
    pub fn compositions(&self, graph: &Graph, net: &Net) -> Vec<Composition> {
        let costs = net.layers.iter().map(|layer| (layer, net.cost(layer)));
        let is_looked_at = |cost: &Option<Cost>| cost.is_none_or(|cost| cost.nanoseconds() > SMALL);
        let mut looked_at = costs.filter(|(_, cost)| is_looked_at(cost)).peekable();
        if looked_at.peek().is_none() {
            return Vec::new();
        }
        let ancestry = graph.ancestry();
        let mut groups = Groups::default();
        let (mut layers_of, mut reached) = (Vec::new(), IndexSet::default());
        for (layer, cost) in looked_at {
            let lowered = layer.provenance.iter().map(NodeId::of).filter(|id| graph.node(*id).is_some());
            let lowered: Vec<NodeId> = lowered.collect();
            let Some(first) = lowered.first().copied() else { continue };
            let mut nearest = BTreeSet::new();
            for id in lowered {
                groups.join(first, id);
                ancestry.reach(id, &mut reached, |by, of| groups.join(by, of));
                nearest.extend(ancestry.nearest(id));
            }
            layers_of.push((layer, cost, first, nearest));
        }
        let mut found: BTreeMap<NodeId, Group> = BTreeMap::new();
        for id in reached.iter().filter(|id| self.costs.contains_key(id)) {
            found.entry(groups.root(id)).or_default().nodes.insert(id, 0);
        }
        for (layer, cost, first, nearest) in layers_of {
            if let Some(group) = found.get_mut(&groups.root(first)) {
                group.add(layer, cost, &nearest);
            }
        }
        let mut found: Vec<Composition> =
            found.into_values().filter_map(|group| self.composition(group)).collect();
        found.sort_by_key(|composition| Reverse(composition.layers.nanoseconds()));
        found
    }

    fn composition(&self, group: Group) -> Option<Composition> {
        let mut operators = Cost::default();
        let mut most: Option<((u64, u64), &Operator)> = None;
        for (id, time) in &group.nodes {
            let operator = self.costs.get(id)?;
            let cost = operator.cost?;
            operators = operators + cost;
            let times = (*time, cost.nanoseconds());
            if most.is_none_or(|(most, _)| most < times) {
                most = Some((times, operator));
            }
        }
        let mut types: Vec<(&'static str, usize)> = group.types.into_iter().collect();
        types.sort_by_key(|(_, count)| Reverse(*count));
        let node = most?.1.at.clone();
        Some(Composition { node, nodes: group.nodes.len(), layers: group.cost?, operators, types })
    }
}

/// Returns the cost of an operator; `None` if a size is not known.
pub(crate) fn operator_cost(graph: &Graph, node: &Node) -> Option<Cost> {
    let (op, call) = Call::of(graph, node)?;
    let mut cost = Cost { layers: 1, ..Cost::default() };
    if let Some(multiply_adds) = op.multiply_adds {
        cost.multiply_adds = multiply_adds(&call)?;
    }
    for input in node.inputs.iter().flatten().map(|id| graph.value(*id)) {
        match &input.constant {
            Some(constant) => {
                let bytes = u64::try_from(constant.len()).ok()?.saturating_mul(4);
                cost.weight_bytes = cost.weight_bytes.saturating_add(bytes);
            }
            None => cost.blob_bytes = cost.blob_bytes.saturating_add(bytes_of(input)?),
        }
    }
    for output in node.outputs.iter().flatten().map(|id| graph.value(*id)) {
        cost.blob_bytes = cost.blob_bytes.saturating_add(bytes_of(output)?);
    }
    Some(cost)
}

fn bytes_of(value: &Value) -> Option<u64> {
    op::element_count(value.shape.as_deref()?)?.checked_mul(4)
}

/// Warns of compositions that take many times the work of their operators.
pub(super) fn costly(compositions: &[Composition]) -> Vec<String> {
    let mut found = compositions.iter().filter_map(|found| Some((found, found.excess()?)));
    let mut warnings: Vec<String> =
        (&mut found).take(NAMED).map(|(found, factor)| describe(found, factor)).collect();
    let more = found.count();
    if more > 0 {
        warnings.push(format!("{more} more nodes take many times the work of their operators in layers"));
    }
    warnings
}

fn describe(found: &Composition, factor: u64) -> String {
    let Composition { node, layers, types, .. } = found;
    let cheaper = match node.op_type.as_str() {
        "Conv" | "ConvTranspose" if layers.scalars > 0 => "; with a batch of 1 it is a Convolution",
        "TopK" => "; it takes less over fewer elements",
        "GRU" => {
            "; a GRU trained with linear_before_reset=1 (reset_after in Keras) and the default activations is one layer"
        }
        "Loop" | "Scan" => "; a loop outside the net takes no copies of its body",
        _ => "",
    };
    let time = layers.nanoseconds().div_ceil(1_000_000);
    let layers_of_all: usize = types.iter().map(|(_, n)| n).sum();
    let take = if layers_of_all == 1 { "takes" } else { "take" };
    format!(
        "{node}: its {} ({}) {take} {factor} times the work of the operator, about {time} ms{cheaper}",
        count(layers_of_all, "layer"),
        listed(types)
    )
}

/// Returns the most frequent types, each with its number unless that is 1, and the number of the others.
fn listed(types: &[(&str, usize)]) -> String {
    let (named, others) = types.split_at(types.len().min(TYPES));
    let named =
        named.iter().map(|(name, n)| if *n == 1 { (*name).to_owned() } else { format!("{n} {name}") });
    let others: usize = others.iter().map(|(_, n)| n).sum();
    let others = (others > 0).then(|| count(others, "other"));
    named.chain(others).collect::<Vec<_>>().join(", ")
}
