//! Deferred changes of a graph, and the nodes that they insert.

use smallvec::smallvec;

use crate::common::index::{IndexMap, IndexSet};
use crate::error::Result;
use crate::graph::{Attribute, AttributeMap, Graph, Node, NodeId, Symbol, Value, ValueId};
use crate::op::NEWEST_OPSET;
use crate::tensor::{Array, DType, Tensor};

/// Replacements of nodes. They are collected during the search for patterns and applied at the end, so that
/// the searched graph does not change.
#[derive(Debug, Default)]
pub(super) struct Edits {
    replaced: IndexMap<NodeId, Vec<Node>>,
    touched: IndexSet<NodeId>,
}

impl Edits {
    /// Returns whether none of these nodes is part of an earlier replacement.
    pub fn are_free(&self, nodes: &[NodeId]) -> bool {
        nodes.iter().all(|node| !self.touched.contains(*node))
    }

    /// Excludes nodes from further replacements.
    pub fn touch(&mut self, nodes: &[NodeId]) {
        self.touched.extend(nodes.iter().copied());
    }

    /// Replaces the last node of a pattern by `nodes`; its other nodes stay for other readers.
    pub fn replace(&mut self, pattern: &[NodeId], nodes: Vec<Node>) {
        self.touch(pattern);
        if let Some(last) = pattern.last() {
            self.replaced.insert(*last, nodes);
        }
    }

    /// Applies the replacements, and returns whether there were any.
    pub fn apply(mut self, graph: &mut Graph) -> Result<bool> {
        if self.replaced.is_empty() {
            return Ok(false);
        }
        graph.rewrite_nodes(|_, id| Ok(self.replaced.remove(id)))?;
        Ok(true)
    }
}

/// Replaces each node that `find` matches by the node that `make` returns. Returns whether there were any.
pub(super) fn replace_nodes<T>(
    graph: &mut Graph,
    mut find: impl FnMut(&Graph, &Node) -> Option<T>,
    make: impl Fn(&mut Graph, &Node, T) -> Result<Node>,
) -> Result<bool> {
    let found: Vec<(NodeId, T)> =
        graph.nodes().filter_map(|(id, node)| Some((id, find(graph, node)?))).collect();
    let mut edits = Edits::default();
    for (id, found) in found {
        let Some(node) = graph.node(id).cloned() else { continue };
        let made = make(graph, &node, found)?;
        edits.replace(&[id], vec![made]);
    }
    edits.apply(graph)
}

/// New nodes for one position of the graph. Those that read only constants are folded later.
#[derive(Debug)]
pub(in crate::pass) struct InsertionPoint<'g> {
    pub graph: &'g mut Graph,
    /// Name, domain, version and outputs of new nodes.
    template: Node,
    nodes: Vec<Node>,
}

impl<'g> InsertionPoint<'g> {
    /// Starts an empty list of nodes.
    pub fn new(graph: &'g mut Graph) -> InsertionPoint<'g> {
        let template = Node { version: NEWEST_OPSET, ..Node::default() };
        InsertionPoint { graph, template, nodes: Vec::new() }
    }

    /// Starts a list of nodes that replace `node`, with its name and a version of a domain's operator set.
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

    /// Returns the shape of a constant.
    pub fn sizes(&self, value: ValueId) -> &[usize] {
        self.graph.value(value).constant.as_ref().map_or(&[], Tensor::shape)
    }

    /// Adds a constant list of integers, for axes and shapes.
    pub fn ints(&mut self, list: &[i64]) -> Result<ValueId> {
        let array = Array::i64(ndarray::ArrayD::from_shape_vec(vec![list.len()], list.to_vec())?);
        self.graph.add_constant("", Tensor::from_array(&array)?)
    }

    /// Adds a scalar constant.
    pub fn scalar(&mut self, dtype: DType, scalar: f32) -> Result<ValueId> {
        let array = Array::f32(ndarray::ArrayD::from_elem(ndarray::IxDyn(&[]), scalar)).cast(dtype)?;
        self.graph.add_constant("", Tensor::from_array(&array)?)
    }

    /// Adds a node of the newest operator set with one output, for folding only: a node that stays in the
    /// graph would require that version of the operator set for all nodes of a written model.
    pub fn op(
        &mut self,
        op_type: impl Into<Symbol>,
        inputs: &[ValueId],
        attributes: &[(&str, Attribute)],
    ) -> ValueId {
        let attributes = attributes.iter().map(|(name, a)| (Symbol::from(*name), a.clone())).collect();
        self.op_of(None, op_type, inputs.iter().copied().map(Some), attributes)
    }

    /// Adds a node with optional inputs and one output of a given type.
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

    /// Adds a Reshape.
    pub fn reshape(&mut self, value: ValueId, shape: &[i64]) -> Result<ValueId> {
        let shape = self.ints(shape)?;
        Ok(self.op("Reshape", &[value, shape], &[]))
    }

    /// Renames a new value to the value that it replaces.
    pub fn take_name(&mut self, made: ValueId, from: ValueId) -> Result<()> {
        let name = self.graph.value(from).name.clone();
        self.graph.value_mut(made)?.name = name;
        Ok(())
    }

    /// Adds a node.
    pub fn push(&mut self, node: Node) {
        self.nodes.push(node);
    }

    /// Returns the nodes with a last one, which computes the outputs of the replaced node.
    pub fn finish(
        self,
        op_type: impl Into<Symbol>,
        inputs: impl IntoIterator<Item = Option<ValueId>>,
        attributes: AttributeMap,
    ) -> Vec<Node> {
        let node = self.node(op_type, inputs, attributes);
        self.end_with(node)
    }

    /// Returns the nodes with a last one.
    pub fn end_with(mut self, node: Node) -> Vec<Node> {
        self.nodes.push(node);
        self.nodes
    }
}
