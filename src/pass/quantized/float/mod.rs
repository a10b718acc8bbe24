//! Operators on quantized values become those on numbers, between DequantizeLinear and QuantizeLinear, and values that are quantized
//! by their own range stay as they are.

mod range;
mod recurrent;

use smallvec::smallvec;

use super::{MOVING, input};
use crate::error::Result;
use crate::graph::{Attribute, AttributeMap, Graph, Ids, Node, Value, ValueId};
use crate::op::whole_windows;
use crate::op::{CONTRIB_DOMAIN as MICROSOFT, NEWEST_OPSET, resolve_axis};
use crate::pass::pattern::scalar;
use crate::tensor::DType;

/// An operator on quantized values and the one that it is on numbers.
struct Form {
    domain: &'static str,
    quantised: &'static str,
    plain: &'static str,
    plain_domain: &'static str,
    /// Inputs that are numbers already, before the operands.
    before: &'static [usize],
    /// Where operands stand, with their steps and zero points.
    operands: &'static [[usize; 3]],
    /// The axes along which the operands have steps.
    axes: &'static [i64],
    /// Where integers stand that are added to the sums.
    bias: Option<usize>,
    /// Inputs that are numbers already, after the operands.
    after: &'static [usize],
    /// A number that is added to the result.
    added: Option<usize>,
    /// Where the step of the result stands, with its zero point after it.
    result: Option<usize>,
}

const fn binary(domain: &'static str, quantised: &'static str, plain: &'static str) -> Form {
    Form {
        domain,
        quantised,
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

const fn unary(quantised: &'static str, plain: &'static str) -> Form {
    let form = binary(MICROSOFT, quantised, plain);
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

/// Most operators in a row that numbers are moved by in place of quantized values.
const MAX_MOVES: usize = 16;

/// The operator set from which DequantizeLinear takes steps along an axis, and Softmax is along one axis.
const AXES: i64 = 13;

/// Attributes that the plain operators do not have: the order of axes, where it is not as usual, is refused by the row.
const OF_QUANTISED: [&str; 2] = ["channels_last", "opset"];

/// Rewrites all operators on quantized values that have a plain form.
pub(super) fn to_plain(graph: &mut Graph) -> Result<()> {
    graph.rewrite_nodes(|graph, id| {
        let Some(node) = graph.node(id).cloned() else { return Ok(None) };
        let is_of = |form: &&Form| form.domain == node.domain && form.quantised == node.op_type;
        let plain = Plain { graph, node: &node, nodes: Vec::new() };
        match FORMS.iter().find(is_of) {
            Some(form) => plain.write(form),
            None if node.domain == MICROSOFT && node.op_type == "DynamicQuantizeLSTM" => {
                plain.recurrent().map(Some)
            }
            None => Ok(None),
        }
    })?;
    move_numbers(graph)?;
    range::keep_ranges(graph)
}

/// Puts DequantizeLinear before operators that only move elements: numbers are moved in place of quantized values.
fn move_numbers(graph: &mut Graph) -> Result<()> {
    graph.rewrite_nodes(|graph, id| {
        let Some(node) = graph.node(id).filter(|node| node.is("DequantizeLinear")).cloned() else {
            return Ok(None);
        };
        let Some(mut value) = input(&node, 0) else { return Ok(None) };
        let mut moves = Vec::new();
        let is_move = |node: &&Node| {
            node.domain.is_empty() && MOVING.contains(&node.op_type.as_str()) && node.outputs.len() == 1
        };
        while moves.len() < MAX_MOVES
            && let Some(step) = graph.value(value).producer.and_then(|id| graph.node(id)).filter(is_move)
            && let Some(before) = input(step, 0)
        {
            moves.push(step.clone());
            value = before;
        }
        if moves.is_empty() || input(&node, 1).is_none_or(|scale| scalar(graph, scale).is_none()) {
            return Ok(None);
        }
        let mut plain = Plain { graph, node: &node, nodes: Vec::new() };
        let mut number = plain.number();
        let inputs = smallvec![Some(value), plain.input(1), plain.input(2)];
        plain.push("DequantizeLinear", inputs, AttributeMap::new(), smallvec![Some(number)]);
        while let Some(mut step) = moves.pop() {
            let result =
                if moves.is_empty() { node.outputs.clone() } else { smallvec![Some(plain.number())] };
            if let Some(first) = step.inputs.first_mut() {
                *first = Some(number);
            }
            number = result.first().copied().flatten().unwrap_or(number);
            plain.nodes.push(Node { outputs: result, ..step });
        }
        Ok(Some(plain.nodes))
    })
}

/// The nodes in the place of one.
struct Plain<'a> {
    graph: &'a mut Graph,
    node: &'a Node,
    nodes: Vec<Node>,
}

impl Plain<'_> {
    fn write(mut self, form: &Form) -> Result<Option<Vec<Node>>> {
        let Some(mut attributes) = plain_attributes(self.graph, self.node) else { return Ok(None) };
        let Some(inputs) = self.operands(form)? else { return Ok(None) };
        if form.plain == "Gemm"
            && let Some(alpha) = attributes.get("alpha").cloned()
        {
            attributes.insert("beta".into(), alpha);
        }
        let added = form.added.and_then(|index| self.input(index));
        let result = form.result.filter(|index| self.input(*index).is_some());
        let last = added.is_none() && result.is_none();
        let mut outputs = self.node.outputs.clone();
        if !last {
            outputs = smallvec![Some(self.number())];
        }
        let number = outputs.first().copied().flatten();
        self.push(form.plain, inputs, attributes, outputs);
        if let Some(product) = self.nodes.last_mut()
            && !form.plain_domain.is_empty()
        {
            product.domain = form.plain_domain.into();
            product.version = 1;
        }
        if let Some(result) = result {
            let inputs = smallvec![number, self.input(result), self.input(result + 1)];
            self.push("QuantizeLinear", inputs, AttributeMap::new(), self.node.outputs.clone());
        } else if added.is_some() {
            self.push("Add", smallvec![number, added], AttributeMap::new(), self.node.outputs.clone());
        }
        Ok(Some(self.nodes))
    }

    fn input(&self, index: usize) -> Option<ValueId> {
        input(self.node, index)
    }

    /// A value that is a number.
    fn number(&mut self) -> ValueId {
        self.graph.add_value(Value { dtype: Some(DType::F32), ..Value::default() })
    }

    /// A node of the model's own operator set, so that it can be written beside those of the model.
    fn push(&mut self, op_type: &str, inputs: Ids, attributes: AttributeMap, outputs: Ids) {
        self.nodes.push(Node {
            name: self.node.name.clone(),
            index: self.node.index,
            op_type: op_type.into(),
            version: opset(self.graph),
            inputs,
            outputs,
            attributes,
            ..Node::default()
        });
    }

    /// The operands as numbers, and what stands around them.
    fn operands(&mut self, form: &Form) -> Result<Option<Ids>> {
        // The parts of QLinearConcat follow the step of the result.
        let parts: Vec<[usize; 3]> =
            (2..self.node.inputs.len()).step_by(3).map(|part| [part, part + 1, part + 2]).collect();
        let (places, axes) = if form.operands.is_empty() {
            (parts.as_slice(), [].as_slice())
        } else {
            (form.operands, form.axes)
        };
        let transposed =
            matches!(self.node.attributes.get("transB"), Some(Attribute::Int(flag)) if *flag != 0);
        let mut numbers: Ids = form.before.iter().map(|index| self.input(*index)).collect();
        for (index, places) in places.iter().enumerate() {
            let inputs = places.map(|index| self.input(index));
            let axis = match axes.get(index) {
                Some(-1) if transposed => 0,
                Some(axis) => *axis,
                None => 1,
            };
            let number = self.number();
            let attributes = AttributeMap::from_iter([("axis".into(), Attribute::Int(axis))]);
            self.push("DequantizeLinear", inputs.into_iter().collect(), attributes, smallvec![Some(number)]);
            numbers.push(Some(number));
        }
        if let Some(bias) = form.bias.and_then(|index| self.input(index)) {
            let [Some(x), Some(weight)] = [1, 4].map(|index| self.input(index)) else { return Ok(None) };
            let scale = self.number();
            self.push("Mul", smallvec![Some(x), Some(weight)], AttributeMap::new(), smallvec![Some(scale)]);
            let number = self.number();
            let axis = self.graph.value(bias).shape.as_ref().map_or(1, |shape| shape.len()).saturating_sub(1);
            let attributes = AttributeMap::from_iter([("axis".into(), Attribute::Int(i64::try_from(axis)?))]);
            self.push(
                "DequantizeLinear",
                smallvec![Some(bias), Some(scale)],
                attributes,
                smallvec![Some(number)],
            );
            numbers.push(Some(number));
        }
        numbers.extend(form.after.iter().map(|index| self.input(*index)));
        while numbers.last().is_some_and(Option::is_none) {
            numbers.pop();
        }
        Ok(Some(numbers))
    }
}

/// The operator set of nodes that are made.
pub(super) fn opset(graph: &Graph) -> i64 {
    graph.opsets.get("").copied().unwrap_or(NEWEST_OPSET).clamp(AXES, NEWEST_OPSET)
}

/// The attributes of the operator on numbers; none where that computes something else.
fn plain_attributes(graph: &Graph, node: &Node) -> Option<AttributeMap> {
    let mut attributes = node.attributes.clone();
    let int = |name: &str| match node.attributes.get(name) {
        Some(Attribute::Int(value)) => Some(*value),
        _ => None,
    };
    if int("channels_last").is_some_and(|flag| flag != 0) {
        return None;
    }
    if node.op_type == "QLinearSoftmax" && int("opset").is_some_and(|opset| opset < AXES) {
        // The axes from the given one on are one then: only the last is that in the newer sets as well.
        let rank = input(node, 0).and_then(|x| graph.value(x).shape.as_ref()).map(|shape| shape.len())?;
        let axis = resolve_axis(int("axis").unwrap_or(1), rank).ok()?;
        if axis + 1 != rank {
            return None;
        }
        attributes.insert("axis".into(), Attribute::Int(-1));
    }
    if node.op_type == "QLinearAveragePool" {
        let shape = |value: Option<ValueId>| graph.value(value?).shape.as_deref();
        let shapes = (shape(input(node, 0))?, shape(node.outputs.first().copied().flatten())?);
        attributes = whole_windows(attributes, shapes.0, shapes.1).ok()?;
    }
    attributes.retain(|name, _| !OF_QUANTISED.contains(&name.as_str()));
    Some(attributes)
}
