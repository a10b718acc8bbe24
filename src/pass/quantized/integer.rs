//! Operators between DequantizeLinear and QuantizeLinear become operators on quantized values, as onnxruntime's optimizer makes them:
//! what these compute is integers times a ratio, and the same to the last bit wherever it is computed.

use std::collections::{BTreeMap, BTreeSet};

use num_traits::AsPrimitive;

use smallvec::smallvec;

use super::weight::{bias, is_about_zero, scales};
use super::{MOVING, between, input, made, own};
use crate::error::Result;
use crate::graph::{Attribute, AttributeMap, Graph, Ids, Node, NodeId, ValueId};
use crate::pass::pattern::{Readers, producer, scalar};
use crate::tensor::{Array, DType, Tensor};

/// The largest difference between the step of a bias and that of the sums, as a part of it, at which they are taken to be one.
const SAME_STEP: f32 = 1e-4;

/// The operator set from which Softmax is along one axis.
const ONE_AXIS: i64 = 13;

/// Quantised values, their step and their zero point.
#[derive(Clone, Copy)]
struct Quantised {
    value: ValueId,
    dtype: DType,
    scale: ValueId,
    step: f32,
    zero: ValueId,
    zero_point: i64,
}

/// Makes operators on quantized values wherever it can.
pub(super) fn to_integers(graph: &mut Graph) -> Result<()> {
    let readers = Readers::of(graph);
    let mut fused: BTreeMap<NodeId, Vec<Node>> = BTreeMap::new();
    let mut done: BTreeSet<NodeId> = BTreeSet::new();
    for id in graph.node_ids() {
        let Some(quantize) = graph.node(id).filter(|node| node.is("QuantizeLinear")).cloned() else {
            continue;
        };
        if let Some((inner, nodes)) = fuse(graph, &readers, &quantize)? {
            fused.insert(id, nodes);
            done.extend(inner);
        }
    }
    for id in graph.node_ids() {
        if !done.contains(&id)
            && let Some(node) = graph.node(id).cloned()
            && let Some(nodes) = sums(graph, &node)?
        {
            fused.insert(id, nodes);
        }
    }
    graph.rewrite_nodes(|_, id| Ok(fused.remove(&id)))
}

/// The step and zero point of a node that quantizes or the other way round, one for all elements; `value` is the quantized side.
fn read(graph: &mut Graph, node: &Node, value: ValueId) -> Result<Option<Quantised>> {
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
        None => (whole(graph, &[], &[0], dtype)?, 0),
    };
    Ok(Some(Quantised { value, dtype, scale, step, zero, zero_point }))
}

/// A constant of integers.
fn whole(graph: &mut Graph, shape: &[usize], elements: &[i64], dtype: DType) -> Result<ValueId> {
    let array = Array::i64(ndarray::ArrayD::from_shape_vec(shape, elements.to_vec())?).cast(dtype)?;
    graph.add_constant("", Tensor::from_array(&array)?)
}

/// What a value is the numbers of.
fn dequantised(graph: &mut Graph, value: Option<ValueId>) -> Result<Option<Quantised>> {
    let Some(value) = value.filter(|value| graph.value(*value).dtype == Some(DType::F32)) else {
        return Ok(None);
    };
    let Some(node) = producer(graph, value, "DequantizeLinear").cloned() else { return Ok(None) };
    let Some(quantised) = input(&node, 0) else { return Ok(None) };
    read(graph, &node, quantised)
}

/// The bounds that an activation between an operator and QuantizeLinear holds the quantized values within.
struct Bounds {
    low: i64,
    high: i64,
    is_narrow: bool,
}

impl Bounds {
    fn of(target: &Quantised) -> Bounds {
        let (low, high) = if target.dtype == DType::U8 { (0, 255) } else { (-128, 127) };
        Bounds { low, high, is_narrow: false }
    }

    /// Narrows the bounds to numbers: rounding keeps their order.
    fn narrow(&mut self, target: &Quantised, low: f32, high: f32) {
        let level = |number: f32| AsPrimitive::<i64>::as_((number / target.step).round_ties_even());
        self.low = level(low).saturating_add(target.zero_point).clamp(self.low, self.high);
        self.high = level(high).saturating_add(target.zero_point).clamp(self.low, self.high);
        self.is_narrow = true;
    }

    fn attributes(&self) -> AttributeMap {
        let bound = |name: &str, bound| (name.into(), Attribute::Int(bound));
        match self.is_narrow {
            true => AttributeMap::from_iter([bound("low", self.low), bound("high", self.high)]),
            false => AttributeMap::new(),
        }
    }
}

/// The bounds of Relu, or of Clip with constant bounds.
fn activation(graph: &Graph, node: &Node) -> Option<(f32, f32)> {
    if node.is("Relu") {
        return Some((0.0, f32::INFINITY));
    }
    let bound = |name: &str, index: usize, missing: f32| match (node.attributes.get(name), input(node, index))
    {
        (Some(Attribute::Float(bound)), _) => Some(*bound),
        (_, Some(value)) => scalar(graph, value).map(AsPrimitive::as_),
        _ => Some(missing),
    };
    let bounds = (bound("min", 1, f32::NEG_INFINITY)?, bound("max", 2, f32::INFINITY)?);
    (node.is("Clip") && bounds.0 <= bounds.1).then_some(bounds)
}

/// What takes the place of a QuantizeLinear, and the nodes before it that it does the work of.
fn fuse(graph: &mut Graph, readers: &Readers, quantize: &Node) -> Result<Option<(Vec<NodeId>, Vec<Node>)>> {
    let (Some(mut value), Some(result)) = (input(quantize, 0), quantize.outputs.first().copied().flatten())
    else {
        return Ok(None);
    };
    let Some(target) = read(graph, quantize, result)? else { return Ok(None) };
    let mut bounds = Bounds::of(&target);
    let mut inner = Vec::new();
    if let Some(id) = graph.value(value).producer
        && readers.only(value).is_some()
        && let Some(node) = graph.node(id)
        && let Some((low, high)) = activation(graph, node)
        && let Some(before) = input(node, 0)
    {
        bounds.narrow(&target, low, high);
        value = before;
        inner.push(id);
    }
    let Some(id) = graph.value(value).producer else { return Ok(None) };
    let Some(node) = graph.node(id).cloned() else { return Ok(None) };
    let nodes = if node.is("DequantizeLinear") {
        hold(graph, quantize, value, &target, &bounds)?
    } else if readers.only(value).is_some() {
        inner.push(id);
        let site = Site { node: &node, quantize, target, bounds };
        site.product(graph)?.map_or_else(|| site.other(graph), |nodes| Ok(Some(nodes)))?
    } else {
        None
    };
    Ok(nodes.map(|nodes| (inner, nodes)))
}

/// Quantised values that are only held within bounds.
fn hold(
    graph: &mut Graph,
    quantize: &Node,
    value: ValueId,
    target: &Quantised,
    bounds: &Bounds,
) -> Result<Option<Vec<Node>>> {
    let Some(x) = dequantised(graph, Some(value))?.filter(|x| x.is_like(target)) else { return Ok(None) };
    if !bounds.is_narrow {
        return Ok(Some(vec![made(quantize, "Identity", &[x.value], quantize.outputs.clone())]));
    }
    let low = whole(graph, &[], &[bounds.low], x.dtype)?;
    let high = whole(graph, &[], &[bounds.high], x.dtype)?;
    Ok(Some(vec![made(quantize, "Clip", &[x.value, low, high], quantize.outputs.clone())]))
}

impl Quantised {
    /// Whether both have the same steps, zero points and types.
    fn is_like(&self, other: &Quantised) -> bool {
        self.dtype == other.dtype
            && self.zero_point == other.zero_point
            && self.step.to_bits() == other.step.to_bits()
    }

    fn inputs(&self) -> [Option<ValueId>; 3] {
        [self.value, self.scale, self.zero].map(Some)
    }
}

/// An operator, and the QuantizeLinear after it.
struct Site<'a> {
    node: &'a Node,
    quantize: &'a Node,
    target: Quantised,
    bounds: Bounds,
}

impl Site<'_> {
    /// Whether the windows of a pooling have no holes: QLinearAveragePool knows none.
    fn is_pooled_alike(&self) -> bool {
        !self.node.attributes.contains_key("dilations")
    }

    fn result(&self) -> [Option<ValueId>; 2] {
        [Some(self.target.scale), Some(self.target.zero)]
    }

    /// A node of this program's own domain in the place of both.
    fn own(&self, op_type: &str, inputs: Ids, attributes: AttributeMap) -> Vec<Node> {
        let attributes = attributes.into_iter().chain(self.bounds.attributes()).collect();
        vec![Node { inputs, ..own(self.quantize, op_type, &[], attributes) }]
    }

    /// Convolutions and products of matrices.
    fn product(&self, graph: &mut Graph) -> Result<Option<Vec<Node>>> {
        let node = self.node;
        let Some(kind) = Kind::of(graph, node) else { return Ok(None) };
        let Some(x) = dequantised(graph, input(node, 0))? else { return Ok(None) };
        if kind == Kind::MatMul
            && let Some(other) = dequantised(graph, input(node, 1))?
        {
            let inputs = x.inputs().into_iter().chain(other.inputs()).chain(self.result()).collect();
            return Ok(Some(self.own("QLinearMatMul", inputs, AttributeMap::new())));
        }
        let Some(weight) = Weight::read(graph, node, kind)? else { return Ok(None) };
        let inputs = x.inputs().into_iter().chain(weight.inputs());
        let result = self.result();
        if kind == Kind::MatMul {
            let inputs = inputs.chain(result).collect();
            return Ok(Some(self.own("QLinearMatMul", inputs, AttributeMap::new())));
        }
        let Some(bias) = whole_bias(graph, node, &x, &weight)? else { return Ok(None) };
        Ok(Some(match kind {
            Kind::Conv => {
                let inputs = inputs.chain(result).chain([bias]).collect();
                self.own("QLinearConv", inputs, node.attributes.clone())
            }
            _ => {
                let inputs = inputs.chain([bias]).chain(result).collect();
                let transposed = node.attributes.get("transB").cloned();
                let attributes = transposed.map(|flag| ("transB".into(), flag)).into_iter().collect();
                self.own("QGemm", inputs, attributes)
            }
        }))
    }

    /// Sums, products, means, and what only moves elements.
    fn other(&self, graph: &mut Graph) -> Result<Option<Vec<Node>>> {
        let node = self.node;
        let mut parts = Vec::new();
        let moving = node.domain.is_empty() && MOVING.contains(&node.op_type.as_str());
        let count = if moving { 1 } else { node.inputs.len() };
        for index in 0..count {
            let Some(part) = dequantised(graph, input(node, index))? else { return Ok(None) };
            parts.push(part);
        }
        let inputs = parts.iter().flat_map(Quantised::inputs);
        Ok(Some(match (node.op_type.as_str(), parts.as_slice()) {
            (_, [x])
                if moving && x.is_like(&self.target) && !self.bounds.is_narrow && node.outputs.len() == 1 =>
            {
                let mut moved = node.clone();
                moved.outputs.clone_from(&self.quantize.outputs);
                if let Some(first) = moved.inputs.first_mut() {
                    *first = Some(x.value);
                }
                vec![moved]
            }
            ("Add", [_, _]) if node.domain.is_empty() => {
                self.own("QLinearAdd", inputs.chain(self.result()).collect(), AttributeMap::new())
            }
            ("Mul", [_, _]) if node.domain.is_empty() => {
                self.own("QLinearMul", inputs.chain(self.result()).collect(), AttributeMap::new())
            }
            ("Concat", _) if node.domain.is_empty() => {
                let inputs = self.result().into_iter().chain(inputs).collect();
                self.own("QLinearConcat", inputs, node.attributes.clone())
            }
            ("AveragePool", [_]) if node.domain.is_empty() && self.is_pooled_alike() => {
                self.own("QLinearAveragePool", inputs.chain(self.result()).collect(), node.attributes.clone())
            }
            ("Softmax", [_]) if node.domain.is_empty() && node.version >= ONE_AXIS => {
                let mut attributes = node.attributes.clone();
                attributes.insert("opset".into(), Attribute::Int(node.version));
                self.own("QLinearSoftmax", inputs.chain(self.result()).collect(), attributes)
            }
            ("GlobalAveragePool", [_]) if node.domain.is_empty() => self.own(
                "QLinearGlobalAveragePool",
                inputs.chain(self.result()).collect(),
                AttributeMap::new(),
            ),
            _ => return Ok(None),
        }))
    }
}

#[derive(Clone, Copy, PartialEq)]
enum Kind {
    Conv,
    Gemm,
    MatMul,
}

impl Kind {
    /// Which product a node is, where it is a plain one.
    fn of(graph: &Graph, node: &Node) -> Option<Kind> {
        let float = |name: &str| match node.attributes.get(name) {
            Some(Attribute::Float(value)) => *value,
            _ => 1.0,
        };
        let transposed = matches!(node.attributes.get("transA"), Some(Attribute::Int(flag)) if *flag != 0);
        if node.is("Gemm") {
            let plain = float("alpha") == 1.0 && float("beta") == 1.0 && !transposed;
            return plain.then_some(Kind::Gemm);
        }
        let rank = input(node, 1).and_then(|weight| Some(graph.value(weight).shape.as_ref()?.len()));
        match (node.is("Conv"), node.is("MatMul"), rank) {
            (true, _, _) => Some(Kind::Conv),
            (_, true, Some(rank)) if rank >= 2 => Some(Kind::MatMul),
            _ => None,
        }
    }
}

/// A constant in quantized values.
struct Weight {
    value: ValueId,
    scale: ValueId,
    zero: Option<ValueId>,
    /// The step of each output.
    steps: Vec<f32>,
}

impl Weight {
    fn inputs(&self) -> [Option<ValueId>; 3] {
        [Some(self.value), Some(self.scale), self.zero]
    }

    /// Input 1 of a product, where it is such a constant with a step for all, or one for each output.
    fn read(graph: &Graph, node: &Node, kind: Kind) -> Result<Option<Weight>> {
        let Some(dequantize) = input(node, 1).and_then(|weight| producer(graph, weight, "DequantizeLinear"))
        else {
            return Ok(None);
        };
        let (Some(value), Some(scale)) = (input(dequantize, 0), input(dequantize, 1)) else {
            return Ok(None);
        };
        let Some(tensor) = &graph.value(value).constant else { return Ok(None) };
        let transposed = matches!(node.attributes.get("transB"), Some(Attribute::Int(flag)) if *flag != 0);
        let axis = match kind {
            Kind::Conv => 0,
            Kind::Gemm if transposed => 0,
            Kind::Gemm | Kind::MatMul if tensor.shape().len() == 2 => 1,
            _ => return Ok(None),
        };
        let outputs = tensor.shape().get(axis).copied().unwrap_or(0);
        let found = scales(graph, dequantize, outputs, axis)?;
        let found = found.filter(|_| matches!(tensor.dtype(), DType::I8 | DType::U8));
        Ok(found.map(|steps| Weight { value, scale, zero: input(dequantize, 2), steps }))
    }
}

/// The bias of a product in steps of its sums: as the model has it, where that is what its steps are.
fn whole_bias(
    graph: &mut Graph,
    node: &Node,
    x: &Quantised,
    weight: &Weight,
) -> Result<Option<Option<ValueId>>> {
    let outputs = weight.steps.len();
    let Some(value) = input(node, 2) else { return Ok(Some(None)) };
    if let Some(dequantize) = producer(graph, value, "DequantizeLinear")
        && let Some(quantised) = input(dequantize, 0)
        && let Some(tensor) = &graph.value(quantised).constant
        && tensor.dtype() == DType::I32
        && tensor.shape() == [outputs]
        && let Some(steps) = scales(graph, dequantize, outputs, 0)?
    {
        let is_same = |(step, weight): (&f32, &f32)| (step / (x.step * weight) - 1.0).abs() < SAME_STEP;
        if steps.iter().zip(&weight.steps).all(is_same) && is_about_zero(graph, dequantize)? {
            return Ok(Some(Some(quantised)));
        }
    }
    let Some(list) = bias(graph, node, outputs)? else { return Ok(None) };
    let steps = list.iter().zip(&weight.steps).map(|(bias, step)| {
        let steps = f64::from(*bias) / (f64::from(x.step) * f64::from(*step));
        (steps.abs() < f64::from(i32::MAX)).then(|| AsPrimitive::<i64>::as_(steps.round_ties_even()))
    });
    let Some(steps) = steps.collect::<Option<Vec<i64>>>() else { return Ok(None) };
    whole(graph, &[outputs], &steps, DType::I32).map(|bias| Some(Some(bias)))
}

/// A product whose result stays a number: the sums of integers, times the step of each output.
fn sums(graph: &mut Graph, node: &Node) -> Result<Option<Vec<Node>>> {
    let Some(kind) = Kind::of(graph, node) else { return Ok(None) };
    let Some(x) = dequantised(graph, input(node, 0))? else { return Ok(None) };
    let Some(weight) = Weight::read(graph, node, kind)? else { return Ok(None) };
    if kind == Kind::Gemm {
        let Some(bias) = whole_bias(graph, node, &x, &weight)? else { return Ok(None) };
        let inputs = x.inputs().into_iter().chain(weight.inputs()).chain([bias]).collect();
        let transposed = node.attributes.get("transB").cloned();
        let attributes = transposed.map(|flag| ("transB".into(), flag)).into_iter().collect();
        return Ok(Some(vec![Node { inputs, ..own(node, "QGemm", &[], attributes) }]));
    }
    let float = i64::from(DType::F32.to_onnx());
    let (summed, number) = (between(graph), between(graph));
    let steps: Vec<f32> = weight.steps.iter().map(|step| x.step * step).collect();
    let mut shape = vec![steps.len()];
    let (op_type, attributes) = match kind {
        Kind::Conv => {
            let rank = graph.value(weight.value).shape.as_ref().map_or(2, |shape| shape.len());
            shape.resize(rank.saturating_sub(1).max(1), 1);
            ("ConvInteger", node.attributes.clone())
        }
        _ => ("MatMulInteger", AttributeMap::new()),
    };
    let steps = graph.add_constant("", Tensor::from_f32(&shape, steps)?)?;
    let inputs = smallvec![Some(x.value), Some(weight.value), Some(x.zero), weight.zero];
    let bias = match (kind, input(node, 2)) {
        (Kind::Conv, Some(_)) => {
            let Some(list) = bias(graph, node, weight.steps.len())? else { return Ok(None) };
            Some(graph.add_constant("", Tensor::from_f32(&shape, list)?)?)
        }
        _ => None,
    };
    let to = AttributeMap::from_iter([("to".into(), Attribute::Int(float))]);
    let mut nodes = vec![
        Node { inputs, attributes, ..made(node, op_type, &[], smallvec![Some(summed)]) },
        Node { attributes: to, ..made(node, "Cast", &[summed], smallvec![Some(number)]) },
    ];
    match bias {
        None => nodes.push(made(node, "Mul", &[number, steps], node.outputs.clone())),
        Some(bias) => {
            let scaled = between(graph);
            nodes.push(made(node, "Mul", &[number, steps], smallvec![Some(scaled)]));
            nodes.push(made(node, "Add", &[scaled, bias], node.outputs.clone()));
        }
    }
    Ok(Some(nodes))
}
