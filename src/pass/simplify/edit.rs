//! Deferred changes of a graph, and the nodes that they insert.

use smallvec::smallvec;

use crate::common::index::{IndexMap, IndexSet};
use crate::error::Result;
use crate::graph::{Attribute, Graph, Node, NodeId, Symbol, Value, ValueId};
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

/// New nodes for one position of the graph. Those that read only constants are folded later.
#[derive(Debug)]
pub(super) struct InsertionPoint<'g> {
    pub graph: &'g mut Graph,
    nodes: Vec<Node>,
}

impl<'g> InsertionPoint<'g> {
    /// Starts an empty list of nodes.
    pub fn new(graph: &'g mut Graph) -> InsertionPoint<'g> {
        InsertionPoint { graph, nodes: Vec::new() }
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
    pub fn number(&mut self, dtype: DType, number: f32) -> Result<ValueId> {
        let array = Array::f32(ndarray::ArrayD::from_elem(ndarray::IxDyn(&[]), number)).cast(dtype)?;
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
        let output = self.graph.add_value(Value::default());
        self.nodes.push(Node {
            op_type: op_type.into(),
            version: NEWEST_OPSET,
            inputs: inputs.iter().copied().map(Some).collect(),
            outputs: smallvec![Some(output)],
            attributes: attributes.iter().map(|(name, a)| (Symbol::from(*name), a.clone())).collect(),
            ..Node::default()
        });
        output
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

    /// Returns the nodes with a last one.
    pub fn end_with(mut self, node: Node) -> Vec<Node> {
        self.nodes.push(node);
        self.nodes
    }
}

/// Returns an integer attribute of a node.
pub(super) fn int(node: &Node, name: &str) -> Option<i64> {
    match node.attributes.get(name) {
        Some(Attribute::Int(n)) => Some(*n),
        _ => None,
    }
}

/// Returns input `index` of a node.
pub(super) fn input(node: &Node, index: usize) -> Option<ValueId> {
    node.inputs.get(index).copied().flatten()
}

/// Returns the output of a node with only one.
pub(super) fn only_output(node: &Node) -> Option<ValueId> {
    match node.outputs.as_slice() {
        [Some(output), rest @ ..] if rest.iter().all(Option::is_none) => Some(*output),
        _ => None,
    }
}
