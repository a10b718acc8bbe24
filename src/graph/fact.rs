//! What shape rules infer of the outputs of a node.

use std::collections::BTreeMap;

use super::{Attribute, Graph, Node, Value, ValueId};
use crate::tensor::{Array, DType, Shape, SizeCondition, Tensor};

/// The facts of an output.
#[derive(Clone, Debug)]
pub(crate) struct Fact {
    /// The element type.
    pub dtype: DType,
    /// The shape, if the rank is known.
    pub shape: Option<Shape>,
    /// The elements, if they are sizes.
    pub elements: Option<Array>,
    /// The value, if it is a constant that needs no evaluation.
    pub constant: Option<Tensor>,
}

impl Fact {
    /// Creates the facts of type and shape.
    pub fn new(dtype: DType, shape: impl Into<Shape>) -> Fact {
        Fact { dtype, shape: Some(shape.into()), elements: None, constant: None }
    }

    /// Creates the fact of a type.
    pub fn unranked(dtype: DType) -> Fact {
        Fact { dtype, shape: None, elements: None, constant: None }
    }

    /// Creates the facts of a constant.
    pub fn constant(tensor: Tensor) -> Fact {
        let shape = Shape::from(tensor.shape());
        Fact { constant: Some(tensor.clone()), ..Fact::new(tensor.dtype(), shape) }
    }

    /// Creates the facts of a value of known size elements.
    pub fn elements(elements: Array) -> Fact {
        let shape = Shape::from(elements.shape());
        Fact { elements: Some(elements.clone()), ..Fact::new(elements.dtype(), shape) }
    }
}

/// What was inferred of the outputs of a node.
#[derive(Clone, Debug)]
pub(crate) struct Inferred {
    /// The facts of each output.
    pub facts: Vec<Fact>,
    /// The conditions on free sizes that were required.
    pub conditions: Vec<SizeCondition>,
    /// The inputs whose elements were replaced by sizes.
    pub replaced: Vec<usize>,
}

/// The facts of each node by its first output. They are valid as long as the node and the facts of its inputs
/// are the same.
#[derive(Clone, Debug, Default)]
pub(super) struct Memory(BTreeMap<ValueId, (Node, Vec<Value>, Inferred)>);

impl Graph {
    /// Returns what was inferred of a node with the same facts of its inputs.
    pub(crate) fn inferred(&self, node: &Node) -> Option<&Inferred> {
        let (before, inputs, inferred) = self.inferred.0.get(&node.output(0)?)?;
        let same_facts = || self.inputs_of(node).zip(inputs).all(|(now, before)| has_facts(now, before));
        (same_node(node, before) && same_facts()).then_some(inferred)
    }

    /// Remembers what was inferred of a node.
    pub(crate) fn remember(&mut self, node: &Node, inferred: Inferred) {
        let Some(output) = node.output(0) else { return };
        let inputs = self.inputs_of(node).cloned().collect();
        self.inferred.0.insert(output, (node.clone(), inputs, inferred));
    }

    /// Records what a rule of a node requires: conditions on free sizes, and the indices of the inputs whose
    /// elements it replaced by sizes.
    pub(crate) fn require(&mut self, node: &Node, conditions: Vec<SizeCondition>, replaced: Vec<usize>) {
        self.conditions.extend(conditions);
        for input in replaced.into_iter().filter_map(|index| node.input(index)) {
            self.replaced_by_sizes.entry(input).or_insert_with(|| node.at());
        }
    }

    fn inputs_of(&self, node: &Node) -> impl Iterator<Item = &Value> {
        node.inputs.iter().flatten().map(|id| self.value(*id))
    }
}

fn same_node(a: &Node, b: &Node) -> bool {
    (a.op_type == b.op_type && a.domain == b.domain && a.version == b.version)
        && (a.inputs == b.inputs && a.outputs == b.outputs)
        && a.attributes.len() == b.attributes.len()
        && a.attributes.iter().zip(b.attributes.iter()).all(|(a, b)| a.0 == b.0 && same_attribute(a.1, b.1))
}

/// Returns whether two attributes are known to be equal.
fn same_attribute(a: &Attribute, b: &Attribute) -> bool {
    match (a, b) {
        (Attribute::Float(a), Attribute::Float(b)) => a.to_bits() == b.to_bits(),
        (Attribute::Int(a), Attribute::Int(b)) => a == b,
        (Attribute::String(a), Attribute::String(b)) => a == b,
        (Attribute::Tensor(a), Attribute::Tensor(b)) => a.identity() == b.identity(),
        (Attribute::Floats(a), Attribute::Floats(b)) => a == b,
        (Attribute::Ints(a), Attribute::Ints(b)) => a == b,
        (Attribute::Strings(a), Attribute::Strings(b)) => a == b,
        _ => false,
    }
}

fn has_facts(a: &Value, b: &Value) -> bool {
    let identity = |value: &Value| value.constant.as_ref().map(Tensor::identity);
    a.dtype == b.dtype && a.shape == b.shape && identity(a) == identity(b) && a.elements == b.elements
}
