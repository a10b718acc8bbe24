//! Operators on quantised values become those on numbers, between DequantizeLinear and QuantizeLinear, and values that are quantised
//! by their own range stay as they are.

use std::collections::{BTreeMap, BTreeSet};

use super::{MOVING, input};
use crate::error::Result;
use crate::graph::{Attribute, Graph, Node, NodeId, Value, ValueId};
use crate::ops::NEWEST_OPSET;
use crate::pass::pattern::{Readers, scalar};
use crate::tensor::{Array, DType, Tensor};

/// An operator on quantised values and the one that it is on numbers.
struct Form {
    domain: &'static str,
    quantised: &'static str,
    plain: &'static str,
    /// Where operands stand, each with its step and zero point behind it.
    operands: &'static [usize],
    /// The axes along which the operands have steps.
    axes: &'static [i64],
    /// Where whole numbers stand that are added to the sums.
    bias: Option<usize>,
    /// Where the step of the result stands, with its zero point behind it.
    result: usize,
}

const MICROSOFT: &str = "com.microsoft";

const fn binary(domain: &'static str, quantised: &'static str, plain: &'static str) -> Form {
    Form { domain, quantised, plain, operands: &[0, 3], axes: &[-2, -1], bias: None, result: 6 }
}

const fn unary(quantised: &'static str, plain: &'static str) -> Form {
    Form { domain: MICROSOFT, quantised, plain, operands: &[0], axes: &[1], bias: None, result: 3 }
}

const FORMS: &[Form] = &[
    Form { axes: &[1, 0], bias: Some(8), ..binary("", "QLinearConv", "Conv") },
    binary("", "QLinearMatMul", "MatMul"),
    binary(MICROSOFT, "QLinearAdd", "Add"),
    binary(MICROSOFT, "QLinearMul", "Mul"),
    Form { bias: Some(6), result: 7, ..binary(MICROSOFT, "QGemm", "Gemm") },
    Form { operands: &[], result: 0, ..unary("QLinearConcat", "Concat") },
    unary("QLinearGlobalAveragePool", "GlobalAveragePool"),
    unary("QLinearAveragePool", "AveragePool"),
    unary("QLinearLeakyRelu", "LeakyRelu"),
    unary("QLinearSigmoid", "Sigmoid"),
    unary("QLinearSoftmax", "Softmax"),
];

/// Most operators in a row that numbers are moved by in place of quantised values.
const MAX_MOVES: usize = 16;

/// Attributes that the plain operators do not have: the order of axes, where it is not as usual, is refused by the row.
const OF_QUANTISED: [&str; 2] = ["channels_last", "opset"];

/// Rewrites all operators on quantised values that have a plain form.
pub(super) fn to_plain(graph: &mut Graph) -> Result<()> {
    graph.rewrite_nodes(|graph, id| {
        let Some(node) = graph.node(id).cloned() else { return Ok(None) };
        let is_of = |form: &&Form| form.domain == node.domain && form.quantised == node.op_type;
        match FORMS.iter().find(is_of) {
            Some(form) => Plain { graph, node: &node, nodes: Vec::new() }.write(form),
            None => Ok(None),
        }
    })?;
    move_numbers(graph)?;
    keep_ranges(graph)
}

/// Puts DequantizeLinear before operators that only move elements: numbers are moved in place of quantised values.
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
        let inputs = vec![Some(value), plain.input(1), plain.input(2)];
        plain.push("DequantizeLinear", inputs, BTreeMap::new(), vec![Some(number)]);
        while let Some(mut step) = moves.pop() {
            let result = if moves.is_empty() { node.outputs.clone() } else { vec![Some(plain.number())] };
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
        let mut attributes = self.node.attributes.clone();
        if matches!(attributes.get("channels_last"), Some(Attribute::Int(flag)) if *flag != 0) {
            return Ok(None);
        }
        attributes.retain(|name, _| !OF_QUANTISED.contains(&name.as_str()));
        let Some(inputs) = self.operands(form)? else { return Ok(None) };
        if form.plain == "Gemm"
            && let Some(alpha) = attributes.get("alpha").cloned()
        {
            attributes.insert("beta".to_owned(), alpha);
        }
        if self.input(form.result).is_none() {
            self.push(form.plain, inputs, attributes, self.node.outputs.clone());
            return Ok(Some(self.nodes));
        }
        let number = self.number();
        self.push(form.plain, inputs, attributes, vec![Some(number)]);
        let inputs = vec![Some(number), self.input(form.result), self.input(form.result + 1)];
        self.push("QuantizeLinear", inputs, BTreeMap::new(), self.node.outputs.clone());
        Ok(Some(self.nodes))
    }

    fn input(&self, index: usize) -> Option<ValueId> {
        input(self.node, index)
    }

    /// A value that is a number.
    fn number(&mut self) -> ValueId {
        self.graph.add_value(Value { dtype: Some(DType::F32), ..Value::default() })
    }

    fn push(
        &mut self,
        op_type: &str,
        inputs: Vec<Option<ValueId>>,
        attributes: BTreeMap<String, Attribute>,
        outputs: Vec<Option<ValueId>>,
    ) {
        self.nodes.push(Node {
            name: self.node.name.clone(),
            index: self.node.index,
            op_type: op_type.to_owned(),
            version: NEWEST_OPSET,
            inputs,
            outputs,
            attributes,
            ..Node::default()
        });
    }

    /// The operands as numbers.
    fn operands(&mut self, form: &Form) -> Result<Option<Vec<Option<ValueId>>>> {
        // The parts of QLinearConcat follow the step of the result.
        let parts: Vec<usize> = (2..self.node.inputs.len()).step_by(3).collect();
        let (places, axes) = if form.operands.is_empty() {
            (parts.as_slice(), [].as_slice())
        } else {
            (form.operands, form.axes)
        };
        let transposed =
            matches!(self.node.attributes.get("transB"), Some(Attribute::Int(flag)) if *flag != 0);
        let mut numbers = Vec::new();
        for (index, place) in places.iter().enumerate() {
            let inputs = [*place, place + 1, place + 2].map(|index| self.input(index));
            let axis = match axes.get(index) {
                Some(-1) if transposed => 0,
                Some(axis) => *axis,
                None => 1,
            };
            let number = self.number();
            let attributes = [("axis".to_owned(), Attribute::Int(axis))].into();
            self.push("DequantizeLinear", inputs.to_vec(), attributes, vec![Some(number)]);
            numbers.push(Some(number));
        }
        if let Some(bias) = form.bias.and_then(|index| self.input(index)) {
            let [Some(x), Some(weight)] = [1, 4].map(|index| self.input(index)) else { return Ok(None) };
            let scale = self.number();
            self.push("Mul", vec![Some(x), Some(weight)], BTreeMap::new(), vec![Some(scale)]);
            let number = self.number();
            let axis = self.graph.value(bias).shape.as_ref().map_or(1, Vec::len).saturating_sub(1);
            let attributes = [("axis".to_owned(), Attribute::Int(i64::try_from(axis)?))].into();
            self.push("DequantizeLinear", vec![Some(bias), Some(scale)], attributes, vec![Some(number)]);
            numbers.push(Some(number));
        }
        Ok(Some(numbers))
    }
}

/// Products of what DynamicQuantizeLinear gives become products of what it reads, with a step of 1.
fn keep_ranges(graph: &mut Graph) -> Result<()> {
    let readers = Readers::of(graph);
    let mut numbers: BTreeMap<ValueId, ValueId> = BTreeMap::new();
    let mut zeros: BTreeSet<ValueId> = BTreeSet::new();
    let mut steps: Vec<ValueId> = Vec::new();
    for (_, node) in graph.nodes().filter(|(_, node)| node.is("DynamicQuantizeLinear")) {
        let output = |index: usize| node.outputs.get(index).copied().flatten();
        let (Some(x), Some(quantised)) = (input(node, 0), output(0)) else { continue };
        let known =
            |id: &NodeId| graph.node(*id).is_some_and(|node| is_product(node) || node.is("DequantizeLinear"));
        let is_used_so = |value: ValueId| !readers.is_output(value) && readers.all(value).iter().all(known);
        if [Some(quantised), output(2)].into_iter().flatten().all(is_used_so) {
            numbers.insert(quantised, x);
            zeros.extend(output(2));
            steps.extend(output(1).filter(|step| !readers.is_output(*step)));
        }
    }
    if numbers.is_empty() {
        return Ok(());
    }
    let one = Array::f32(ndarray::ArrayD::from_elem(ndarray::IxDyn(&[]), 1.0));
    let one = graph.add_constant("", Tensor::from_array(&one)?)?;
    graph.rewrite_nodes(|graph, id| {
        let Some(node) = graph.node(id).cloned() else { return Ok(None) };
        let number = input(&node, 0).and_then(|value| numbers.get(&value).copied());
        let mut plain = Plain { graph, node: &node, nodes: Vec::new() };
        match number {
            Some(x) if node.is("DequantizeLinear") => {
                plain.push("Identity", vec![Some(x)], BTreeMap::new(), node.outputs.clone());
            }
            _ if is_product(&node)
                && node.inputs.iter().flatten().any(|value| numbers.contains_key(value)) =>
            {
                plain.product(&numbers, &zeros)?;
            }
            _ => return Ok(None),
        }
        Ok(Some(plain.nodes))
    })?;
    graph.redirect(&steps.into_iter().map(|step| (step, one)).collect());
    Ok(())
}

fn is_product(node: &Node) -> bool {
    node.is("MatMulInteger") || node.is("ConvInteger")
}

impl Plain<'_> {
    /// MatMulInteger or ConvInteger on numbers. What it gives is a number, too: it is cast to one anyway.
    fn product(&mut self, numbers: &BTreeMap<ValueId, ValueId>, zeros: &BTreeSet<ValueId>) -> Result<()> {
        let mut operands = Vec::new();
        for index in [0, 1] {
            let Some(value) = self.input(index) else { continue };
            operands.push(match numbers.get(&value) {
                Some(number) => Some(*number),
                None => {
                    Some(self.difference(value, self.input(index + 2).filter(|zero| !zeros.contains(zero)))?)
                }
            });
        }
        let plain = if self.node.is("ConvInteger") { "Conv" } else { "MatMul" };
        self.push(plain, operands, self.node.attributes.clone(), self.node.outputs.clone());
        for output in self.node.outputs.iter().flatten() {
            self.graph.value_mut(*output)?.dtype = Some(DType::F32);
        }
        Ok(())
    }

    /// Whole numbers less their zero point, as floats. The zero points of a weight of a convolution are one for each output.
    fn difference(&mut self, value: ValueId, zero: Option<ValueId>) -> Result<ValueId> {
        let axis = if self.node.is("ConvInteger") { 0 } else { -1 };
        let constant = zero.and_then(|zero| self.graph.value(zero).constant.as_ref());
        let shape = constant.map_or(Vec::new(), |constant| constant.shape().to_vec());
        let ones = vec![1.0; shape.iter().product()];
        let scale = self.graph.add_constant("", Tensor::from_f32(&shape, ones)?)?;
        let number = self.number();
        let attributes = [("axis".to_owned(), Attribute::Int(axis))].into();
        self.push("DequantizeLinear", vec![Some(value), Some(scale), zero], attributes, vec![Some(number)]);
        Ok(number)
    }
}
