//! Values of a graph.

use std::sync::OnceLock;

use bytes::Bytes;

use super::NodeId;
use crate::tensor::{Array, DType, Range, Shape, Tensor};

/// The end of the name of a value that replaces another.
const CHANGED: &str = "_changed";

/// A tensor that a node computes or the graph receives.
#[derive(Clone, Debug, Default)]
pub struct Value {
    /// The name in the model; empty for new values.
    pub name: String,
    /// The element type, if it is known.
    pub dtype: Option<DType>,
    /// The shape, if the rank is known.
    pub shape: Option<Shape>,
    /// The elements of a constant.
    pub constant: Option<Tensor>,
    /// The elements of a small integer tensor of sizes, if some are symbolic.
    pub elements: Option<Box<Array>>,
    /// Whether the model declares type and shape.
    pub declared: bool,
    /// The declared type of a value that is not a tensor.
    pub other_type: Option<Box<OtherType>>,
    /// The range of the elements, once something asked for it.
    pub(crate) range: OnceLock<Range>,
    /// The node that computes the value; `None` for inputs, initializers and captured values.
    pub producer: Option<NodeId>,
}

impl Value {
    /// Creates a constant; `shape` is the tensor's.
    pub(crate) fn of_constant(tensor: Tensor, shape: Shape) -> Value {
        Value { dtype: Some(tensor.dtype()), shape: Some(shape), constant: Some(tensor), ..Value::default() }
    }

    /// Returns the name of a value that replaces this one, and has other elements: a name of the model stands
    /// only for its value.
    pub(crate) fn name_of_changed(&self) -> String {
        let is_one = self.name.is_empty() || self.name.ends_with(CHANGED);
        if is_one { self.name.clone() } else { format!("{}{CHANGED}", self.name) }
    }

    /// Returns whether the value has a name, and not one of [`Value::name_of_changed`].
    pub(crate) fn is_named(&self) -> bool {
        !self.name.is_empty() && !self.name.ends_with(CHANGED)
    }
}

/// A type that is not a tensor, such as a sequence or a map. It is not interpreted.
#[derive(Clone, Debug)]
pub struct OtherType {
    /// The kind, in ONNX's terms.
    pub kind: &'static str,
    /// The encoded message.
    pub encoded: Bytes,
}
