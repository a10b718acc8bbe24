//! The builder of new nodes.
//!
//! Nodes and values are collected beside the graph, so the graph can be read while they are made. The first
//! error sticks: what is made after it is never added to the graph.

mod expression;

use std::cell::RefCell;
use std::collections::BTreeMap;

use crate::common::limits;
use crate::error::{Error, Result};
use crate::graph::{Attribute, AttributeMap, Graph, Node, Symbol, Value, ValueId};
use crate::op::{self, NEWEST_OPSET};
use crate::tensor::{Array, DType, Tensor};

pub(crate) use expression::{Expr, Term};

/// New nodes that replace a node, or precede one.
pub(crate) struct Builder<'a> {
    graph: &'a Graph,
    made: RefCell<Made>,
}

/// What a builder has made.
#[derive(Default)]
pub(crate) struct Made {
    values: Vec<PendingValue>,
    nodes: Vec<PendingNode>,
    /// The bytes of new constants.
    pub bytes: u64,
    failed: Option<Error>,
}

/// A value that a new node reads or computes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Operand {
    /// A value of the graph.
    Value(ValueId),
    /// A new value, by its index.
    New(usize),
}

/// A new value.
enum PendingValue {
    Constant(Tensor),
    Computed,
}

/// A new node.
struct PendingNode {
    node: Node,
    inputs: Vec<Option<Operand>>,
    outputs: Vec<Option<Operand>>,
    /// The operands for the values that the bodies of the node capture.
    captures: BTreeMap<ValueId, Operand>,
}

impl<'a> Builder<'a> {
    /// Starts an empty list of nodes.
    pub fn new(graph: &'a Graph) -> Builder<'a> {
        Builder { graph, made: RefCell::default() }
    }

    /// Ends the list.
    ///
    /// # Errors
    ///
    /// The first error of an expression.
    pub fn finish(self) -> Result<Made> {
        let mut made = self.made.into_inner();
        made.failed.take().map_or(Ok(made), Err)
    }

    /// Returns a value of the graph.
    pub fn value(&self, id: ValueId) -> Expr<'_> {
        Expr::new(self, Operand::Value(id), self.graph.value(id).dtype)
    }

    /// Adds a constant tensor, which takes no memory of its own.
    pub fn tensor(&self, tensor: Tensor) -> Expr<'_> {
        let dtype = tensor.dtype();
        Expr::new(self, self.new_value(PendingValue::Constant(tensor)), Some(dtype))
    }

    /// Adds a new constant.
    pub fn constant(&self, tensor: Result<Tensor>) -> Expr<'_> {
        match tensor.and_then(|tensor| Ok((tensor.byte_len()?, tensor))) {
            Ok((bytes, tensor)) => {
                let mut made = self.made.borrow_mut();
                made.bytes = made.bytes.saturating_add(bytes);
                drop(made);
                self.tensor(tensor)
            }
            Err(error) => self.fail(error),
        }
    }

    /// Adds a constant array.
    pub fn literal(&self, array: &Array) -> Expr<'_> {
        self.constant(Tensor::from_array(array))
    }

    /// Adds a constant list of numbers in float32.
    pub fn floats(&self, list: &[f32]) -> Expr<'_> {
        self.literal(&Array::f32(ndarray::Array1::from_vec(list.to_vec()).into_dyn()))
    }

    /// Adds a constant list of integers.
    pub fn ints(&self, list: &[i64]) -> Expr<'_> {
        self.literal(&Array::i64(ndarray::Array1::from_vec(list.to_vec()).into_dyn()))
    }

    /// Adds a constant scalar integer.
    pub fn int(&self, n: i64) -> Expr<'_> {
        self.literal(&Array::i64(ndarray::arr0(n).into_dyn()))
    }

    /// Adds a constant scalar of an element type.
    pub fn number(&self, number: f32, dtype: DType) -> Expr<'_> {
        self.cast_literal(&Array::f32(ndarray::arr0(number).into_dyn()), dtype)
    }

    /// Adds a constant array, cast to an element type.
    pub fn cast_literal(&self, array: &Array, dtype: DType) -> Expr<'_> {
        self.constant(array.cast(dtype).and_then(|array| Tensor::from_array(&array)))
    }

    /// Adds a node of the newest operator set with one output. Inputs are values or omitted ones.
    pub fn op<'b, 'n, T: Into<Option<Expr<'b>>>>(
        &'b self,
        op_type: &'static str,
        inputs: impl IntoIterator<Item = T>,
        attributes: impl IntoIterator<Item = (&'n str, Attribute)>,
    ) -> Expr<'b> {
        let [output] = self.op_n(op_type, inputs, attributes);
        output
    }

    /// Adds a node of the newest operator set with `N` outputs.
    pub fn op_n<'b, 'n, const N: usize, T: Into<Option<Expr<'b>>>>(
        &'b self,
        op_type: &'static str,
        inputs: impl IntoIterator<Item = T>,
        attributes: impl IntoIterator<Item = (&'n str, Attribute)>,
    ) -> [Expr<'b>; N] {
        let outputs = self.op_list(op_type, inputs, attributes, N);
        std::array::from_fn(|index| outputs.get(index).copied().unwrap_or_else(|| self.nothing()))
    }

    /// Adds a node of the newest operator set with `count` outputs.
    pub fn op_list<'b, 'n, T: Into<Option<Expr<'b>>>>(
        &'b self,
        op_type: &'static str,
        inputs: impl IntoIterator<Item = T>,
        attributes: impl IntoIterator<Item = (&'n str, Attribute)>,
        count: usize,
    ) -> Vec<Expr<'b>> {
        let inputs: Vec<Option<Expr>> = inputs.into_iter().map(Into::into).collect();
        let attributes: AttributeMap =
            attributes.into_iter().map(|(name, attribute)| (Symbol::from(name), attribute)).collect();
        let dtype = |index| result_type(op_type, index, &inputs, &attributes);
        let dtypes: Vec<Option<DType>> = (0..count).map(dtype).collect();
        let node = Node { op_type: op_type.into(), version: NEWEST_OPSET, attributes, ..Node::default() };
        self.push(node, &inputs, dtypes)
    }

    /// Adds the concatenation of values along an axis; a single value is returned as it is.
    pub fn concat<'b>(&'b self, parts: &[Expr<'b>], axis: i64) -> Expr<'b> {
        match parts {
            [one] => *one,
            _ => self.op("Concat", parts.iter().copied(), [("axis", axis.into())]),
        }
    }

    /// Adds the concatenation of values along a new axis.
    pub fn stack<'b>(&'b self, parts: &[Expr<'b>], axis: i64) -> Expr<'b> {
        let parts: Vec<Expr> = parts.iter().map(|part| part.unsqueeze(&[axis])).collect();
        self.concat(&parts, axis)
    }

    /// Adds a node of this program's own domain with one output.
    pub fn own_op<'b, 'n, T: Into<Option<Expr<'b>>>>(
        &'b self,
        op_type: &'static str,
        inputs: impl IntoIterator<Item = T>,
        attributes: impl IntoIterator<Item = (&'n str, Attribute)>,
    ) -> Expr<'b> {
        let output = self.op(op_type, inputs, attributes);
        self.set_domain(op::OWN_DOMAIN);
        output
    }

    /// Adds a node of onnxruntime's domain with one output.
    pub fn contrib_op<'b, 'n, T: Into<Option<Expr<'b>>>>(
        &'b self,
        op_type: &'static str,
        inputs: impl IntoIterator<Item = T>,
        attributes: impl IntoIterator<Item = (&'n str, Attribute)>,
    ) -> Expr<'b> {
        let output = self.op(op_type, inputs, attributes);
        self.set_domain(op::CONTRIB_DOMAIN);
        output
    }

    /// Adds a copy of a node of one output with other inputs.
    pub fn copy_of<'b>(&'b self, node: &Node, inputs: &[Option<Expr<'b>>]) -> Expr<'b> {
        let made = self.push(node.clone(), inputs, vec![None]);
        made.first().copied().unwrap_or_else(|| self.nothing())
    }

    /// Adds the nodes of a body that reads `inputs`, and returns its outputs.
    ///
    /// # Errors
    ///
    /// If the body has another number of inputs, does not compute an output, or has too many nodes.
    pub fn inline<'b>(&'b self, body: &Graph, inputs: &[Expr<'b>]) -> Result<Vec<Expr<'b>>> {
        if inputs.len() != body.inputs.len() {
            let (given, expected) = (inputs.len(), body.inputs.len());
            return Err(Error::invalid(format!("{given} inputs for a body of {expected}")));
        }
        let mut operands: BTreeMap<ValueId, Operand> =
            body.inputs.iter().copied().zip(inputs.iter().map(|input| input.operand)).collect();
        operands.extend(body.captures.iter().map(|capture| (capture.inner, Operand::Value(capture.outer))));
        for id in body.value_ids() {
            if let Some(tensor) = &body.value(id).constant
                && !operands.contains_key(&id)
            {
                operands.insert(id, self.tensor(Tensor::clone(tensor)).operand);
            }
        }
        for (_, node) in body.nodes() {
            for output in node.outputs.iter().flatten() {
                operands.insert(*output, self.new_value(PendingValue::Computed));
            }
            let mut made = self.made.borrow_mut();
            if made.nodes.len() >= limits::UNROLLED_NODES {
                let most = limits::UNROLLED_NODES;
                return Err(Error::limit(format!("the node unrolls to more than {most} nodes")));
            }
            let find = |id: &Option<ValueId>| id.and_then(|id| operands.get(&id).copied());
            made.nodes.push(PendingNode {
                node: node.clone(),
                inputs: node.inputs.iter().map(find).collect(),
                outputs: node.outputs.iter().map(find).collect(),
                captures: node.reads().filter_map(|id| Some((id, *operands.get(&id)?))).collect(),
            });
        }
        let find = |id: &ValueId| {
            let value = body.value(*id);
            let operand = operands.get(id).copied();
            let missing = || Error::invalid(format!("the body does not compute \"{}\"", value.name));
            Ok(Expr::new(self, operand.ok_or_else(missing)?, value.dtype))
        };
        body.outputs.iter().map(find).collect()
    }

    /// Adds a node that computes a value of the graph, as the `version` of Identity.
    pub(super) fn identity(&self, from: Expr, to: ValueId, version: i64) {
        let node = Node { op_type: "Identity".into(), version, ..Node::default() };
        self.made.borrow_mut().nodes.push(PendingNode {
            node,
            inputs: vec![Some(from.operand)],
            outputs: vec![Some(Operand::Value(to))],
            captures: BTreeMap::new(),
        });
    }

    /// Records an error, and returns a value in place of the one that could not be made.
    pub fn fail(&self, error: Error) -> Expr<'_> {
        self.made.borrow_mut().failed.get_or_insert(error);
        self.nothing()
    }

    /// Returns a value without its type.
    pub fn wrap(&self, operand: Operand) -> Expr<'_> {
        Expr::new(self, operand, None)
    }

    fn nothing(&self) -> Expr<'_> {
        Expr::new(self, Operand::New(usize::MAX), None)
    }

    fn new_value(&self, value: PendingValue) -> Operand {
        let values = &mut self.made.borrow_mut().values;
        values.push(value);
        Operand::New(values.len() - 1)
    }

    fn push<'b>(
        &'b self,
        node: Node,
        inputs: &[Option<Expr<'b>>],
        dtypes: Vec<Option<DType>>,
    ) -> Vec<Expr<'b>> {
        let outputs: Vec<Operand> = dtypes.iter().map(|_| self.new_value(PendingValue::Computed)).collect();
        self.made.borrow_mut().nodes.push(PendingNode {
            node,
            inputs: inputs.iter().map(|input| input.map(|input| input.operand)).collect(),
            outputs: outputs.iter().copied().map(Some).collect(),
            captures: BTreeMap::new(),
        });
        outputs.into_iter().zip(dtypes).map(|(operand, dtype)| Expr::new(self, operand, dtype)).collect()
    }

    /// Moves the last node to a domain, in version 1 of its operator set.
    fn set_domain(&self, domain: &str) {
        if let Some(PendingNode { node, .. }) = self.made.borrow_mut().nodes.last_mut() {
            (node.domain, node.version) = (domain.into(), 1);
        }
    }
}

/// Returns the element type of result `index` of an operator, which gives its type to numbers beside it.
fn result_type(
    op_type: &str,
    index: usize,
    inputs: &[Option<Expr>],
    attributes: &AttributeMap,
) -> Option<DType> {
    let type_of = |index: usize| inputs.get(index).copied().flatten().and_then(|input| input.dtype);
    match op_type {
        "And" | "Equal" | "Greater" | "GreaterOrEqual" | "IsInf" | "IsNaN" | "Less" | "LessOrEqual"
        | "Not" | "Or" => Some(DType::Bool),
        "ArgMax" | "ArgMin" | "NonZero" | "Shape" | "Size" => Some(DType::I64),
        "ConvInteger" | "MatMulInteger" => Some(DType::I32),
        "Cast" | "Levels" => match attributes.get("to") {
            Some(Attribute::Int(to)) => i32::try_from(*to).ok().and_then(DType::from_onnx),
            _ => None,
        },
        "DynamicQuantizeLinear" => Some(if index == 1 { DType::F32 } else { DType::U8 }),
        "DequantizeLinear" | "Where" => type_of(1),
        "MaxPool" | "TopK" if index == 1 => Some(DType::I64),
        "OneHot" | "QuantizeLinear" => type_of(2),
        "SequenceConstruct" => None,
        _ => type_of(0),
    }
}

impl Made {
    /// Returns the values of the graph that the nodes compute.
    pub fn outputs(&self) -> impl Iterator<Item = ValueId> {
        let outputs = self.nodes.iter().flat_map(|made| made.outputs.iter().flatten());
        outputs.filter_map(|output| if let Operand::Value(id) = output { Some(*id) } else { None })
    }

    /// Returns the nodes.
    pub fn nodes(&self) -> impl Iterator<Item = &Node> {
        self.nodes.iter().map(|made| &made.node)
    }

    /// Adds the values to the graph, and returns the nodes. Messages name the replaced node of the model.
    ///
    /// # Errors
    ///
    /// If the shape of a constant is too large.
    pub fn add_to(self, graph: &mut Graph, replaced: &Node) -> Result<Vec<Node>> {
        let add = |value| match value {
            PendingValue::Constant(tensor) => graph.add_constant("", tensor),
            PendingValue::Computed => Ok(graph.add_value(Value::default())),
        };
        let ids = self.values.into_iter().map(add).collect::<Result<Vec<ValueId>>>()?;
        let resolve = |operand: &Operand| match operand {
            Operand::Value(id) => Some(*id),
            Operand::New(index) => ids.get(*index).copied(),
        };
        let nodes = self.nodes.into_iter().map(|pending| {
            let mut made = pending.node;
            for body in made.bodies_mut() {
                for capture in &mut body.captures {
                    if let Some(id) = pending.captures.get(&capture.outer).and_then(resolve) {
                        capture.outer = id;
                    }
                }
            }
            made.name.clone_from(&replaced.name);
            made.index = replaced.index;
            made.inputs = pending.inputs.iter().map(|operand| operand.as_ref().and_then(resolve)).collect();
            made.outputs = pending.outputs.iter().map(|operand| operand.as_ref().and_then(resolve)).collect();
            made
        });
        Ok(nodes.collect())
    }
}
