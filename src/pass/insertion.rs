//! The builder of nodes that passes insert.

use smallvec::smallvec;

use crate::error::Result;
use crate::graph::{Attribute, AttributeMap, Graph, Node, Symbol, Value, ValueId};
use crate::op::{NEWEST_OPSET, OWN_DOMAIN};
use crate::pass::pattern::{only_output, perm_attribute};
use crate::tensor::{Array, DType, Dim, Tensor};

/// New nodes for one position of the graph. Those that read only constants are folded later.
#[derive(Debug)]
pub(crate) struct InsertionPoint<'g> {
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
    pub fn constant_shape(&self, value: ValueId) -> &[usize] {
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
        self.op_of(None, op_type, inputs.iter().copied().map(Some), named(attributes))
    }

    /// Adds a node of ncnn's domain with one output.
    pub fn own_op(&mut self, op_type: &str, inputs: &[ValueId], attributes: &[(&str, Attribute)]) -> ValueId {
        let output = self.op(op_type, inputs, attributes);
        if let Some(node) = self.nodes.last_mut() {
            node.domain = OWN_DOMAIN.into();
        }
        output
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

    /// Adds a Transpose.
    pub fn transpose(&mut self, value: ValueId, perm: &[usize]) -> Result<ValueId> {
        Ok(self.op("Transpose", &[value], &[perm_attribute(perm)?]))
    }

    /// Adds a constant of this shape with all elements equal, in the type of `like`.
    pub fn filled(&mut self, element: f32, shape: &[i64], like: ValueId) -> Result<ValueId> {
        let sizes: std::result::Result<Vec<usize>, _> = shape.iter().map(|n| usize::try_from(*n)).collect();
        let dtype = self.graph.value(like).dtype.unwrap_or(DType::F32);
        let element = Array::f32(ndarray::ArrayD::from_elem(Vec::new(), element)).cast(dtype)?;
        self.graph.add_constant("", Tensor::filled(&element, sizes?)?)
    }

    /// Returns the sizes of a value; `None` for free sizes.
    pub fn sizes(&self, value: ValueId) -> Vec<Option<i64>> {
        self.graph.value(value).shape.iter().flatten().map(Dim::known).collect()
    }

    /// Returns the sizes of the replaced node's output; `None` for free sizes.
    pub fn result_sizes(&self) -> Vec<Option<i64>> {
        only_output(&self.template).map_or_else(Vec::new, |value| self.sizes(value))
    }

    /// Adds a node that computes the outputs of the replaced node.
    pub fn last(&mut self, op_type: &str, inputs: &[ValueId], attributes: &[(&str, Attribute)]) {
        let node = self.node(op_type, inputs.iter().copied().map(Some), named(attributes));
        self.nodes.push(node);
    }

    /// Adds a node of ncnn's domain that computes the outputs of the replaced node.
    pub fn own_last(&mut self, op_type: &str, inputs: &[ValueId], attributes: &[(&str, Attribute)]) {
        let node = self.node(op_type, inputs.iter().copied().map(Some), named(attributes));
        self.nodes.push(Node { domain: OWN_DOMAIN.into(), ..node });
    }

    /// Adds `node` with the outputs of the replaced node.
    pub fn last_as(&mut self, node: Node) {
        self.nodes.push(Node { outputs: self.template.outputs.clone(), ..node });
    }

    /// Returns the nodes.
    pub fn into_nodes(self) -> Vec<Node> {
        self.nodes
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

fn named(attributes: &[(&str, Attribute)]) -> AttributeMap {
    attributes.iter().map(|(name, attribute)| (Symbol::from(*name), attribute.clone())).collect()
}
