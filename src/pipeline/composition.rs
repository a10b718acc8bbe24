//! Compositions: the layers that do the work of a node, and their cost compared with its operator.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use crate::common::groups::Groups;
use crate::common::index::Index;
use crate::error::NodeAt;
use crate::graph::{Graph, Node, NodeId, Value};
use crate::ncnn::{Cost, Net};
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

/// Nodes of a model that share layers, and their costs.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Composition {
    /// The node of the largest cost.
    pub node: NodeAt,
    /// The number of nodes.
    pub nodes: usize,
    /// The cost of the layers.
    pub layers: Cost,
    /// The cost of the operators: their multiply-adds, constants, inputs and results.
    pub operators: Cost,
    /// The layers of the node's operator, for readers.
    pub(crate) lowers_to: &'static str,
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
    lowers_to: &'static str,
}

impl Operators {
    /// Reads the nodes of a graph with inferred shapes.
    pub fn of(graph: &Graph) -> Operators {
        let entry = |(id, node): (NodeId, &Node)| {
            let lowers_to = op::find(node)?.lowers_to;
            let operator = Operator { at: node.at(), cost: operator_cost(graph, node), lowers_to };
            Some((id, operator))
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
        let ids: BTreeMap<usize, NodeId> = graph.node_ids().into_iter().map(|id| (id.index(), id)).collect();
        let mut groups = Groups::default();
        let mut layers_of: Vec<(NodeId, Option<Cost>)> = Vec::new();
        for (layer, cost) in looked_at {
            let lowered = layer.provenance.iter().filter_map(|number| ids.get(&number));
            let mut nodes = lowered.flat_map(|id| ancestry.of(*id)).filter(|id| self.costs.contains_key(id));
            let Some(first) = nodes.next() else { continue };
            nodes.for_each(|node| groups.join(first, node));
            layers_of.push((first, cost));
        }
        let mut sums: BTreeMap<NodeId, (Option<Cost>, Vec<NodeId>)> = BTreeMap::new();
        for (node, cost) in layers_of {
            let (sum, _) = sums.entry(groups.root(node)).or_insert((Some(Cost::default()), Vec::new()));
            *sum = sum.zip(cost).map(|(sum, cost)| sum + cost);
        }
        for node in self.costs.keys() {
            if let Some((_, members)) = sums.get_mut(&groups.root(*node)) {
                members.push(*node);
            }
        }
        let mut found: Vec<Composition> =
            sums.into_values().filter_map(|(sum, members)| self.composition(sum?, &members)).collect();
        found.sort_by_key(|composition| Reverse(composition.layers.nanoseconds()));
        found
    }

    fn composition(&self, layers: Cost, members: &[NodeId]) -> Option<Composition> {
        let mut operators = Cost::default();
        let mut most: Option<(u64, &Operator)> = None;
        for operator in members.iter().filter_map(|id| self.costs.get(id)) {
            let cost = operator.cost?;
            operators = operators + cost;
            if most.is_none_or(|(time, _)| time < cost.nanoseconds()) {
                most = Some((cost.nanoseconds(), operator));
            }
        }
        let Operator { at, lowers_to, .. } = most?.1;
        Some(Composition { node: at.clone(), nodes: members.len(), layers, operators, lowers_to })
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
    let Composition { node, layers, lowers_to, .. } = found;
    let reason = if lowers_to.is_empty() { String::new() } else { format!(", as {lowers_to}") };
    let cheaper = match node.op_type.as_str() {
        "Conv" | "ConvTranspose" if layers.scalars > 0 => "; with a batch of 1 it is a Convolution",
        "TopK" => "; it takes less over fewer elements",
        "Loop" | "Scan" => "; a loop outside the net takes no copies of its body",
        _ => "",
    };
    let time = layers.nanoseconds().div_ceil(1_000_000);
    let NodeAt { name, index, op_type, version } = node;
    let name = if name.is_empty() { String::new() } else { format!(" \"{name}\"") };
    format!(
        "node {index}{name} {op_type}-{version}: its {} layers take {factor} times the work of the operator, about {time} ms{reason}{cheaper}",
        layers.layers
    )
}
