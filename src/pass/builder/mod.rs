//! The builder of new nodes.
//!
//! Nodes and values are collected outside of the graph, so the graph can be read while they are made. The
//! first error sticks: nodes and values after it are never added to the graph.

mod element_type;
mod expression;

use std::cell::RefCell;
use std::collections::BTreeMap;

use smallvec::smallvec;

use crate::common::index::Index;
use crate::common::int::Int;
use crate::common::limits;
use crate::error::{At, Error, Result};
use crate::graph::{Attribute, AttributeMap, Graph, Node, Symbol, Value, ValueId};
use crate::op::{NCNN_DOMAIN, NEWEST_OPSET};
use crate::tensor::{Array, DType, SizeCondition, Tensor};

use element_type::{further_type, result_type};
pub(crate) use expression::{Expr, Term, sliced};

/// New nodes that replace a node, or precede one.
pub(crate) struct Builder<'a> {
    pub graph: &'a Graph,
    /// The version of ONNX's operator set of new nodes.
    version: i64,
    made: RefCell<Made>,
}

/// What a builder has made.
#[derive(Default)]
pub(crate) struct Made {
    /// The first new value. The values get the ids that follow.
    first: usize,
    values: Vec<Value>,
    pub nodes: Vec<Node>,
    /// The bytes of new constants.
    pub bytes: u64,
    conditions: Vec<SizeCondition>,
    /// Values whose shapes broadcast to those of others.
    pub broadcasts: Vec<[ValueId; 2]>,
    failed: Option<Error>,
}

impl<'a> Builder<'a> {
    /// Starts an empty list of nodes of the newest operator set.
    pub fn new(graph: &'a Graph) -> Builder<'a> {
        Builder::of_version(graph, NEWEST_OPSET)
    }

    /// Starts an empty list of nodes of a version of the operator set.
    pub fn of_version(graph: &'a Graph, version: i64) -> Builder<'a> {
        let made = Made { first: graph.value_count(), ..Made::default() };
        Builder { graph, version, made: RefCell::new(made) }
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
        Expr::new(self, id, self.graph.value(id).dtype)
    }

    /// Adds a constant tensor, which takes no additional memory.
    pub fn tensor(&self, tensor: Tensor) -> Expr<'_> {
        let shape = tensor.shape().into();
        self.new_value(Value::of_constant(tensor, shape))
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
    pub fn ints(&self, list: &[impl Int]) -> Expr<'_> {
        self.literal(&Array::i64(ndarray::Array1::from_iter(list.iter().map(Int::int)).into_dyn()))
    }

    /// Adds a constant scalar integer.
    pub fn int(&self, n: impl Int) -> Expr<'_> {
        self.literal(&Array::i64(ndarray::arr0(n.int()).into_dyn()))
    }

    /// Adds a constant scalar of an element type.
    pub fn number(&self, number: f32, dtype: DType) -> Expr<'_> {
        self.cast_literal(&Array::f32(ndarray::arr0(number).into_dyn()), dtype)
    }

    /// Adds a constant array, cast to an element type.
    pub fn cast_literal(&self, array: &Array, dtype: DType) -> Expr<'_> {
        self.constant(array.cast(dtype).and_then(|array| Tensor::from_array(&array)))
    }

    /// Adds a node, and returns its first output; [`Expr::output`] returns others. Inputs are values or
    /// omitted ones.
    ///
    /// The operator is of ONNX's domain and the operator set of the builder, or of version 1 of the
    /// domain before the last point, as in ONNX's text syntax.
    pub fn op<'b, 'n, T: Into<Option<Expr<'b>>>>(
        &'b self,
        op_type: &'static str,
        inputs: impl IntoIterator<Item = T>,
        attributes: impl IntoIterator<Item = (&'n str, Attribute)>,
    ) -> Expr<'b> {
        let inputs: Vec<Option<Expr>> = inputs.into_iter().map(Into::into).collect();
        let attributes: AttributeMap =
            attributes.into_iter().map(|(name, attribute)| (Symbol::from(name), attribute)).collect();
        let (domain, op_type, version) = match op_type.rsplit_once('.') {
            Some((domain, op_type)) => (domain, op_type, 1),
            None => ("", op_type, self.version),
        };
        let (op_type, domain) = (op_type.into(), domain.into());
        let node = Node { op_type, domain, version, attributes, ..Node::default() };
        self.push(node, &inputs, 1).first().copied().unwrap_or_else(|| self.nothing())
    }

    /// Adds the concatenation of values along an axis; a single value is returned as it is.
    pub fn concat<'b>(&'b self, parts: &[Expr<'b>], axis: impl Int) -> Expr<'b> {
        match parts {
            [one] => *one,
            _ => self.op("Concat", parts.iter().copied(), [("axis", axis.into())]),
        }
    }

    /// Adds the concatenation of values along a new axis.
    pub fn stack<'b>(&'b self, parts: &[Expr<'b>], axis: impl Int) -> Expr<'b> {
        let axis = axis.int();
        let parts: Vec<Expr> = parts.iter().map(|part| part.unsqueeze(&[axis])).collect();
        self.concat(&parts, axis)
    }

    /// Adds the integers from `first` to `end`, not included, both scalars.
    pub fn range<'b>(&'b self, first: Expr<'b>, end: Expr<'b>) -> Expr<'b> {
        self.op("Range", [first, end, self.int(1)], [])
    }

    /// Returns the inputs of a node.
    pub fn inputs_of(&self, node: &Node) -> Vec<Option<Expr<'_>>> {
        node.inputs.iter().map(|input| input.map(|id| self.value(id))).collect()
    }

    /// Adds a copy of a node with other inputs.
    pub fn copy_of<'b>(&'b self, node: &Node, inputs: &[Option<Expr<'b>>]) -> Vec<Expr<'b>> {
        self.push(node.clone(), inputs, node.outputs.len())
    }

    /// Adds a copy of a node of one output with other inputs.
    ///
    /// # Errors
    ///
    /// If the node has no output.
    pub fn only_copy_of<'b>(&'b self, node: &Node, inputs: &[Option<Expr<'b>>]) -> Result<Expr<'b>> {
        let made = self.copy_of(node, inputs);
        made.first().copied().ok_or_else(|| Error::internal("a node without an output"))
    }

    /// Adds a copy of a node of one output with another value as input `index`.
    ///
    /// # Errors
    ///
    /// If the node has no output.
    pub fn copy_with<'b>(&'b self, node: &Node, index: usize, value: Expr<'b>) -> Result<Expr<'b>> {
        let mut inputs = self.inputs_of(node);
        inputs.put(index, Some(value));
        self.only_copy_of(node, &inputs)
    }

    /// Adds the nodes of a body that reads `inputs`, and returns its outputs.
    ///
    /// # Errors
    ///
    /// If the body has another number of inputs, does not compute an output, or has too many nodes.
    pub fn inline<'b>(&'b self, body: &Graph, inputs: &[Expr<'b>]) -> Result<Vec<Expr<'b>>> {
        if inputs.len() != body.inputs.len() {
            let (count, expected) = (inputs.len(), body.inputs.len());
            return Err(Error::invalid(format!("{count} inputs for a body of {expected}")));
        }
        let mut operands: BTreeMap<ValueId, ValueId> =
            body.inputs.iter().copied().zip(inputs.iter().map(|input| input.id)).collect();
        operands.extend(body.captures.iter().map(|capture| (capture.inner, capture.outer)));
        for id in body.value_ids() {
            if let Some(tensor) = &body.value(id).constant
                && !operands.contains_key(&id)
            {
                operands.insert(id, self.tensor(Tensor::clone(tensor)).id);
            }
        }
        for (_, node) in body.nodes() {
            for output in node.outputs.iter().flatten() {
                operands.insert(*output, self.new_value(Value::default()).id);
            }
            let mut made = self.made.borrow_mut();
            if made.nodes.len() >= limits::UNROLLED_NODES {
                let most = limits::UNROLLED_NODES;
                return Err(Error::limit(format!("the node unrolls to more than {most} nodes")));
            }
            let find = |id: &Option<ValueId>| id.and_then(|id| operands.get(&id).copied());
            let mut copy = Node {
                inputs: node.inputs.iter().map(find).collect(),
                outputs: node.outputs.iter().map(find).collect(),
                ..node.clone()
            };
            for body in copy.bodies_mut() {
                for capture in &mut body.captures {
                    capture.outer = operands.get(&capture.outer).copied().unwrap_or(capture.outer);
                }
            }
            made.nodes.push(copy);
        }
        let find = |id: &ValueId| {
            let value = body.value(*id);
            let operand = operands.get(id).copied();
            let missing = || Error::invalid(format!("the body does not compute \"{}\"", value.name));
            Ok(Expr::new(self, operand.ok_or_else(missing)?, value.dtype))
        };
        body.outputs.iter().map(find).collect()
    }

    /// Adds a node.
    pub fn node(&self, node: Node) {
        self.made.borrow_mut().nodes.push(node);
    }

    /// Requires a condition on free sizes.
    pub fn require(&self, condition: Option<SizeCondition>) {
        self.made.borrow_mut().conditions.extend(condition);
    }

    /// Requires that the shape of a value broadcasts to that of another one.
    pub fn require_broadcast(&self, value: Expr, to: Expr) {
        self.made.borrow_mut().broadcasts.push([value.id, to.id]);
    }

    /// Makes `from` the value `to` of the graph. The new node that computes it gets `to` as its output, and
    /// its readers read that; a value that no new node computes is handed on by an Identity.
    pub fn give(&self, from: Expr, to: ValueId) {
        let mut made = self.made.borrow_mut();
        let from = from.id;
        if !made.nodes.iter().any(|node| node.outputs.contains(&Some(from))) {
            drop(made);
            return self.identity(from, to, self.version);
        }
        let ids = made.nodes.iter_mut().flat_map(|node| node.inputs.iter_mut().chain(&mut node.outputs));
        ids.flatten().filter(|id| **id == from).for_each(|id| *id = to);
    }

    /// Adds an Identity in a version, which is the same operator in all of them.
    pub fn identity(&self, from: ValueId, to: ValueId, version: i64) {
        let (inputs, outputs) = (smallvec![Some(from)], smallvec![Some(to)]);
        self.node(Node { op_type: "Identity".into(), version, inputs, outputs, ..Node::default() });
    }

    /// Records an error, and returns a substitute for the missing value.
    pub fn fail(&self, error: Error) -> Expr<'_> {
        self.made.borrow_mut().failed.get_or_insert(error);
        self.nothing()
    }

    fn nothing(&self) -> Expr<'_> {
        Expr::new(self, ValueId::of(self.made.borrow().first), None)
    }

    /// Adds a value.
    fn new_value(&self, value: Value) -> Expr<'_> {
        let mut made = self.made.borrow_mut();
        let (id, dtype) = (ValueId::of(made.first + made.values.len()), value.dtype);
        made.values.push(value);
        Expr::new(self, id, dtype)
    }

    /// Changes a new value.
    fn change(&self, value: Expr, change: impl FnOnce(&mut Value)) {
        let mut made = self.made.borrow_mut();
        let first = made.first;
        if let Some(value) = value.id.index().checked_sub(first).and_then(|index| made.values.get_mut(index))
        {
            change(value);
        }
    }

    /// Returns output `index` of the node whose first output is `first`.
    fn further_output<'b>(&'b self, first: Expr<'b>, index: usize) -> Expr<'b> {
        let is_made = |node: &Node| node.output(0) == Some(first.id);
        let Some(at) = self.made.borrow().nodes.iter().rposition(is_made) else {
            return self.fail(Error::internal("a further output of a value that is no first one"));
        };
        loop {
            let outputs =
                self.made.borrow().nodes.get(at).map(|node| (node.op_type.clone(), node.output(index)));
            let Some((op_type, found)) = outputs else { return self.nothing() };
            if let Some(id) = found {
                return Expr::new(self, id, further_type(&op_type, index, first.dtype));
            }
            let made = self.new_value(Value::default()).id;
            if let Some(node) = self.made.borrow_mut().nodes.get_mut(at) {
                node.outputs.push(Some(made));
            }
        }
    }

    fn push<'b>(&'b self, node: Node, inputs: &[Option<Expr<'b>>], count: usize) -> Vec<Expr<'b>> {
        let output = |index| {
            let first = result_type(&node.op_type, inputs, &node.attributes);
            Expr { dtype: further_type(&node.op_type, index, first), ..self.new_value(Value::default()) }
        };
        let outputs: Vec<Expr> = (0..count).map(output).collect();
        let count = inputs.iter().rposition(Option::is_some).map_or(0, |last| last + 1);
        self.node(Node {
            inputs: inputs.iter().take(count).map(|input| input.map(|input| input.id)).collect(),
            outputs: outputs.iter().map(|output| Some(output.id)).collect(),
            ..node
        });
        outputs
    }

    /// Sets the version of the last node.
    fn set_version(&self, version: i64) {
        if let Some(node) = self.made.borrow_mut().nodes.last_mut() {
            node.version = version;
        }
    }
}

/// Returns a node of this program's domain with one input and one output.
pub(crate) fn program_node(op_type: &str, input: ValueId, output: ValueId) -> Node {
    Node {
        domain: NCNN_DOMAIN.into(),
        op_type: op_type.into(),
        version: 1,
        inputs: smallvec![Some(input)],
        outputs: smallvec![Some(output)],
        ..Node::default()
    }
}

/// Returns the version of ONNX's operator set that the model has.
pub(crate) fn opset(graph: &Graph) -> i64 {
    graph.opsets.get("").copied().unwrap_or(NEWEST_OPSET)
}

/// Returns the operator set of nodes that are made for `node`: its version, or the model's for a node of
/// another domain.
pub(crate) fn opset_for(graph: &Graph, node: &Node) -> i64 {
    if node.domain.is_empty() { node.version } else { opset(graph) }
}

/// Returns nodes of a version of the operator set that compute the first output of `replaced`, the value that
/// `build` returns; `None` if it returns none.
///
/// # Errors
///
/// If `build` or one of its expressions fails.
pub(crate) fn replacement_of(
    graph: &mut Graph,
    replaced: &Node,
    version: i64,
    build: impl for<'b> FnOnce(&'b Builder<'b>) -> Result<Option<Expr<'b>>>,
) -> Result<Option<Vec<Node>>> {
    let made = Builder::of_version(graph, version);
    let Some(result) = build(&made)? else { return Ok(None) };
    if let Some(output) = replaced.output(0) {
        made.give(result, output);
    }
    made.finish()?.add_to(graph, replaced).map(Some)
}

impl Made {
    /// Returns whether a new node computes a value.
    pub fn computes(&self, id: ValueId) -> bool {
        self.nodes.iter().any(|node| node.outputs.contains(&Some(id)))
    }

    /// Adds the values to the graph, and returns the nodes. Messages name the replaced node of the model.
    ///
    /// # Errors
    ///
    /// If values were added to the graph since the builder was made.
    pub fn add_to(self, graph: &mut Graph, replaced: &Node) -> Result<Vec<Node>> {
        if graph.value_count() != self.first {
            return Err(Error::internal("a graph that changed while nodes were built"));
        }
        for value in self.values {
            graph.add_value(value);
        }
        graph.conditions.extend(self.conditions);
        let mut nodes = self.nodes;
        for node in &mut nodes {
            node.name.clone_from(&replaced.name);
            node.index = replaced.index;
        }
        Ok(nodes)
    }
}
