//! Replaces operators on quantized values by float operators between DequantizeLinear and QuantizeLinear.
//! Values that are quantized by their own range are not rounded.

mod range;
mod recurrent;

use std::collections::BTreeSet;

use smallvec::smallvec;

use super::{MAX_MOVES, is_move, is_set, with_first_input};
use crate::error::Result;
use crate::graph::{Attribute, AttributeMap, Graph, Ids, Node, Value, ValueId};
use crate::op::{CONTRIB_DOMAIN as MICROSOFT, NEWEST_OPSET, resolve_axis, whole_windows};
use crate::pass::insertion::InsertionPoint;
use crate::pass::pattern::scalar;
use crate::pass::pattern::{input, int, only_output};
use crate::tensor::DType;

/// An operator on quantized values and its float operator.
struct Form {
    domain: &'static str,
    quantized: &'static str,
    plain: &'static str,
    plain_domain: &'static str,
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
        plain_domain: "",
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

const FORMS: &[Form] = &[
    Form { axes: &[1, 0], bias: Some(8), ..binary("", "QLinearConv", "Conv") },
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
        plain_domain: MICROSOFT,
        operands: &[[0, 3, 6], [1, 4, 7]],
        after: &[2, 5, 8],
        result: None,
        ..binary(MICROSOFT, "QAttention", "Attention")
    },
];

/// The operator set since which DequantizeLinear has an axis and Softmax normalizes one axis.
const AXES: i64 = 13;

/// Attributes that the float operators do not have. `channels_last` is refused by the row if set.
const QUANTIZED_ONLY: [&str; 2] = ["channels_last", "opset"];

/// Replaces all operators on quantized values that have a float operator. Returns the values that were quantized
/// by their own range.
pub(super) fn to_plain(graph: &mut Graph) -> Result<BTreeSet<ValueId>> {
    let mut ranged = BTreeSet::new();
    graph.rewrite_nodes(|graph, id| {
        let Some(node) = graph.node(id).cloned() else { return Ok(None) };
        if node.domain == MICROSOFT && node.op_type == "DynamicQuantizeMatMul" {
            ranged.extend(input(&node, 0));
        }
        let plain = Plain::new(graph, &node);
        match FORMS.iter().find(|form| form.domain == node.domain && form.quantized == node.op_type) {
            Some(form) => plain.apply(form),
            None if node.domain == MICROSOFT && node.op_type == "DynamicQuantizeLSTM" => {
                plain.lstm().map(Some)
            }
            None => Ok(None),
        }
    })?;
    dequantize_before_moves(graph)?;
    ranged.extend(range::drop_ranges(graph)?);
    Ok(ranged)
}

/// Puts DequantizeLinear before operators that move elements.
fn dequantize_before_moves(graph: &mut Graph) -> Result<()> {
    graph.rewrite_nodes(|graph, id| {
        let Some(node) = graph.node(id).filter(|node| node.is("DequantizeLinear")).cloned() else {
            return Ok(None);
        };
        let Some(mut value) = input(&node, 0) else { return Ok(None) };
        // From the last move to the first.
        let mut moves = Vec::new();
        while moves.len() < MAX_MOVES
            && let Some(producer) = graph.value(value).producer.and_then(|id| graph.node(id))
            && is_move(producer)
            && let Some(before) = input(producer, 0)
        {
            moves.push(producer.clone());
            value = before;
        }
        let Some((last, moves)) = moves.split_first() else { return Ok(None) };
        if input(&node, 1).is_none_or(|scale| scalar(graph, scale).is_none()) {
            return Ok(None);
        }
        let mut plain = Plain::new(graph, &node);
        let mut moved =
            plain.dequantize([Some(value), input(&node, 1), input(&node, 2)], AttributeMap::new());
        for step in moves.iter().rev() {
            let output = plain.point.graph.add_value(Value { dtype: Some(DType::F32), ..Value::default() });
            plain.point.push(Node { outputs: smallvec![Some(output)], ..with_first_input(step, moved) });
            moved = output;
        }
        let last = Node { outputs: node.outputs.clone(), ..with_first_input(last, moved) };
        Ok(Some(plain.point.end_with(last)))
    })
}

/// A node and the float nodes that replace it.
struct Plain<'a> {
    point: InsertionPoint<'a>,
    node: &'a Node,
}

impl<'a> Plain<'a> {
    /// The nodes have the model's own operator set, so that they can be written into the model.
    fn new(graph: &'a mut Graph, node: &'a Node) -> Plain<'a> {
        let opset = opset(graph);
        Plain { point: InsertionPoint::in_place_of(graph, node, "", opset), node }
    }

    fn apply(mut self, form: &Form) -> Result<Option<Vec<Node>>> {
        let Some(mut attributes) = plain_attributes(self.point.graph, self.node) else { return Ok(None) };
        let Some(inputs) = self.operands(form)? else { return Ok(None) };
        if form.plain == "Gemm"
            && let Some(alpha) = attributes.get("alpha").cloned()
        {
            attributes.insert("beta".into(), alpha);
        }
        let result = form.result.filter(|scale| self.input(*scale).is_some());
        let added = form.added.and_then(|index| self.input(index));
        let (op_type, parameters) = match (result, added) {
            (Some(scale), _) => ("QuantizeLinear", vec![self.input(scale), self.input(scale + 1)]),
            (None, Some(_)) => ("Add", vec![added]),
            (None, None) => {
                let mut nodes = self.point.finish(form.plain, inputs, attributes);
                if let Some(node) = nodes.last_mut()
                    && !form.plain_domain.is_empty()
                {
                    node.domain = form.plain_domain.into();
                    node.version = 1;
                }
                return Ok(Some(nodes));
            }
        };
        let result = self.point.op_of(Some(DType::F32), form.plain, inputs, attributes);
        let inputs = [Some(result)].into_iter().chain(parameters);
        Ok(Some(self.point.finish(op_type, inputs, AttributeMap::new())))
    }

    fn input(&self, index: usize) -> Option<ValueId> {
        input(self.node, index)
    }

    fn dequantize(
        &mut self,
        inputs: impl IntoIterator<Item = Option<ValueId>>,
        attributes: AttributeMap,
    ) -> ValueId {
        self.point.op_of(Some(DType::F32), "DequantizeLinear", inputs, attributes)
    }

    /// Returns the inputs of the float operator, or `None` if a bias has no scale.
    fn operands(&mut self, form: &Form) -> Result<Option<Ids>> {
        let parts: Vec<[usize; 3]> =
            (2..self.node.inputs.len()).step_by(3).map(|part| [part, part + 1, part + 2]).collect();
        let (operands, axes) = if form.operands.is_empty() {
            (parts.as_slice(), [].as_slice())
        } else {
            (form.operands, form.axes)
        };
        let mut inputs: Ids = form.before.iter().map(|index| self.input(*index)).collect();
        for (index, operand) in operands.iter().enumerate() {
            let axis = match axes.get(index) {
                Some(-1) if is_set(self.node, "transB") => 0,
                Some(axis) => *axis,
                None => 1,
            };
            let operand = operand.map(|index| self.input(index));
            inputs.push(Some(self.dequantize(operand, axis_attribute(axis))));
        }
        if let Some(bias) = form.bias.and_then(|index| self.input(index)) {
            let [Some(x), Some(weight)] = [1, 4].map(|index| self.input(index)) else { return Ok(None) };
            let scale = self.point.op("Mul", &[x, weight], &[]);
            let rank = self.point.graph.value(bias).shape.as_ref().map_or(1, |shape| shape.len());
            let axis = axis_attribute(i64::try_from(rank.saturating_sub(1))?);
            inputs.push(Some(self.dequantize([bias, scale].map(Some), axis)));
        }
        inputs.extend(form.after.iter().map(|index| self.input(*index)));
        trim(&mut inputs);
        Ok(Some(inputs))
    }
}

fn axis_attribute(axis: i64) -> AttributeMap {
    AttributeMap::from_iter([("axis".into(), Attribute::Int(axis))])
}

/// Removes trailing inputs that are omitted.
fn trim(inputs: &mut Ids) {
    while inputs.last().is_some_and(Option::is_none) {
        inputs.pop();
    }
}

/// The operator set of new nodes.
pub(super) fn opset(graph: &Graph) -> i64 {
    graph.opsets.get("").copied().unwrap_or(NEWEST_OPSET).clamp(AXES, NEWEST_OPSET)
}

/// Returns the attributes of the float operator, or `None` if it cannot compute the same.
fn plain_attributes(graph: &Graph, node: &Node) -> Option<AttributeMap> {
    let mut attributes = node.attributes.clone();
    if is_set(node, "channels_last") {
        return None;
    }
    if node.op_type == "QLinearSoftmax" && int(node, "opset").is_some_and(|opset| opset < AXES) {
        // Softmax flattens all axes from the given one on, which the newer sets express only for the last.
        let rank = input(node, 0).and_then(|x| graph.value(x).shape.as_ref()).map(|shape| shape.len())?;
        let axis = resolve_axis(int(node, "axis").unwrap_or(1), rank).ok()?;
        if axis + 1 != rank {
            return None;
        }
        attributes.insert("axis".into(), Attribute::Int(-1));
    }
    if node.op_type == "QLinearAveragePool" {
        let shape = |value: Option<ValueId>| graph.value(value?).shape.as_deref();
        let (input, output) = (shape(input(node, 0))?, shape(only_output(node))?);
        attributes = whole_windows(attributes, input, output).ok()?;
    }
    attributes.retain(|name, _| !QUANTIZED_ONLY.contains(&name.as_str()));
    Some(attributes)
}
