//! The source graph: ONNX's semantics with typed ids. Every step before lowering works on it.

mod attribute;
mod check;
pub(crate) mod custom;
mod dump;
mod edit;
mod fact;
mod lineage;
mod order;
mod symbol;
mod value;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, OnceLock};

use smallvec::SmallVec;

use crate::common::index::{Index, IndexLists, IndexSet, RawIndex};
use crate::common::limits::Budget;
use crate::error::{At, Error, NodeAt, Result};
use crate::tensor::{Array, Range, SizeCondition, Tensor};

pub(crate) use attribute::pairs;
pub use attribute::{Attribute, AttributeMap};
pub(crate) use custom::CustomLayers;
pub use custom::{CustomLayer, CustomParam, CustomWeight};
pub(crate) use fact::{Fact, Inferred};
use lineage::Lineage;
pub use symbol::Symbol;
pub(crate) use symbol::Symbols;
pub use value::{OtherType, Value};

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

/// Errors that are reported only if their node is still needed when the graph is lowered.
pub type DeferredErrors = BTreeMap<NodeId, Error>;

/// Inputs or outputs in order; `None` for omitted ones. Up to four are stored inline.
pub type Ids = SmallVec<[Option<ValueId>; 4]>;

/// One call of an operator.
#[derive(Clone, Debug, Default)]
pub struct Node {
    /// The name in the model; may be empty.
    pub name: String,
    /// The index in the model's list of nodes, for messages.
    pub index: usize,
    /// The domain; empty for both spellings of ONNX's domain.
    pub domain: Symbol,
    /// The operator.
    pub op_type: Symbol,
    /// The version of the domain's operator set that the node follows.
    pub version: i64,
    /// Inputs in order; `None` for omitted ones.
    pub inputs: Ids,
    /// Outputs in order; `None` for omitted ones.
    pub outputs: Ids,
    /// Attributes by name.
    pub attributes: AttributeMap,
    /// The layer of the user that computes it.
    pub custom: Option<Arc<CustomLayer>>,
}

impl Node {
    /// Returns the location for messages.
    pub fn at(&self) -> NodeAt {
        NodeAt {
            name: self.name.clone(),
            index: self.index,
            op_type: self.qualified_op_type(),
            version: self.version,
        }
    }

    /// Returns the operator with its domain, unless that is ONNX's.
    pub fn qualified_op_type(&self) -> String {
        if let Some(custom) = &self.custom {
            custom.operator.clone()
        } else if self.domain.is_empty() {
            self.op_type.to_string()
        } else {
            format!("{}.{}", self.domain, self.op_type)
        }
    }

    /// Returns the graphs in the attributes.
    pub fn bodies(&self) -> impl Iterator<Item = &Graph> + Clone {
        self.attributes.values().flat_map(Attribute::graphs)
    }

    /// Returns the graphs in the attributes, mutably.
    pub fn bodies_mut(&mut self) -> impl Iterator<Item = &mut Graph> {
        self.attributes.iter_mut().flat_map(|(_, attribute)| attribute.graphs_mut())
    }

    /// Returns every value that the node or its bodies read.
    pub fn reads(&self) -> impl Iterator<Item = ValueId> + Clone + '_ {
        let captured = self.bodies().flat_map(|body| body.captures.iter().map(|capture| capture.outer));
        self.inputs.iter().flatten().copied().chain(captured)
    }

    /// Returns an input, if it is present.
    pub fn input(&self, index: usize) -> Option<ValueId> {
        self.inputs.get(index).copied().flatten()
    }

    /// Returns an output, if it is present.
    pub fn output(&self, index: usize) -> Option<ValueId> {
        self.outputs.get(index).copied().flatten()
    }

    /// Returns whether the node calls this operator of ONNX's domain.
    pub fn is(&self, op_type: &str) -> bool {
        self.domain.is_empty() && self.op_type == op_type
    }

    /// Returns whether the node calls one of these operators of ONNX's domain.
    pub fn is_one_of(&self, op_types: &[&str]) -> bool {
        op_types.iter().any(|op_type| self.is(op_type))
    }
}

/// A captured value: a value of the enclosing graph, and its counterpart in the body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Capture {
    /// The value in the enclosing graph.
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
    /// The inputs, without initializers.
    pub inputs: Vec<ValueId>,
    /// The outputs.
    pub outputs: Vec<ValueId>,
    /// Values without readers that are not removed.
    pub kept: Vec<ValueId>,
    /// The captured values of a body.
    pub captures: Vec<Capture>,
    /// The versions of the operator sets, by domain; ONNX's is the empty one.
    pub opsets: BTreeMap<String, i64>,
    /// The folded nodes in the order of folding, if they are kept: their results may be too large to be
    /// written.
    pub folded: Option<Vec<Node>>,
    /// Whether axes have one element that exporters remove if they have one; `None` if that is not known.
    pub(crate) squeezes: Option<bool>,
    /// The conditions on free sizes that shape rules required.
    pub(crate) conditions: BTreeSet<SizeCondition>,
    /// The values whose elements were replaced by sizes, and the first node that reads each.
    pub(crate) replaced_by_sizes: BTreeMap<ValueId, NodeAt>,
    /// Warnings about nodes that were replaced.
    pub(crate) warnings: Vec<String>,
    /// The matches that their passes did not replace when they were last tried.
    pub(crate) unfused: Vec<Unfused>,
    lineage: Lineage,
    inferred: fact::Memory,
    /// Facts about all nodes, valid until a node changes: most passes change nothing.
    cache: Cache,
    /// The resources used so far.
    pub(crate) budget: Budget,
}

/// A pattern that its fusion did not replace, because nodes outside of it read a value within it, or because
/// such a value is an output.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Unfused {
    /// The name of the pass.
    pub pass: &'static str,
    /// The last node of the pattern.
    pub node: NodeAt,
    /// The name of the value; may be empty.
    pub value: String,
}

/// Facts about all nodes of a graph.
#[derive(Clone, Debug, Default)]
struct Cache {
    /// The readers of each value.
    readers: OnceLock<Arc<IndexLists<ValueId, NodeId>>>,
    /// The operators of ONNX's domain that occur.
    operators: OnceLock<Arc<BTreeSet<Symbol>>>,
}

impl Graph {
    /// Returns a value.
    pub fn value(&self, id: ValueId) -> &Value {
        static MISSING: Value = Value {
            name: String::new(),
            dtype: None,
            shape: None,
            constant: None,
            elements: None,
            declared: false,
            other_type: None,
            range: OnceLock::new(),
            producer: None,
        };
        self.values.get(id.index()).unwrap_or(&MISSING)
    }

    /// Returns a value, mutably.
    pub fn value_mut(&mut self, id: ValueId) -> Result<&mut Value> {
        self.values.get_mut(id.index()).ok_or_else(|| Error::internal("a value of another graph"))
    }

    /// Returns all values, in the order of creation.
    pub fn value_ids(&self) -> impl Iterator<Item = ValueId> + Clone + use<> {
        (0..self.values.len()).map(ValueId::of)
    }

    /// Reserves room for values and nodes, and for as many replacements: untouched room takes no memory, and
    /// growing lists are copied.
    pub(crate) fn expect(&mut self, values: usize, nodes: usize) {
        self.values.reserve(2 * values);
        self.nodes.reserve(2 * nodes);
        self.order.reserve(nodes);
    }

    /// Returns the number of constants.
    pub(crate) fn constant_count(&self) -> usize {
        self.values.iter().filter(|value| value.constant.is_some()).count()
    }

    /// Adds a value.
    pub fn add_value(&mut self, value: Value) -> ValueId {
        self.values.push(value);
        ValueId::of(self.values.len() - 1)
    }

    /// Adds a constant.
    pub fn add_constant(&mut self, name: &str, tensor: Tensor) -> ValueId {
        // Often the type of the previous constant.
        let before = self.values.last().and_then(|value| value.shape.as_ref());
        let shape = match before.filter(|before| before.is(tensor.shape())) {
            Some(before) => before.clone(),
            None => tensor.shape().into(),
        };
        self.add_value(Value { name: name.to_owned(), ..Value::of_constant(tensor, shape) })
    }

    /// Adds a constant list of integers.
    pub(crate) fn add_ints(&mut self, list: &[i64]) -> Result<ValueId> {
        let array = Array::i64(ndarray::Array1::from_vec(list.to_vec()).into_dyn());
        Ok(self.add_constant("", Tensor::from_array(&array)?))
    }

    /// Returns the number of values.
    pub fn value_count(&self) -> usize {
        self.values.len()
    }

    /// Returns the inputs without constant elements.
    pub fn variable_inputs(&self) -> Vec<ValueId> {
        self.inputs.iter().copied().filter(|id| self.value(*id).constant.is_none()).collect()
    }

    /// Returns a node, unless it has been removed.
    pub fn node(&self, id: NodeId) -> Option<&Node> {
        self.nodes.get(id.index()).and_then(Option::as_ref)
    }

    /// Returns the node that computes a value.
    pub fn producer(&self, value: ValueId) -> Option<&Node> {
        self.node(self.value(value).producer?)
    }

    /// Returns a node to change its name or attributes. Inputs and outputs are changed through the graph.
    pub fn node_mut(&mut self, id: NodeId) -> Option<&mut Node> {
        self.cache = Cache::default();
        self.nodes.get_mut(id.index()).and_then(Option::as_mut)
    }

    /// Takes a node out until it is put back.
    pub(crate) fn take_out(&mut self, id: NodeId) -> Option<Node> {
        self.nodes.get_mut(id.index()).and_then(Option::take)
    }

    /// Puts a node back.
    pub(crate) fn put_back(&mut self, id: NodeId, node: Node) {
        self.nodes.put(id.index(), Some(node));
        self.cache = Cache::default();
    }

    /// Returns the nodes in topological order.
    pub fn node_ids(&self) -> Vec<NodeId> {
        self.order.clone()
    }

    /// Returns the names of the operators that occur, of all domains.
    pub(crate) fn operators(&self) -> Arc<BTreeSet<Symbol>> {
        let find = || {
            let mut found = BTreeSet::new();
            for (_, node) in self.nodes() {
                if !found.contains(&node.op_type) {
                    found.insert(node.op_type.clone());
                }
            }
            found
        };
        Arc::clone(self.cache.operators.get_or_init(|| Arc::new(find())))
    }

    /// Returns the number of nodes.
    pub(crate) fn node_count(&self) -> usize {
        self.order.len()
    }

    /// Returns the nodes with their ids, in topological order.
    pub fn nodes(&self) -> impl Iterator<Item = (NodeId, &Node)> + Clone {
        self.order.iter().filter_map(|id| Some((*id, self.node(*id)?)))
    }

    /// Appends a node, which becomes the producer of its outputs.
    pub fn add_node(&mut self, node: Node) -> NodeId {
        let id = self.new_node(node);
        self.order.push(id);
        id
    }

    /// Puts nodes before all others.
    pub(crate) fn prepend(&mut self, nodes: Vec<Node>) {
        let made: Vec<NodeId> = nodes.into_iter().map(|node| self.new_node(node)).collect();
        self.order.splice(0..0, made);
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

    /// Returns the names of the free sizes of inputs.
    pub(crate) fn input_symbols(&self) -> BTreeSet<String> {
        let mut names = BTreeSet::new();
        let shapes = self.inputs.iter().filter_map(|input| self.value(*input).shape.as_deref());
        shapes.flatten().for_each(|size| size.collect_symbols(&mut names));
        names
    }

    /// Forgets the ranges that say no more than the types: other nodes may compute the values by now.
    pub(crate) fn forget_ranges_of_types(&mut self) {
        for value in &mut self.values {
            if value.range.get().is_some_and(|range| value.dtype.map(Range::of) == Some(*range)) {
                value.range = OnceLock::new();
            }
        }
    }

    /// Returns the readers of each value; a node that reads a value twice is listed twice.
    pub(crate) fn readers(&self) -> Arc<IndexLists<ValueId, NodeId>> {
        let reads = || self.nodes().flat_map(|(id, node)| node.reads().map(move |value| (value, id)));
        Arc::clone(self.cache.readers.get_or_init(|| Arc::new(IndexLists::of(reads()))))
    }

    /// Copies the facts of captured values to the body of a node.
    pub(crate) fn describe_captures(&self, body: &mut Graph) -> Result<()> {
        for Capture { outer, inner } in body.captures.clone() {
            let (outer, inner) = (self.value(outer), body.value_mut(inner)?);
            (inner.dtype, inner.shape) = (outer.dtype, outer.shape.clone());
            (inner.constant, inner.elements) = (outer.constant.clone(), outer.elements.clone());
        }
        Ok(())
    }

    /// Returns every value that a node reads, or that is an output.
    pub(crate) fn read_values(&self) -> IndexSet<ValueId> {
        self.nodes().flat_map(|(_, node)| node.reads()).chain(self.outputs.iter().copied()).collect()
    }
}
