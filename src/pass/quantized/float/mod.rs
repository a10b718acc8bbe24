//! Replaces operators on quantized values by float operators between DequantizeLinear and QuantizeLinear.
//! Values that are quantized by their range are not rounded.

mod range;
mod recurrent;

use std::collections::BTreeSet;

use super::recurrent::RecurrentLayers;
use super::step::{MAX_MOVES, is_move};
use crate::common::int::Int;
use crate::error::Result;
use crate::graph::{Attribute, AttributeMap, Graph, Node, ValueId, pairs};
use crate::op::{CONTRIB_DOMAIN as MICROSOFT, NEWEST_OPSET, resolve_axis, whole_windows};
use crate::pass::builder::{self, Builder, Expr, replacement_of};
use crate::pass::channels::Layout;
use crate::pass::pattern::{int, is_set, only_output, scalar};
use crate::tensor::DType;

/// An operator on quantized values and its float operator.
struct Form {
    domain: &'static str,
    quantized: &'static str,
    plain: &'static str,
    /// Float inputs before the operands.
    before: &'static [usize],
    /// The operands, each with its scale and zero point. Empty: every three inputs after the scale of the
    /// result.
    operands: &'static [[usize; 3]],
    /// The axes of the scales of the operands.
    axes: &'static [i64],
    /// The integers that are added to the sums.
    bias: Option<usize>,
    /// Float inputs after the operands.
    after: &'static [usize],
    /// The float that is added to the result.
    added: Option<usize>,
    /// The scale of the result; its zero point is the next input.
    result: Option<usize>,
}

const fn binary(domain: &'static str, quantized: &'static str, plain: &'static str) -> Form {
    Form {
        domain,
        quantized,
        plain,
        before: &[],
        operands: &[[0, 1, 2], [3, 4, 5]],
        axes: &[-2, -1],
        bias: None,
        after: &[],
        added: None,
        result: Some(6),
    }
}

const fn unary(quantized: &'static str, plain: &'static str) -> Form {
    let form = binary(MICROSOFT, quantized, plain);
    Form { operands: &[[0, 1, 2]], axes: &[1], result: Some(3), ..form }
}

const fn convolution(domain: &'static str) -> Form {
    Form { axes: &[1, 0], bias: Some(8), ..binary(domain, "QLinearConv", "Conv") }
}

const FORMS: &[Form] = &[
    convolution(""),
    convolution(MICROSOFT),
    binary("", "QLinearMatMul", "MatMul"),
    binary(MICROSOFT, "QLinearAdd", "Add"),
    binary(MICROSOFT, "QLinearMul", "Mul"),
    Form { bias: Some(6), result: Some(7), ..binary(MICROSOFT, "QGemm", "Gemm") },
    Form { operands: &[], result: Some(0), ..unary("QLinearConcat", "Concat") },
    Form {
        before: &[0],
        operands: &[[1, 2, 3], [4, 5, 6]],
        result: Some(7),
        ..binary(MICROSOFT, "QLinearWhere", "Where")
    },
    unary("QLinearGlobalAveragePool", "GlobalAveragePool"),
    unary("QLinearAveragePool", "AveragePool"),
    unary("QLinearLeakyRelu", "LeakyRelu"),
    unary("QLinearSigmoid", "Sigmoid"),
    unary("QLinearSoftmax", "Softmax"),
    Form {
        operands: &[[0, 2, 4], [1, 3, 5]],
        added: Some(6),
        result: None,
        ..binary(MICROSOFT, "MatMulIntegerToFloat", "MatMul")
    },
    Form {
        before: &[0],
        operands: &[[1, 2, 3]],
        axes: &[-1],
        added: Some(4),
        result: None,
        ..binary(MICROSOFT, "DynamicQuantizeMatMul", "MatMul")
    },
    Form {
        operands: &[[0, 3, 6], [1, 4, 7]],
        after: &[2, 5, 8],
        result: None,
        ..binary(MICROSOFT, "QAttention", "com.microsoft.Attention")
    },
];

/// The operator set since which DequantizeLinear has an axis and Softmax normalizes one axis.
const AXES: i64 = 13;

/// The attribute of operators whose values have their channels last.
const CHANNELS_LAST: &str = "channels_last";

/// Attributes that the float operators do not have.
const QUANTIZED_ONLY: [&str; 2] = [CHANNELS_LAST, "opset"];

/// Replaces all operators on quantized values that have a float operator, or a recurrent one with weights of
/// int8. Returns the values that were quantized by their range.
pub(super) fn to_plain(graph: &mut Graph, layers: RecurrentLayers) -> Result<BTreeSet<ValueId>> {
    let mut ranged = BTreeSet::new();
    graph.rewrite_nodes(|graph, id| {
        let Some(node) = graph.node(id).cloned() else { return Ok(None) };
        if node.domain == MICROSOFT && node.op_type == "DynamicQuantizeMatMul" {
            ranged.extend(node.input(0));
        }
        let form = FORMS.iter().find(|form| form.domain == node.domain && form.quantized == node.op_type);
        let is_lstm = node.domain == MICROSOFT && node.op_type == "DynamicQuantizeLSTM";
        to_plain_by(graph, &node, |plain| match form {
            Some(form) => plain.apply(form),
            None if is_lstm => plain.lstm(layers.operator(&node, "LSTM")).map(Some),
            None => Ok(None),
        })
    })?;
    dequantize_before_moves(graph)?;
    ranged.extend(range::drop_ranges(graph)?);
    Ok(ranged)
}

/// Puts DequantizeLinear before operators that move elements.
fn dequantize_before_moves(graph: &mut Graph) -> Result<()> {
    graph.replace_nodes(moves_before, |graph, node, (value, moves)| {
        to_plain_by(graph, node, |plain| {
            let [scale, zero] = [1, 2].map(|index| plain.input(index));
            let moved = plain.dequantize([Some(plain.made.value(value)), scale, zero], []);
            moves.iter().rev().try_fold(moved, |moved, step| plain.move_as(step, moved)).map(Some)
        })
    })?;
    Ok(())
}

/// Returns the operators that move elements before a DequantizeLinear with one scale, the last one first, and
/// the value before them.
fn moves_before(graph: &Graph, node: &Node) -> Option<(ValueId, Vec<Node>)> {
    scalar(graph, node.input(1).filter(|_| node.is("DequantizeLinear"))?)?;
    let mut value = node.input(0)?;
    let mut moves = Vec::new();
    while moves.len() < MAX_MOVES
        && let Some(producer) = graph.producer(value)
        && is_move(producer)
        && let Some(before) = producer.input(0)
    {
        moves.push(producer.clone());
        value = before;
    }
    (!moves.is_empty()).then_some((value, moves))
}

/// A node and the float nodes that replace it.
struct Plain<'b, 'n> {
    made: &'b Builder<'b>,
    node: &'n Node,
}

/// Replaces a node by float nodes of the model's operator set, so that they can be written into the
/// model.
fn to_plain_by(
    graph: &mut Graph,
    node: &Node,
    build: impl for<'b> FnOnce(&Plain<'b, '_>) -> Result<Option<Expr<'b>>>,
) -> Result<Option<Vec<Node>>> {
    let opset = opset(graph);
    replacement_of(graph, node, opset, |made| build(&Plain { made, node }))
}

impl<'b> Plain<'b, '_> {
    fn apply(&self, form: &Form) -> Result<Option<Expr<'b>>> {
        let Some(mut attributes) = plain_attributes(self.made.graph, self.node) else { return Ok(None) };
        let Some(inputs) = self.operands(form)? else { return Ok(None) };
        let Some(data) = inputs.first().copied().flatten() else { return Ok(None) };
        if form.plain == "Gemm"
            && let Some(alpha) = attributes.get("alpha").cloned()
        {
            attributes.insert("beta".into(), alpha);
        }
        let rank = self
            .node
            .input(0)
            .and_then(|x| self.made.graph.value(x).shape.as_ref())
            .map_or(0, |shape| shape.len());
        let result = layout(self.node).apply(data, rank, |data| {
            let inputs: Vec<Option<Expr>> =
                [Some(data)].into_iter().chain(inputs.into_iter().skip(1)).collect();
            self.made.op(form.plain, inputs, pairs(&attributes))
        });
        for (index, output) in self.node.outputs.iter().enumerate().skip(1) {
            if let Some(output) = output {
                self.made.give(result.output(index), *output);
            }
        }
        let rounding = form.result.filter(|scale| self.input(*scale).is_some());
        let added = form.added.and_then(|index| self.input(index));
        Ok(Some(match (rounding, added) {
            (Some(scale), _) => {
                let parameters = [self.input(scale), self.input(scale + 1)];
                let inputs = [Some(result.typed(DType::F32))].into_iter().chain(parameters);
                self.made.op("QuantizeLinear", inputs, [])
            }
            (None, Some(added)) => result.typed(DType::F32) + added,
            (None, None) => result,
        }))
    }

    fn input(&self, index: usize) -> Option<Expr<'b>> {
        self.node.input(index).map(|id| self.made.value(id))
    }

    fn dequantize(
        &self,
        inputs: [Option<Expr<'b>>; 3],
        attributes: impl IntoIterator<Item = (&'static str, Attribute)>,
    ) -> Expr<'b> {
        self.made.op("DequantizeLinear", inputs, attributes).typed(DType::F32)
    }

    /// Adds a copy of an operator that moves elements.
    fn move_as(&self, node: &Node, value: Expr<'b>) -> Result<Expr<'b>> {
        Ok(self.made.copy_with(node, 0, value)?.typed(DType::F32))
    }

    /// Returns the inputs of the float operator, or `None` if a bias has no scale.
    fn operands(&self, form: &Form) -> Result<Option<Vec<Option<Expr<'b>>>>> {
        let parts: Vec<[usize; 3]> =
            (2..self.node.inputs.len()).step_by(3).map(|part| [part, part + 1, part + 2]).collect();
        let (operands, axes) = if form.operands.is_empty() {
            (parts.as_slice(), [].as_slice())
        } else {
            (form.operands, form.axes)
        };
        let mut inputs: Vec<Option<Expr>> = form.before.iter().map(|index| self.input(*index)).collect();
        for (index, operand) in operands.iter().enumerate() {
            let axis = match axes.get(index) {
                Some(-1) if is_set(self.node, "transB") => 0,
                Some(axis) => *axis,
                None => 1,
            };
            let operand = operand.map(|index| self.input(index));
            inputs.push(Some(self.dequantize(operand, [("axis", axis.into())])));
        }
        if let Some(bias) = form.bias.and_then(|index| self.input(index)) {
            let [Some(x), Some(weight)] = [1, 4].map(|index| self.input(index)) else { return Ok(None) };
            let rank = self.made.graph.value(bias.id).shape.as_ref().map_or(1, |shape| shape.len());
            let axis = rank.saturating_sub(1).int();
            let bias = self.dequantize([Some(bias), Some(x * weight), None], [("axis", axis.into())]);
            inputs.push(Some(bias));
        }
        inputs.extend(form.after.iter().map(|index| self.input(*index)));
        Ok(Some(inputs))
    }
}

/// The operator set of new nodes.
pub(super) fn opset(graph: &Graph) -> i64 {
    builder::opset(graph).clamp(AXES, NEWEST_OPSET)
}

fn layout(node: &Node) -> Layout {
    Layout { channels_last: is_set(node, CHANNELS_LAST) }
}

/// Returns the attributes of the float operator, or `None` if it cannot compute the same.
fn plain_attributes(graph: &Graph, node: &Node) -> Option<AttributeMap> {
    let mut attributes = node.attributes.clone();
    let layout = layout(node);
    let shape = |value: Option<ValueId>| graph.value(value?).shape.as_deref();
    if layout.channels_last && shape(node.input(0)).is_none() {
        return None;
    }
    if node.op_type == "QLinearSoftmax" && int(node, "opset").is_some_and(|opset| opset < AXES) {
        // Softmax flattens all axes from `axis` on, which the newer sets express only for the last.
        let rank = node.input(0).and_then(|x| graph.value(x).shape.as_ref()).map(|shape| shape.len())?;
        let axis = resolve_axis(int(node, "axis").unwrap_or(1), rank).ok()?;
        if axis + 1 != rank {
            return None;
        }
        attributes.insert("axis".into(), Attribute::Int(-1));
    }
    if node.op_type == "QLinearAveragePool" {
        let [input, output] = [shape(node.input(0))?, shape(only_output(node))?];
        let [input, output] = [input, output].map(|shape| layout.channels_first(shape));
        attributes = whole_windows(attributes, &input, &output).ok()?;
    }
    attributes.retain(|name, _| !QUANTIZED_ONLY.contains(&name.as_str()));
    Some(attributes)
}
