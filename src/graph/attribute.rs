//! Attributes of nodes.

use bytes::Bytes;
use litemap::LiteMap;

use super::{Graph, Symbol};
use crate::common::int::Int;
use crate::tensor::Tensor;

/// The attributes of a node by name, in one allocation.
pub type AttributeMap = LiteMap<Symbol, Attribute>;

/// Returns the attributes as the builder of nodes takes them.
pub(crate) fn pairs(attributes: &AttributeMap) -> impl Iterator<Item = (&str, Attribute)> {
    attributes.iter().map(|(name, attribute)| (name.as_str(), attribute.clone()))
}

/// A named constant of a node.
#[derive(Clone, Debug)]
pub enum Attribute {
    /// A float32.
    Float(f32),
    /// An integer.
    Int(i64),
    /// A string of bytes, usually UTF-8.
    String(Bytes),
    /// A constant tensor.
    Tensor(Tensor),
    /// The body of a control-flow operator.
    Graph(Box<Graph>),
    /// Float32 values.
    Floats(Vec<f32>),
    /// Integers.
    Ints(Vec<i64>),
    /// Strings.
    Strings(Vec<Bytes>),
    /// Constant tensors.
    Tensors(Vec<Tensor>),
    /// Bodies.
    Graphs(Vec<Graph>),
    /// A kind that no operator of a convertible model has: its name, and the encoded message.
    Other(&'static str, Bytes),
}

impl From<f32> for Attribute {
    fn from(number: f32) -> Attribute {
        Attribute::Float(number)
    }
}

impl<T: Int> From<T> for Attribute {
    fn from(integer: T) -> Attribute {
        Attribute::Int(integer.int())
    }
}

impl From<&'static str> for Attribute {
    fn from(string: &'static str) -> Attribute {
        Attribute::String(Bytes::from_static(string.as_bytes()))
    }
}

impl From<&[i64]> for Attribute {
    fn from(list: &[i64]) -> Attribute {
        Attribute::Ints(list.to_vec())
    }
}

impl From<Vec<i64>> for Attribute {
    fn from(list: Vec<i64>) -> Attribute {
        Attribute::Ints(list)
    }
}

impl Attribute {
    /// Returns the kind, in ONNX's terms.
    pub fn kind(&self) -> &'static str {
        match self {
            Attribute::Float(_) => "FLOAT",
            Attribute::Int(_) => "INT",
            Attribute::String(_) => "STRING",
            Attribute::Tensor(_) => "TENSOR",
            Attribute::Graph(_) => "GRAPH",
            Attribute::Floats(_) => "FLOATS",
            Attribute::Ints(_) => "INTS",
            Attribute::Strings(_) => "STRINGS",
            Attribute::Tensors(_) => "TENSORS",
            Attribute::Graphs(_) => "GRAPHS",
            Attribute::Other(kind, _) => kind,
        }
    }

    /// Returns the tensors in the attribute.
    pub fn tensors(&self) -> &[Tensor] {
        match self {
            Attribute::Tensor(tensor) => std::slice::from_ref(tensor),
            Attribute::Tensors(tensors) => tensors,
            _ => &[],
        }
    }

    /// Returns the graphs in the attribute.
    pub fn graphs(&self) -> &[Graph] {
        match self {
            Attribute::Graph(graph) => std::slice::from_ref(graph),
            Attribute::Graphs(graphs) => graphs,
            _ => &[],
        }
    }

    /// Returns the graphs in the attribute, mutably.
    pub fn graphs_mut(&mut self) -> &mut [Graph] {
        match self {
            Attribute::Graph(graph) => std::slice::from_mut(graph),
            Attribute::Graphs(graphs) => graphs,
            _ => &mut [],
        }
    }
}
