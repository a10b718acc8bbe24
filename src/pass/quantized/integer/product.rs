//! Convolutions and matrix products of quantized values.

use num_traits::AsPrimitive;

use super::super::weight::{bias, is_symmetric, scales};
use super::super::{CLIP, constant_input, dequantize_before, is_plain_gemm, is_set};
use super::{Quantized, QuantizedOp, quantized_source};
use crate::error::Result;
use crate::graph::{Attribute, AttributeMap, Graph, Node, ValueId};
use crate::op::OWN_DOMAIN;
use crate::pass::insertion::InsertionPoint;
use crate::pass::pattern::input;
use crate::tensor::{Array, DType, Tensor};

/// The largest relative difference between the scale of a bias and that of the sums at which they count as
/// equal.
const SAME_SCALE: f32 = 1e-4;

#[derive(Clone, Copy, PartialEq)]
enum Kind {
    Conv,
    Gemm,
    MatMul,
}

impl Kind {
    fn of(graph: &Graph, node: &Node) -> Option<Kind> {
        let rank = || Some(graph.value(input(node, 1)?).shape.as_ref()?.len());
        if node.is("Conv") {
            Some(Kind::Conv)
        } else if node.is("Gemm") {
            is_plain_gemm(node).then_some(Kind::Gemm)
        } else {
            (node.is("MatMul") && rank()? >= 2).then_some(Kind::MatMul)
        }
    }
}

/// A quantized constant.
struct Weight {
    value: ValueId,
    scale: ValueId,
    zero: Option<ValueId>,
    /// The scale of each output.
    steps: Vec<f32>,
}

impl Weight {
    fn inputs(&self) -> [Option<ValueId>; 3] {
        [Some(self.value), Some(self.scale), self.zero]
    }

    /// Reads input 1 of a product if it is a quantized constant with one scale, or one for each output.
    fn read(graph: &Graph, node: &Node, kind: Kind) -> Result<Option<Weight>> {
        let Some(dequantize) = dequantize_before(graph, node, 1) else { return Ok(None) };
        let (Some(value), Some(scale)) = (input(dequantize, 0), input(dequantize, 1)) else {
            return Ok(None);
        };
        let Some(tensor) = &graph.value(value).constant else { return Ok(None) };
        let axis = match kind {
            Kind::Conv => 0,
            Kind::Gemm if is_set(node, "transB") => 0,
            Kind::Gemm | Kind::MatMul if tensor.shape().len() == 2 => 1,
            _ => return Ok(None),
        };
        let outputs = tensor.shape().get(axis).copied().unwrap_or(0);
        let steps = scales(graph, dequantize, outputs, axis)?;
        let steps = steps.filter(|_| matches!(tensor.dtype(), DType::I8 | DType::U8));
        Ok(steps.map(|steps| Weight { value, scale, zero: input(dequantize, 2), steps }))
    }
}

/// The attributes of QGemm.
fn gemm_attributes(node: &Node) -> AttributeMap {
    node.attributes.get("transB").map(|flag| ("transB".into(), flag.clone())).into_iter().collect()
}

impl QuantizedOp<'_> {
    /// Replaces convolutions and matrix products.
    pub(super) fn product(&self, graph: &mut Graph) -> Result<Option<Vec<Node>>> {
        let node = self.node;
        let Some(kind) = Kind::of(graph, node) else { return Ok(None) };
        let Some(x) = quantized_source(graph, input(node, 0))? else { return Ok(None) };
        let result = self.result();
        if kind == Kind::MatMul
            && let Some(other) = quantized_source(graph, input(node, 1))?
        {
            let inputs = x.inputs().into_iter().chain(other.inputs()).chain(result);
            return Ok(Some(self.own(graph, "QLinearMatMul", inputs, AttributeMap::new())));
        }
        let Some(weight) = Weight::read(graph, node, kind)? else { return Ok(None) };
        let operands = x.inputs().into_iter().chain(weight.inputs());
        if kind == Kind::MatMul {
            return Ok(Some(self.own(graph, "QLinearMatMul", operands.chain(result), AttributeMap::new())));
        }
        let Some(bias) = integer_bias(graph, node, &x, &weight)? else { return Ok(None) };
        Ok(Some(if kind == Kind::Conv {
            let inputs = operands.chain(result).chain([bias]);
            self.own(graph, "QLinearConv", inputs, node.attributes.clone())
        } else {
            self.own(graph, "QGemm", operands.chain([bias]).chain(result), gemm_attributes(node))
        }))
    }
}

/// Returns the bias of a product as integers in the scale of its sums; the model's own if it has that scale.
fn integer_bias(
    graph: &mut Graph,
    node: &Node,
    x: &Quantized,
    weight: &Weight,
) -> Result<Option<Option<ValueId>>> {
    let outputs = weight.steps.len();
    if input(node, 2).is_none() {
        return Ok(Some(None));
    }
    if let Some(dequantize) = dequantize_before(graph, node, 2)
        && let Some(tensor) = constant_input(graph, dequantize, 0)
        && tensor.dtype() == DType::I32
        && tensor.shape() == [outputs]
        && let Some(steps) = scales(graph, dequantize, outputs, 0)?
    {
        let is_same = |(step, weight): (&f32, &f32)| (step / (x.step * weight) - 1.0).abs() < SAME_SCALE;
        if steps.iter().zip(&weight.steps).all(is_same) && is_symmetric(graph, dequantize)? {
            return Ok(Some(input(dequantize, 0)));
        }
    }
    let Some(list) = bias(graph, node, outputs)? else { return Ok(None) };
    let levels = list.iter().zip(&weight.steps).map(|(bias, step)| {
        let level = f64::from(*bias) / (f64::from(x.step) * f64::from(*step));
        (level.abs() < f64::from(i32::MAX)).then(|| AsPrimitive::<i64>::as_(level.round_ties_even()))
    });
    let Some(levels) = levels.collect::<Option<Vec<i64>>>() else { return Ok(None) };
    let levels = Array::i64(ndarray::Array1::from(levels).into_dyn()).cast(DType::I32)?;
    Ok(Some(Some(graph.add_constant("", Tensor::from_array(&levels)?)?)))
}

/// Replaces a product whose result is not quantized by integer sums times the scale of each output.
pub(super) fn to_float(graph: &mut Graph, node: &Node) -> Result<Option<Vec<Node>>> {
    let Some(kind) = Kind::of(graph, node) else { return Ok(None) };
    let Some(x) = quantized_source(graph, input(node, 0))? else { return Ok(None) };
    let Some(weight) = Weight::read(graph, node, kind)? else { return Ok(None) };
    if kind == Kind::Gemm {
        let Some(bias) = integer_bias(graph, node, &x, &weight)? else { return Ok(None) };
        let inputs = x.inputs().into_iter().chain(weight.inputs()).chain([bias]);
        let point = InsertionPoint::in_place_of(graph, node, OWN_DOMAIN, 1);
        return Ok(Some(point.finish("QGemm", inputs, gemm_attributes(node))));
    }
    let scales: Vec<f32> = weight.steps.iter().map(|step| x.step * step).collect();
    let mut shape = vec![scales.len()];
    let (op_type, attributes) = if kind == Kind::Conv {
        let rank = graph.value(weight.value).shape.as_ref().map_or(2, |shape| shape.len());
        shape.resize(rank.saturating_sub(1).max(1), 1);
        ("ConvInteger", node.attributes.clone())
    } else {
        ("MatMulInteger", AttributeMap::new())
    };
    let scales = graph.add_constant("", Tensor::from_f32(&shape, scales)?)?;
    let bias = if kind == Kind::Conv && input(node, 2).is_some() {
        let Some(list) = bias(graph, node, weight.steps.len())? else { return Ok(None) };
        Some(graph.add_constant("", Tensor::from_f32(&shape, list)?)?)
    } else {
        None
    };
    let mut point = InsertionPoint::in_place_of(graph, node, "", node.version.max(CLIP));
    let inputs = [Some(x.value), Some(weight.value), Some(x.zero), weight.zero];
    let sums = point.op_of(None, op_type, inputs, attributes);
    let to = ("to", Attribute::Int(i64::from(DType::F32.to_onnx())));
    let sums = point.op("Cast", &[sums], &[to]);
    Ok(Some(match bias {
        None => point.finish("Mul", [sums, scales].map(Some), AttributeMap::new()),
        Some(bias) => {
            let scaled = point.op("Mul", &[sums, scales], &[]);
            point.finish("Add", [scaled, bias].map(Some), AttributeMap::new())
        }
    }))
}
