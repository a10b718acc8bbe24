//! A pattern in a graph, and its replacement.

use std::collections::BTreeSet;

use crate::error::Result;
use crate::graph::{Graph, Node, Unfused, ValueId};
use crate::op::NEWEST_OPSET;
use crate::pass::builder::{Builder, Expr, replacement_of};
use crate::pass::pattern::{Readers, constant_ints, producer, scalar};
use crate::tensor::{DType, Dim, Tensor};

/// A graph in which patterns are matched.
pub(super) struct Matcher<'a> {
    pub graph: &'a Graph,
    pub readers: &'a Readers,
}

impl<'a> Matcher<'a> {
    /// The node that computes a value.
    pub fn producer(&self, value: ValueId) -> Option<&'a Node> {
        self.graph.producer(value)
    }

    /// The node that computes a value, if it is `op_type` of ONNX's domain.
    pub fn made_by(&self, value: ValueId, op_type: &str) -> Option<&'a Node> {
        producer(self.graph, value, op_type)
    }

    /// The only node that reads a value.
    pub fn only_reader(&self, value: ValueId) -> Option<&'a Node> {
        self.graph.node(self.readers.only(value)?)
    }

    /// The tensor of a constant.
    pub fn constant(&self, value: ValueId) -> Option<&'a Tensor> {
        self.graph.value(value).constant.as_ref()
    }

    /// Whether a value is an input of the graph: no node computes it, and it is not a constant.
    pub fn is_input(&self, value: ValueId) -> bool {
        let value = self.graph.value(value);
        value.producer.is_none() && value.constant.is_none()
    }

    /// The number after the last one of a Range.
    pub fn limit(&self, range: ValueId) -> Option<ValueId> {
        self.producer(range)?.input(1)
    }

    /// The element of a constant of one element.
    pub fn scalar(&self, value: ValueId) -> Option<f64> {
        scalar(self.graph, value)
    }

    /// Whether a value is this constant, up to the rounding of its type.
    pub fn is_scalar(&self, value: ValueId, scalar: f64) -> bool {
        self.scalar(value).is_some_and(|found| near(found, scalar, self.graph.value(value).dtype))
    }

    /// The operands of a node of two if one of them is a constant of one element: the other one, and the
    /// constant.
    pub fn with_scalar(&self, node: &Node) -> Option<(ValueId, f64)> {
        orders(node).find_map(|(x, constant)| Some((x, self.scalar(constant)?)))
    }

    /// The operand of a node of two whose other operand is this constant.
    pub fn other_than_scalar(&self, node: &Node, scalar: f64) -> Option<ValueId> {
        orders(node).find_map(|(x, constant)| self.is_scalar(constant, scalar).then_some(x))
    }

    /// The elements of a constant of integers.
    pub fn ints(&self, value: ValueId) -> Option<Vec<i64>> {
        constant_ints(self.graph, value)
    }

    /// The only element of a constant of integers.
    pub fn int(&self, value: ValueId) -> Option<i64> {
        <[i64; 1]>::try_from(self.ints(value)?).ok().map(|[only]| only)
    }

    /// The shape of a value, if its rank is known.
    pub fn shape(&self, value: ValueId) -> Option<&'a [Dim]> {
        self.graph.value(value).shape.as_deref()
    }

    /// The shape of a value, if it has no free size.
    pub fn sizes(&self, value: ValueId) -> Option<Vec<i64>> {
        self.shape(value)?.iter().map(Dim::known).collect()
    }

    /// The number of axes of a value, if it is known.
    pub fn rank(&self, value: ValueId) -> Option<usize> {
        self.shape(value).map(<[Dim]>::len)
    }

    /// Whether a value has a floating-point type.
    pub fn is_float(&self, value: ValueId) -> bool {
        matches!(self.graph.value(value).dtype, Some(DType::F16 | DType::BF16 | DType::F32 | DType::F64))
    }

    /// Whether two values have the same shape and the same floating-point type.
    pub fn alike(&self, a: ValueId, b: ValueId) -> bool {
        self.is_float(a)
            && self.graph.value(a).dtype == self.graph.value(b).dtype
            && self.shape(a).is_some()
            && self.shape(a) == self.shape(b)
    }

    /// The first value of `inner` that others read than `last` and the nodes that compute `inner`.
    pub fn open_value(&self, inner: &BTreeSet<ValueId>, last: &Node) -> Option<ValueId> {
        let in_pattern = |reader: &Node| {
            reader.outputs.iter().any(|output| {
                output.is_some_and(|id| inner.contains(&id) || last.outputs.contains(&Some(id)))
            })
        };
        inner.iter().copied().find(|value| {
            let mut readers = self.readers.all(*value).iter().filter_map(|id| self.graph.node(*id));
            self.readers.is_output(*value) || !readers.all(in_pattern)
        })
    }
}

/// Whether two numbers are equal up to the rounding of a type.
pub(super) fn near(found: f64, expected: f64, dtype: Option<DType>) -> bool {
    let tolerance = match dtype {
        Some(DType::F16) => 1e-3,
        Some(DType::BF16) => 8e-3,
        _ => 1e-6,
    };
    (found - expected).abs() <= tolerance * expected.abs()
}

/// The inputs of a node that has exactly two.
pub(super) fn two(node: &Node) -> Option<[ValueId; 2]> {
    match node.inputs.as_slice() {
        [Some(a), Some(b)] => Some([*a, *b]),
        _ => None,
    }
}

/// Both orders of the inputs of a node that has exactly two.
pub(super) fn orders(node: &Node) -> impl Iterator<Item = (ValueId, ValueId)> + use<> {
    two(node).into_iter().flat_map(|[a, b]| [(a, b), (b, a)])
}

/// Rounds to float32, the type of attributes.
pub(super) fn to_f32(x: f64) -> f32 {
    num_traits::AsPrimitive::<f32>::as_(x)
}

/// A match of a pattern.
pub(super) struct Found<T> {
    /// The intermediate values.
    pub inner: BTreeSet<ValueId>,
    /// The inputs and constants of the operator to be made.
    pub parts: T,
}

impl<T> Found<T> {
    /// A match whose intermediate values other nodes may read.
    pub fn open(parts: T) -> Found<T> {
        Found { inner: BTreeSet::new(), parts }
    }
}

/// Replaces the last node of each pattern that `find` matches by the nodes of the value that `build` returns.
/// The other nodes of the pattern stay, unread. A match whose inner values other nodes read is not replaced,
/// which the graph records.
pub(super) fn fuse<T>(
    graph: &mut Graph,
    find: impl Fn(&Matcher, &Node) -> Option<Found<T>>,
    mut build: impl for<'b> FnMut(&'b Builder<'b>, T) -> Result<Expr<'b>>,
) -> Result<bool> {
    let readers = Readers::of(graph);
    let mut unfused = Vec::new();
    let find = |graph: &Graph, node: &Node| {
        let matcher = Matcher { graph, readers: &readers };
        let found = find(&matcher, node)?;
        let Some(open) = matcher.open_value(&found.inner, node) else { return Some(found) };
        unfused.push(Unfused { pass: "", node: node.at(), value: graph.value(open).name.clone() });
        None
    };
    let changed = graph.replace_nodes(find, |graph, last, found| {
        replacement_of(graph, last, NEWEST_OPSET, |made| build(made, found.parts).map(Some))
    })?;
    graph.unfused.extend(unfused);
    Ok(changed)
}
