//! Queries on a graph that passes over patterns share.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::ops::RangeInclusive;
use std::sync::Arc;

use num_traits::ToPrimitive;

use crate::common::index::IndexLists;
use crate::error::Result;
use crate::graph::{Attribute, Graph, Node, NodeId, Value, ValueId};
use crate::op::{self, Access};
use crate::tensor::{Array, DType, Dim};

/// The magnitudes of factors that are merged with others, or with weights: far from where float32 overflows
/// or becomes subnormal.
pub(super) const MODERATE: RangeInclusive<f64> = 1e-12..=1e12;

/// The most elements of a constant that are looked at.
const MAX_LISTED: usize = 1 << 24;

/// The most Casts between a number and its float.
const MAX_CASTS: usize = 4;

/// The readers of each value of a graph. Later changes of the graph do not show.
#[derive(Debug, Default)]
pub(crate) struct Readers {
    readers: Arc<IndexLists<ValueId, NodeId>>,
    outputs: BTreeSet<ValueId>,
}

impl Readers {
    /// Collects the readers of every value; a node that reads a value twice is listed twice.
    pub fn of(graph: &Graph) -> Readers {
        Readers { readers: graph.readers(), outputs: graph.outputs.iter().copied().collect() }
    }

    /// Returns the nodes that read a value.
    pub fn all(&self, value: ValueId) -> &[NodeId] {
        self.readers.get(value)
    }

    /// Returns whether a value is an output of the graph.
    pub fn is_output(&self, value: ValueId) -> bool {
        self.outputs.contains(&value)
    }

    /// The only reader of a value; `None` if there are several, or if the value is an output of the graph.
    pub fn only(&self, value: ValueId) -> Option<NodeId> {
        match self.all(value) {
            [reader] if !self.is_output(value) => Some(*reader),
            _ => None,
        }
    }
}

/// The element of a constant of one element, whatever its rank.
pub(crate) fn scalar(graph: &Graph, value: ValueId) -> Option<f64> {
    let tensor = graph.value(value).constant.as_ref()?;
    if tensor.shape().iter().any(|size| *size != 1) {
        return None;
    }
    tensor.load_listed().ok()?.number_at(0)
}

/// The elements of a constant of integers.
pub(crate) fn constant_ints(graph: &Graph, value: ValueId) -> Option<Vec<i64>> {
    graph.value(value).constant.as_ref()?.load_listed().ok()?.int_list().ok()
}

/// The elements of a value that are known when converting: of a constant that is not large, or sizes.
pub(crate) fn known_elements(value: &Value) -> Option<Cow<'_, Array>> {
    match &value.constant {
        Some(constant) if constant.len() > MAX_LISTED => None,
        Some(constant) => constant.load_listed().ok(),
        None => value.elements.as_deref().map(Cow::Borrowed),
    }
}

/// A list of integers or sizes that are known when converting.
pub(crate) fn known_sizes(graph: &Graph, id: ValueId) -> Option<Vec<Dim>> {
    known_elements(graph.value(id))?.dim_list().ok()
}

/// The only element of a value, a size or a whole number, if it is known when converting. Casts may make a
/// float of it.
pub(crate) fn number(graph: &Graph, mut id: ValueId) -> Option<Dim> {
    for _ in 0..MAX_CASTS {
        if let Some(list) = known_sizes(graph, id) {
            return <[Dim; 1]>::try_from(list).ok().map(|[only]| only);
        }
        let value = graph.value(id);
        if value.constant.is_some() {
            return scalar(graph, id).filter(|x| x.fract() == 0.0)?.to_i64().map(Dim::Known);
        }
        let is_float = value.dtype.is_some_and(DType::is_float);
        id = producer(graph, id, "Cast").filter(|_| is_float)?.input(0)?;
    }
    None
}

/// The node that computes a value, if it is `op_type` of ONNX's domain.
pub(crate) fn producer<'a>(graph: &'a Graph, value: ValueId, op_type: &str) -> Option<&'a Node> {
    graph.producer(value).filter(|node| node.is(op_type))
}

/// The first output of a node, if it has no other.
pub(crate) fn only_output(node: &Node) -> Option<ValueId> {
    match node.outputs.as_slice() {
        [Some(output), rest @ ..] if rest.iter().all(Option::is_none) => Some(*output),
        _ => None,
    }
}

/// An integer attribute of a node, if it is present.
pub(crate) fn int(node: &Node, name: &str) -> Option<i64> {
    match node.attributes.get(name) {
        Some(Attribute::Int(n)) => Some(*n),
        _ => None,
    }
}

/// Whether an integer attribute of a node is present and not 0.
pub(crate) fn is_set(node: &Node, name: &str) -> bool {
    int(node, name).is_some_and(|flag| flag != 0)
}

/// A product of rows with a matrix, and what is added.
pub(crate) struct LinearMap {
    pub x: ValueId,
    pub weight: ValueId,
    /// Whether the matrix has a row for each column of the result.
    pub transposed: bool,
    pub bias: Option<ValueId>,
}

/// Reads a node as a MatMul or a plain Gemm.
pub(crate) fn linear_map(node: &Node) -> Option<LinearMap> {
    let is_gemm = node.is("Gemm");
    (node.is("MatMul") || is_gemm && is_plain_gemm(node)).then_some(())?;
    let (x, weight, bias) = (node.input(0)?, node.input(1)?, node.input(2));
    Some(LinearMap { x, weight, transposed: is_gemm && is_set(node, "transB"), bias })
}

/// Whether a Gemm is a product of two matrices plus a bias: A is not transposed, alpha and beta are 1.
pub(crate) fn is_plain_gemm(node: &Node) -> bool {
    has_no_factors(node) && !is_set(node, "transA")
}

/// Whether alpha and beta of a Gemm are 1.
pub(crate) fn has_no_factors(node: &Node) -> bool {
    ["alpha", "beta"].iter().all(|name| float(node, name).is_none_or(|factor| factor == 1.0))
}

/// A float32 attribute of a node, if it is present.
pub(crate) fn float(node: &Node, name: &str) -> Option<f32> {
    match node.attributes.get(name) {
        Some(Attribute::Float(x)) => Some(*x),
        _ => None,
    }
}

/// An attribute of a node that is a list of integers, if it is present.
pub(crate) fn ints<'a>(node: &'a Node, name: &str) -> Option<&'a [i64]> {
    match node.attributes.get(name) {
        Some(Attribute::Ints(list)) => Some(list),
        _ => None,
    }
}

/// The attribute `axis` of a node, counted from the front of a shape of `rank` axes.
pub(crate) fn axis(node: &Node, default: i64, rank: usize) -> Option<usize> {
    op::resolve_axis(int(node, "axis").unwrap_or(default), rank).ok()
}

/// The axes of a node, an attribute or the second input, counted from the front of the first input.
pub(crate) fn axes(graph: &Graph, node: &Node) -> Option<Vec<usize>> {
    let rank = graph.value(node.input(0)?).shape.as_ref()?.len();
    let axes = match node.input(1) {
        Some(axes) => constant_ints(graph, axes)?,
        None => ints(node, "axes")?.to_vec(),
    };
    axes.into_iter().map(|axis| op::resolve_axis(axis, rank).ok()).collect()
}

/// A text attribute of a node, if it is present.
pub(crate) fn text<'a>(node: &'a Node, name: &str) -> Option<&'a str> {
    match node.attributes.get(name) {
        Some(Attribute::String(text)) => std::str::from_utf8(text).ok(),
        _ => None,
    }
}

/// The permutation of a Transpose.
pub(crate) fn perm_of(graph: &Graph, node: &Node) -> Option<Vec<usize>> {
    let rank = graph.value(node.input(0)?).shape.as_ref()?.len();
    match node.attributes.get("perm") {
        None => Some((0..rank).rev().collect()),
        Some(Attribute::Ints(perm)) => perm.iter().map(|axis| op::resolve_axis(*axis, rank).ok()).collect(),
        Some(_) => None,
    }
}

/// Whether a node broadcasts its operands as numpy does: operators of ONNX do so since version 7.
pub(crate) fn broadcasts(node: &Node) -> bool {
    is_numpy(node) && op::find(node).is_some_and(|op| matches!(op.access, Access::Broadcast))
}

/// Whether the operands of a node that broadcasts them are aligned as those of numpy.
pub(crate) fn is_numpy(node: &Node) -> bool {
    node.version >= 7 || !node.domain.is_empty()
}

/// The inverse of a permutation.
pub(crate) fn inverse(perm: &[usize]) -> Vec<usize> {
    (0..perm.len()).map(|axis| perm.iter().position(|from| *from == axis).unwrap_or(axis)).collect()
}

/// The attribute `perm` of a Transpose.
pub(crate) fn perm_attribute(perm: &[usize]) -> Result<(&'static str, Attribute)> {
    let perm: std::result::Result<Vec<i64>, _> = perm.iter().map(|axis| i64::try_from(*axis)).collect();
    Ok(("perm", Attribute::Ints(perm?)))
}
