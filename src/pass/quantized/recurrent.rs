//! Recurrent nodes whose weights are quantized. ncnn has layers with weights of int8, which at every step
//! round the other values by their range.

use super::Quantization;
use super::step::constant_input;
use super::weight::{is_symmetric, scales};
use crate::error::{At, Result};
use crate::graph::{Attribute, Graph, Node, ValueId, pairs};
use crate::ncnn::layer::LSTM;
use crate::op::{self, NEWEST_OPSET};
use crate::pass::builder::{Builder, Expr, replacement_of};
use crate::pass::pattern::{is_set, producer};
use crate::tensor::{DType, Tensor};

/// The operators of ncnn's domain. Their weights are floats that rows of int8 stand for.
pub(crate) const INT8_GRU: &str = "Int8GRU";
pub(crate) const INT8_LSTM: &str = "Int8LSTM";

/// The attributes that ncnn's layers have.
const ATTRIBUTES: [&str; 3] = ["direction", "hidden_size", "linear_before_reset"];

/// The indices of the weights, and of LSTM's peepholes, which its layer does not have.
const WEIGHTS: [usize; 2] = [1, 2];
const PEEPHOLES: usize = 7;

/// Whether recurrent layers may have weights of int8.
#[derive(Clone, Copy)]
pub(super) struct RecurrentLayers {
    has_int8: bool,
}

impl RecurrentLayers {
    /// Creates the choice for a quantization. `release` is the oldest release of ncnn that must load the net,
    /// if the user asked for one.
    pub fn of(to: Quantization, release: Option<u32>) -> Result<RecurrentLayers> {
        let factors = Some(Tensor::from_f32(&[1], vec![1.0])?);
        let since = LSTM { weight_xc_data_int8_scales: factors, ..LSTM::default() }.since();
        Ok(RecurrentLayers {
            has_int8: to == Quantization::Int8 && release.is_none_or(|release| release >= since),
        })
    }

    /// Returns the operator instead of an LSTM or GRU, `plain`, with the inputs of a node: that with weights
    /// of int8, if ncnn's layers have all features of the node.
    pub fn operator(self, node: &Node, plain: &'static str) -> &'static str {
        let has_all =
            attributes(node).all(|(name, _)| ATTRIBUTES.contains(&name)) && node.input(PEEPHOLES).is_none();
        let resets_after = is_set(node, "linear_before_reset");
        match plain {
            "LSTM" if self.has_int8 && has_all => "ncnn.Int8LSTM",
            "GRU" if self.has_int8 && has_all && resets_after => "ncnn.Int8GRU",
            _ => plain,
        }
    }
}

/// Returns the attributes of a recurrent node that are not the default.
fn attributes(node: &Node) -> impl Iterator<Item = (&str, Attribute)> {
    let declared = |name: &str| op::find(node)?.schema.attribute(name, node.version);
    pairs(&node.attributes)
        .filter(move |(name, value)| declared(name).is_none_or(|kind| !kind.is_default(value)))
}

/// Replaces LSTM and GRU whose weights are quantized.
pub(super) fn dequantize_weights(graph: &mut Graph, layers: RecurrentLayers) -> Result<()> {
    let operator = |_: &Graph, node: &Node| ["LSTM", "GRU"].into_iter().find(|plain| node.is(plain));
    graph.replace_nodes(operator, |graph, node, plain| {
        let mut weights = Vec::new();
        for index in WEIGHTS {
            let Some(weight) = rows(graph, node, index)? else { return Ok(None) };
            weights.push((index, weight));
        }
        replacement_of(graph, node, NEWEST_OPSET, |made| {
            let mut inputs = made.inputs_of(node);
            for (index, Rows { levels, scales, shape }) in weights {
                let scales = made.floats(&scales).reshape(&[-1, 1]);
                let weight = (made.value(levels).cast(DType::F32) * scales).reshape(&shape);
                inputs.put(index, Some(weight));
            }
            Ok(Some(recurrent(made, layers.operator(node, plain), inputs, node)))
        })
    })?;
    Ok(())
}

/// Returns the first output of a recurrent operator instead of a node, whose other outputs are the others.
pub(super) fn recurrent<'b>(
    made: &'b Builder<'b>,
    operator: &'static str,
    inputs: Vec<Option<Expr<'b>>>,
    node: &Node,
) -> Expr<'b> {
    let result = made.op(operator, inputs, attributes(node));
    for (from, to) in result.outputs(0..node.outputs.len()).into_iter().zip(&node.outputs).skip(1) {
        if let Some(to) = to {
            made.give(from, *to);
        }
    }
    result
}

/// A constant of 8 bits with a scale for each row.
struct Rows {
    levels: ValueId,
    scales: Vec<f32>,
    /// The shape of the weight, of which the rows are the last axis.
    shape: Vec<i64>,
}

/// Reads a weight of a node as rows that DequantizeLinear converts.
fn rows(graph: &Graph, node: &Node, index: usize) -> Result<Option<Rows>> {
    let Some(weight) = node.input(index) else { return Ok(None) };
    let reshaped = producer(graph, weight, "Reshape").and_then(|node| node.input(0));
    let Some(dequantize) = reshaped.and_then(|rows| producer(graph, rows, "DequantizeLinear")) else {
        return Ok(None);
    };
    let (Some(levels), Some(constant)) = (dequantize.input(0), constant_input(graph, dequantize, 0)) else {
        return Ok(None);
    };
    let &[count, columns] = constant.shape() else { return Ok(None) };
    let shape: Option<Vec<i64>> =
        graph.value(weight).shape.iter().flatten().map(|size| size.known()).collect();
    let Some(shape) =
        shape.filter(|shape| shape.last().is_some_and(|last| usize::try_from(*last) == Ok(columns)))
    else {
        return Ok(None);
    };
    let is_byte = [DType::I8, DType::U8].contains(&constant.dtype()) && is_symmetric(graph, dequantize)?;
    let scales = scales(graph, dequantize, count, 0)?.filter(|_| is_byte);
    Ok(scales.map(|scales| Rows { levels, scales, shape }))
}
