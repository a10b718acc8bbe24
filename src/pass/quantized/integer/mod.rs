//! Replaces operators between DequantizeLinear and QuantizeLinear by operators on quantized values, as
//! onnxruntime's optimizer does. Those compute integers times a ratio, to the last bit the same on every
//! machine.

mod product;

use std::collections::{BTreeMap, BTreeSet};

use num_traits::AsPrimitive;

use super::{CLIP, is_move, with_first_input};
use crate::error::Result;
use crate::graph::{Attribute, AttributeMap, Graph, Ids, Node, NodeId, ValueId};
use crate::op::OWN_DOMAIN;
use crate::pass::insertion::InsertionPoint;
use crate::pass::pattern::{Readers, producer, scalar};
use crate::pass::pattern::{input, only_output};
use crate::tensor::DType;

/// The operator set since which Softmax normalizes one axis.
const ONE_AXIS: i64 = 13;

/// Quantized values with one scale and one zero point.
#[derive(Clone, Copy)]
struct Quantized {
    value: ValueId,
    dtype: DType,
    scale: ValueId,
    step: f32,
    zero: ValueId,
    zero_point: i64,
}

/// Creates operators on quantized values wherever possible.
pub(super) fn to_integers(graph: &mut Graph) -> Result<()> {
    let readers = Readers::of(graph);
    let mut replaced: BTreeMap<NodeId, Vec<Node>> = BTreeMap::new();
    let mut done: BTreeSet<NodeId> = BTreeSet::new();
    for id in graph.node_ids() {
        let Some(quantize) = graph.node(id).filter(|node| node.is("QuantizeLinear")).cloned() else {
            continue;
        };
        if let Some((inner, nodes)) = fuse(graph, &readers, &quantize)? {
            replaced.insert(id, nodes);
            done.extend(inner);
        }
    }
    for id in graph.node_ids() {
        if !done.contains(&id)
            && let Some(node) = graph.node(id).cloned()
            && let Some(nodes) = product::to_float(graph, &node)?
        {
            replaced.insert(id, nodes);
        }
    }
    graph.rewrite_nodes(|_, id| Ok(replaced.remove(&id)))
}

/// Reads the scale and the zero point of QuantizeLinear or DequantizeLinear; `value` is its quantized side.
fn read(graph: &mut Graph, node: &Node, value: ValueId) -> Result<Option<Quantized>> {
    let dtype = graph.value(value).dtype;
    let (Some(dtype @ (DType::I8 | DType::U8)), Some(scale)) = (dtype, input(node, 1)) else {
        return Ok(None);
    };
    let Some(step) = scalar(graph, scale).map(AsPrimitive::<f32>::as_) else { return Ok(None) };
    if !(step.is_normal() && step > 0.0) || graph.value(scale).dtype != Some(DType::F32) {
        return Ok(None);
    }
    let (zero, zero_point) = match input(node, 2) {
        Some(zero) => match scalar(graph, zero) {
            Some(point) => (zero, point.as_()),
            None => return Ok(None),
        },
        None => (InsertionPoint::new(graph).scalar(dtype, 0.0)?, 0),
    };
    Ok(Some(Quantized { value, dtype, scale, step, zero, zero_point }))
}

/// Returns the quantized values that DequantizeLinear converts to `value`.
fn quantized_source(graph: &mut Graph, value: Option<ValueId>) -> Result<Option<Quantized>> {
    let Some(value) = value.filter(|value| graph.value(*value).dtype == Some(DType::F32)) else {
        return Ok(None);
    };
    let Some(node) = producer(graph, value, "DequantizeLinear").cloned() else { return Ok(None) };
    let Some(quantized) = input(&node, 0) else { return Ok(None) };
    read(graph, &node, quantized)
}

/// Returns the bounds of Relu, or of Clip with constant bounds.
fn activation_bounds(graph: &Graph, node: &Node) -> Option<(f32, f32)> {
    if node.is("Relu") {
        return Some((0.0, f32::INFINITY));
    }
    let bound = |name: &str, index: usize, default: f32| match (node.attributes.get(name), input(node, index))
    {
        (Some(Attribute::Float(bound)), _) => Some(*bound),
        (_, Some(value)) => scalar(graph, value).map(AsPrimitive::as_),
        _ => Some(default),
    };
    let bounds = (bound("min", 1, f32::NEG_INFINITY)?, bound("max", 2, f32::INFINITY)?);
    (node.is("Clip") && bounds.0 <= bounds.1).then_some(bounds)
}

/// Returns the nodes that replace a QuantizeLinear, and the nodes before it that they include.
fn fuse(graph: &mut Graph, readers: &Readers, quantize: &Node) -> Result<Option<(Vec<NodeId>, Vec<Node>)>> {
    let (Some(mut value), Some(result)) = (input(quantize, 0), only_output(quantize)) else {
        return Ok(None);
    };
    let Some(target) = read(graph, quantize, result)? else { return Ok(None) };
    let mut bounds = None;
    let mut inner = Vec::new();
    if let Some(id) = graph.value(value).producer
        && readers.only(value).is_some()
        && let Some(node) = graph.node(id)
        && let Some((low, high)) = activation_bounds(graph, node)
        && let Some(before) = input(node, 0)
    {
        bounds = Some([low, high].map(|bound| target.quantize(bound)));
        value = before;
        inner.push(id);
    }
    let Some(id) = graph.value(value).producer else { return Ok(None) };
    let Some(node) = graph.node(id).cloned() else { return Ok(None) };
    let op = QuantizedOp { node: &node, quantize, target, bounds };
    let nodes = if node.is("DequantizeLinear") {
        let x = quantized_source(graph, Some(value))?;
        x.filter(|x| x.is_like(&target)).map(|x| op.clip(graph, &x)).transpose()?
    } else if readers.only(value).is_some() {
        inner.push(id);
        match op.product(graph)? {
            None => op.other(graph)?,
            nodes => nodes,
        }
    } else {
        None
    };
    Ok(nodes.map(|nodes| (inner, nodes)))
}

impl Quantized {
    /// Whether both have the same scale, zero point and type.
    fn is_like(&self, other: &Quantized) -> bool {
        self.dtype == other.dtype
            && self.zero_point == other.zero_point
            && self.step.to_bits() == other.step.to_bits()
    }

    /// Rounds a float to a quantized value within the bounds of the type.
    fn quantize(&self, float: f32) -> i64 {
        let (low, high) = if self.dtype == DType::U8 { (0, 255) } else { (-128, 127) };
        let level = AsPrimitive::<i64>::as_((float / self.step).round_ties_even());
        level.saturating_add(self.zero_point).clamp(low, high)
    }

    fn inputs(&self) -> [Option<ValueId>; 3] {
        [self.value, self.scale, self.zero].map(Some)
    }
}

/// An operator and the QuantizeLinear after it.
struct QuantizedOp<'a> {
    node: &'a Node,
    quantize: &'a Node,
    target: Quantized,
    /// The bounds of an activation between both, as quantized values.
    bounds: Option<[i64; 2]>,
}

impl QuantizedOp<'_> {
    /// The scale and the zero point of the result, as inputs.
    fn result(&self) -> [Option<ValueId>; 2] {
        [self.target.scale, self.target.zero].map(Some)
    }

    /// Replaces both by a node of this program's own domain.
    fn own(
        &self,
        graph: &mut Graph,
        op_type: &str,
        inputs: impl IntoIterator<Item = Option<ValueId>>,
        mut attributes: AttributeMap,
    ) -> Vec<Node> {
        if let Some([low, high]) = self.bounds {
            attributes.insert("low".into(), Attribute::Int(low));
            attributes.insert("high".into(), Attribute::Int(high));
        }
        InsertionPoint::in_place_of(graph, self.quantize, OWN_DOMAIN, 1).finish(op_type, inputs, attributes)
    }

    /// Clips quantized values that need no requantization.
    fn clip(&self, graph: &mut Graph, x: &Quantized) -> Result<Vec<Node>> {
        let version = self.quantize.version.max(CLIP);
        let mut point = InsertionPoint::in_place_of(graph, self.quantize, "", version);
        let Some([low, high]) = self.bounds else {
            return Ok(point.finish("Identity", [Some(x.value)], AttributeMap::new()));
        };
        let (low, high) = (point.scalar(x.dtype, low.as_())?, point.scalar(x.dtype, high.as_())?);
        Ok(point.finish("Clip", [x.value, low, high].map(Some), AttributeMap::new()))
    }

    /// Replaces sums, products, means, and operators that move elements.
    fn other(&self, graph: &mut Graph) -> Result<Option<Vec<Node>>> {
        let node = self.node;
        if !node.domain.is_empty() {
            return Ok(None);
        }
        let mut parts = Vec::new();
        for index in 0..if is_move(node) { 1 } else { node.inputs.len() } {
            let Some(part) = quantized_source(graph, input(node, index))? else { return Ok(None) };
            parts.push(part);
        }
        if is_move(node) {
            let can_move = |x: &&Quantized| x.is_like(&self.target) && self.bounds.is_none();
            return Ok(parts.first().filter(can_move).map(|x| {
                vec![Node { outputs: self.quantize.outputs.clone(), ..with_first_input(node, x.value) }]
            }));
        }
        let (op_type, attributes) = match (node.op_type.as_str(), parts.len()) {
            ("Add", 2) => ("QLinearAdd", AttributeMap::new()),
            ("Mul", 2) => ("QLinearMul", AttributeMap::new()),
            ("Concat", _) => ("QLinearConcat", node.attributes.clone()),
            // QLinearAveragePool has no dilations.
            ("AveragePool", 1) if !node.attributes.contains_key("dilations") => {
                ("QLinearAveragePool", node.attributes.clone())
            }
            ("GlobalAveragePool", 1) => ("QLinearGlobalAveragePool", AttributeMap::new()),
            ("Softmax", 1) if node.version >= ONE_AXIS => {
                let mut attributes = node.attributes.clone();
                attributes.insert("opset".into(), Attribute::Int(node.version));
                ("QLinearSoftmax", attributes)
            }
            _ => return Ok(None),
        };
        let inputs = parts.iter().flat_map(Quantized::inputs);
        let inputs: Ids = match op_type {
            "QLinearConcat" => self.result().into_iter().chain(inputs).collect(),
            _ => inputs.chain(self.result()).collect(),
        };
        Ok(Some(self.own(graph, op_type, inputs, attributes)))
    }
}
