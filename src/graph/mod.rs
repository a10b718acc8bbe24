//! The source graph: ONNX's semantics with typed ids. Everything before lowering works on it.

mod attribute;
mod check;
mod dump;
mod edit;
mod lineage;
mod order;
mod symbol;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use smallvec::SmallVec;

use crate::common::index::{Index, IndexLists, IndexSet, RawIndex};
use crate::common::limits::Budget;
use crate::error::{Error, NodeAt, Result};
use crate::tensor::{Array, DType, Shape, Tensor};

pub use attribute::{Attribute, AttributeMap};
use lineage::Lineage;
pub use symbol::Symbol;
pub(crate) use symbol::Symbols;

/// A value of a [`Graph`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ValueId(RawIndex);

/// A node of a [`Graph`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeId(RawIndex);

impl Index for ValueId {
    fn of(number: usize) -> ValueId {
        ValueId(RawIndex::of(number))
    }

    fn index(self) -> usize {
        self.0.get()
    }
}

impl Index for NodeId {
    fn of(number: usize) -> NodeId {
        NodeId(RawIndex::of(number))
    }

    fn index(self) -> usize {
        self.0.get()
    }
}

/// Errors of nodes that are reported only if the node is still needed when the graph is lowered.
pub type DeferredErrors = BTreeMap<NodeId, Error>;

/// What a node computes or a graph is given: one tensor.
#[derive(Clone, Debug, Default)]
pub struct Value {
    /// The name in the model; empty for values made here.
    pub name: String,
    /// The type of the elements, where it is known.
    pub dtype: Option<DType>,
    /// The sizes, where the number of axes is known.
    pub shape: Option<Shape>,
    /// The elements, where the value is a constant.
    pub constant: Option<Tensor>,
    /// The elements of a small integer tensor that carries sizes, where they are not all numbers.
    pub elements: Option<Box<Array>>,
    /// Whether the model says of what type and shape the value is.
    pub declared: bool,
    /// What the model says of a value that is not a tensor.
    pub other_type: Option<Box<OtherType>>,
    /// The node that computes the value; none for inputs, initializers and captured values.
    pub producer: Option<NodeId>,
}

/// A type that is not a tensor: a sequence, a map. Nothing here looks into it.
#[derive(Clone, Debug)]
pub struct OtherType {
    /// What it is, in ONNX's word.
    pub kind: &'static str,
    /// Its message, encoded.
    pub encoded: Bytes,
}

/// What a node reads or computes, in order; `None` where an optional one is left out. Most have a few, which are in the node itself.
pub type Ids = SmallVec<[Option<ValueId>; 4]>;

/// One call of an operator.
#[derive(Clone, Debug, Default)]
pub struct Node {
    /// The name in the model; may be empty.
    pub name: String,
    /// The place in the model's list of nodes, for messages.
    pub index: usize,
    /// The domain; empty for ONNX's own, however the model spells it.
    pub domain: Symbol,
    /// The operator.
    pub op_type: Symbol,
    /// The version of the domain's operator set that the node follows.
    pub version: i64,
    /// Inputs in order; `None` where an optional one is left out.
    pub inputs: Ids,
    /// Outputs in order; `None` where an optional one is left out.
    pub outputs: Ids,
    /// Attributes by name.
    pub attributes: AttributeMap,
}

impl Node {
    /// The place for messages.
    pub fn at(&self) -> NodeAt {
        NodeAt {
            name: self.name.clone(),
            index: self.index,
            op_type: self.qualified_op_type(),
            version: self.version,
        }
    }

    /// The operator with its domain, where that is not ONNX's own.
    pub fn qualified_op_type(&self) -> String {
        if self.domain.is_empty() {
            self.op_type.to_string()
        } else {
            format!("{}.{}", self.domain, self.op_type)
        }
    }

    /// The graphs in the attributes.
    pub fn bodies(&self) -> impl Iterator<Item = &Graph> + Clone {
        self.attributes.values().flat_map(Attribute::graphs)
    }

    /// The graphs in the attributes, to change them.
    pub fn bodies_mut(&mut self) -> impl Iterator<Item = &mut Graph> {
        self.attributes.iter_mut().flat_map(|(_, attribute)| attribute.graphs_mut())
    }

    /// Every value that the node reads, those of its bodies among them.
    pub fn reads(&self) -> impl Iterator<Item = ValueId> + Clone + '_ {
        let captured = self.bodies().flat_map(|body| body.captures.iter().map(|capture| capture.outer));
        self.inputs.iter().flatten().copied().chain(captured)
    }

    /// Whether the node is this operator of ONNX's own domain.
    pub fn is(&self, op_type: &str) -> bool {
        self.domain.is_empty() && self.op_type == op_type
    }
}

/// A value of the graph around a body, and the value that stands for it in the body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Capture {
    /// The value in the graph around.
    pub outer: ValueId,
    /// The value in the body.
    pub inner: ValueId,
}

/// A graph: values in an arena, nodes in topological order.
#[derive(Clone, Debug, Default)]
pub struct Graph {
    /// The name in the model.
    pub name: String,
    values: Vec<Value>,
    nodes: Vec<Option<Node>>,
    order: Vec<NodeId>,
    /// Values that are given from outside, initializers not among them.
    pub inputs: Vec<ValueId>,
    /// Values that the graph is for.
    pub outputs: Vec<ValueId>,
    /// Values that nobody reads and that stay nevertheless.
    pub kept: Vec<ValueId>,
    /// In the body of a control-flow node: values of the graph around it.
    pub captures: Vec<Capture>,
    /// Versions of the operator sets, by domain; ONNX's own is the empty one.
    pub opsets: BTreeMap<String, i64>,
    /// Nodes that were folded, in that order, where they are kept: what they compute may be too large to be written.
    pub folded: Option<Vec<Node>>,
    lineage: Lineage,
    /// What a look at all nodes told, as long as none changes: most passes find nothing to do.
    cache: Cache,
    /// What the model has cost so far.
    pub(crate) budget: Budget,
}

/// What all nodes of a graph have together.
#[derive(Clone, Debug, Default)]
struct Cache {
    /// Who reads each value.
    readers: OnceLock<Arc<IndexLists<ValueId, NodeId>>>,
    /// The operators of ONNX's own domain.
    operators: OnceLock<Arc<BTreeSet<Symbol>>>,
}

impl Graph {
    /// A value. Ids are only made by this graph, so the value exists.
    pub fn value(&self, id: ValueId) -> &Value {
        const MISSING: &Value = &Value {
            name: String::new(),
            dtype: None,
            shape: None,
            constant: None,
            elements: None,
            declared: false,
            other_type: None,
            producer: None,
        };
        self.values.get(id.index()).unwrap_or(MISSING)
    }

    /// A value, to change it.
    pub fn value_mut(&mut self, id: ValueId) -> Result<&mut Value> {
        self.values.get_mut(id.index()).ok_or_else(|| Error::internal("a value of another graph"))
    }

    /// All values, in the order of their making.
    pub fn value_ids(&self) -> impl Iterator<Item = ValueId> + use<> {
        (0..self.values.len()).map(ValueId::of)
    }

    /// Makes room for values and nodes that are to come, and for as many that may stand in their places later: room that stays empty
    /// takes no memory, and lists that grow are copied.
    pub(crate) fn expect(&mut self, values: usize, nodes: usize) {
        self.values.reserve(2 * values);
        self.nodes.reserve(2 * nodes);
        self.order.reserve(nodes);
    }

    /// How many constants there are.
    pub(crate) fn constant_count(&self) -> usize {
        self.values.iter().filter(|value| value.constant.is_some()).count()
    }

    /// Adds a value.
    pub fn add_value(&mut self, value: Value) -> ValueId {
        self.values.push(value);
        ValueId::of(self.values.len() - 1)
    }

    /// Adds a constant.
    pub fn add_constant(&mut self, name: &str, tensor: Tensor) -> Result<ValueId> {
        // Often it is that of the constant before.
        let before = self.values.last().and_then(|value| value.shape.as_ref());
        let shape = match before.filter(|before| before.is(tensor.shape())) {
            Some(before) => before.clone(),
            None => tensor.shape().try_into()?,
        };
        Ok(self.add_value(Value {
            name: name.to_owned(),
            dtype: Some(tensor.dtype()),
            shape: Some(shape),
            constant: Some(tensor),
            ..Value::default()
        }))
    }

    /// The inputs whose elements are not known before they are given.
    pub fn given_inputs(&self) -> Vec<ValueId> {
        self.inputs.iter().copied().filter(|id| self.value(*id).constant.is_none()).collect()
    }

    /// A node, if it has not been removed.
    pub fn node(&self, id: NodeId) -> Option<&Node> {
        self.nodes.get(id.index()).and_then(Option::as_ref)
    }

    /// A node, to change its name or attributes. Inputs and outputs are changed through the graph.
    pub fn node_mut(&mut self, id: NodeId) -> Option<&mut Node> {
        self.cache = Cache::default();
        self.nodes.get_mut(id.index()).and_then(Option::as_mut)
    }

    /// Takes a node out for a while; nobody finds it until it is put back.
    pub(crate) fn take_out(&mut self, id: NodeId) -> Option<Node> {
        self.nodes.get_mut(id.index()).and_then(Option::take)
    }

    /// Puts a node back in its place.
    pub(crate) fn put_back(&mut self, id: NodeId, node: Node) {
        if let Some(slot) = self.nodes.get_mut(id.index()) {
            *slot = Some(node);
        }
        self.cache = Cache::default();
    }

    /// The nodes in topological order.
    pub fn node_ids(&self) -> Vec<NodeId> {
        self.order.clone()
    }

    /// The operators of ONNX's own domain that there are.
    pub(crate) fn operators(&self) -> Arc<BTreeSet<Symbol>> {
        let find = || {
            let mut found = BTreeSet::new();
            for (_, node) in self.nodes().filter(|(_, node)| node.domain.is_empty()) {
                if !found.contains(&node.op_type) {
                    found.insert(node.op_type.clone());
                }
            }
            found
        };
        Arc::clone(self.cache.operators.get_or_init(|| Arc::new(find())))
    }

    /// How many nodes there are.
    pub(crate) fn node_count(&self) -> usize {
        self.order.len()
    }

    /// The nodes with their ids, in topological order.
    pub fn nodes(&self) -> impl Iterator<Item = (NodeId, &Node)> + Clone {
        self.order.iter().filter_map(|id| Some((*id, self.node(*id)?)))
    }

    /// Appends a node; its outputs get it as their producer.
    pub fn add_node(&mut self, node: Node) -> NodeId {
        let id = self.new_node(node);
        self.order.push(id);
        id
    }

    fn new_node(&mut self, node: Node) -> NodeId {
        self.cache = Cache::default();
        let id = NodeId::of(self.nodes.len());
        for output in node.outputs.iter().flatten() {
            if let Some(value) = self.values.get_mut(output.index()) {
                value.producer = Some(id);
            }
        }
        self.nodes.push(Some(node));
        id
    }

    /// The nodes that read each value; one that reads a value twice is there twice.
    pub(crate) fn readers(&self) -> Arc<IndexLists<ValueId, NodeId>> {
        let reads = || self.nodes().flat_map(|(id, node)| node.reads().map(move |value| (value, id)));
        Arc::clone(self.cache.readers.get_or_init(|| Arc::new(IndexLists::of(reads()))))
    }

    /// Tells the body of one of the nodes what is known of the values that it reads from here.
    pub(crate) fn describe_captures(&self, body: &mut Graph) -> Result<()> {
        for Capture { outer, inner } in body.captures.clone() {
            let (outer, inner) = (self.value(outer), body.value_mut(inner)?);
            (inner.dtype, inner.shape) = (outer.dtype, outer.shape.clone());
            (inner.constant, inner.elements) = (outer.constant.clone(), outer.elements.clone());
        }
        Ok(())
    }

    /// Every value that a node reads, or that is an output.
    pub(crate) fn read_values(&self) -> IndexSet<ValueId> {
        self.nodes().flat_map(|(_, node)| node.reads()).chain(self.outputs.iter().copied()).collect()
    }
}
