//! Changes to a graph while patterns are looked for, and nodes in the making.

use smallvec::smallvec;

use crate::common::index::{IndexMap, IndexSet};
use crate::error::Result;
use crate::graph::{Attribute, AttributeMap, Graph, Node, NodeId, Symbol, Value, ValueId};
use crate::op::NEWEST_OPSET;
use crate::tensor::{Array, DType, Tensor};

/// What is to stand in the places of nodes. It is gathered while patterns are looked for and made at once, so that patterns are
/// looked for in a graph that stays as it is.
#[derive(Debug, Default)]
pub(super) struct Edits {
    replaced: IndexMap<NodeId, Vec<Node>>,
    touched: IndexSet<NodeId>,
}

impl Edits {
    /// Whether none of these nodes is part of a pattern that was found before.
    pub fn are_free(&self, nodes: &[NodeId]) -> bool {
        nodes.iter().all(|node| !self.touched.contains(*node))
    }

    /// Keeps nodes from being part of another pattern.
    pub fn touch(&mut self, nodes: &[NodeId]) {
        self.touched.extend(nodes.iter().copied());
    }

    /// Puts nodes in the place of the last of a pattern; the other nodes of it stay for those who read them.
    pub fn replace(&mut self, pattern: &[NodeId], nodes: Vec<Node>) {
        self.touch(pattern);
        if let Some(last) = pattern.last() {
            self.replaced.insert(*last, nodes);
        }
    }

    /// Changes the graph; the answer is whether there was anything to do.
    pub fn apply(mut self, graph: &mut Graph) -> Result<bool> {
        if self.replaced.is_empty() {
            return Ok(false);
        }
        graph.rewrite_nodes(|_, id| Ok(self.replaced.remove(id)))?;
        Ok(true)
    }
}

/// Nodes in the making, that stand in one place. Those that read constants alone are evaluated by the folder.
#[derive(Debug)]
pub(in crate::pass) struct InsertionPoint<'g> {
    pub graph: &'g mut Graph,
    /// The name, domain, version and outputs of new nodes.
    template: Node,
    nodes: Vec<Node>,
}

impl<'g> InsertionPoint<'g> {
    /// A place without nodes.
    pub fn new(graph: &'g mut Graph) -> InsertionPoint<'g> {
        let template = Node { version: NEWEST_OPSET, ..Node::default() };
        InsertionPoint { graph, template, nodes: Vec::new() }
    }

    /// The place of `node`, for nodes with its name and a version of a domain's operator set.
    pub fn in_place_of(graph: &'g mut Graph, node: &Node, domain: &str, version: i64) -> InsertionPoint<'g> {
        let template = Node {
            name: node.name.clone(),
            index: node.index,
            domain: domain.into(),
            version,
            outputs: node.outputs.clone(),
            ..Node::default()
        };
        InsertionPoint { graph, template, nodes: Vec::new() }
    }

    /// The sizes of a constant.
    pub fn sizes(&self, value: ValueId) -> &[usize] {
        self.graph.value(value).constant.as_ref().map_or(&[], Tensor::shape)
    }

    /// A constant list of integers, as axes and shapes are given.
    pub fn ints(&mut self, list: &[i64]) -> Result<ValueId> {
        let array = Array::i64(ndarray::ArrayD::from_shape_vec(vec![list.len()], list.to_vec())?);
        self.graph.add_constant("", Tensor::from_array(&array)?)
    }

    /// A constant of no axes.
    pub fn number(&mut self, dtype: DType, number: f32) -> Result<ValueId> {
        let array = Array::f32(ndarray::ArrayD::from_elem(ndarray::IxDyn(&[]), number)).cast(dtype)?;
        self.graph.add_constant("", Tensor::from_array(&array)?)
    }

    /// A node of the newest operator set with one output. What stays in the graph is not made so: its version would be asked of
    /// all nodes of a written model.
    pub fn op(
        &mut self,
        op_type: impl Into<Symbol>,
        inputs: &[ValueId],
        attributes: &[(&str, Attribute)],
    ) -> ValueId {
        let attributes = attributes.iter().map(|(name, a)| (Symbol::from(*name), a.clone())).collect();
        self.op_of(None, op_type, inputs.iter().copied().map(Some), attributes)
    }

    /// A node with inputs that may be left out, and with one output of a type.
    pub fn op_of(
        &mut self,
        dtype: Option<DType>,
        op_type: impl Into<Symbol>,
        inputs: impl IntoIterator<Item = Option<ValueId>>,
        attributes: AttributeMap,
    ) -> ValueId {
        let output = self.graph.add_value(Value { dtype, ..Value::default() });
        let node = self.node(op_type, inputs, attributes);
        self.nodes.push(Node { outputs: smallvec![Some(output)], ..node });
        output
    }

    fn node(
        &self,
        op_type: impl Into<Symbol>,
        inputs: impl IntoIterator<Item = Option<ValueId>>,
        attributes: AttributeMap,
    ) -> Node {
        let inputs = inputs.into_iter().collect();
        Node { op_type: op_type.into(), inputs, attributes, ..self.template.clone() }
    }

    /// A constant in another shape, as Reshape takes it.
    pub fn reshape(&mut self, value: ValueId, shape: &[i64]) -> Result<ValueId> {
        let shape = self.ints(shape)?;
        Ok(self.op("Reshape", &[value, shape], &[]))
    }

    /// Gives a value that is made here the name of one that it takes the place of.
    pub fn take_name(&mut self, made: ValueId, from: ValueId) -> Result<()> {
        let name = self.graph.value(from).name.clone();
        self.graph.value_mut(made)?.name = name;
        Ok(())
    }

    /// A node among them.
    pub fn push(&mut self, node: Node) {
        self.nodes.push(node);
    }

    /// The nodes, with a last one that computes the outputs of the replaced node.
    pub fn finish(
        self,
        op_type: impl Into<Symbol>,
        inputs: impl IntoIterator<Item = Option<ValueId>>,
        attributes: AttributeMap,
    ) -> Vec<Node> {
        let node = self.node(op_type, inputs, attributes);
        self.end_with(node)
    }

    /// The nodes, with a last one.
    pub fn end_with(mut self, node: Node) -> Vec<Node> {
        self.nodes.push(node);
        self.nodes
    }
}

/// An integer attribute of a node, where it has one.
pub(in crate::pass) fn int(node: &Node, name: &str) -> Option<i64> {
    match node.attributes.get(name) {
        Some(Attribute::Int(n)) => Some(*n),
        _ => None,
    }
}

/// Input `index` of a node, where it is given.
pub(in crate::pass) fn input(node: &Node, index: usize) -> Option<ValueId> {
    node.inputs.get(index).copied().flatten()
}

/// The first output of a node, where it has no other.
pub(in crate::pass) fn only_output(node: &Node) -> Option<ValueId> {
    match node.outputs.as_slice() {
        [Some(output), rest @ ..] if rest.iter().all(Option::is_none) => Some(*output),
        _ => None,
    }
}
