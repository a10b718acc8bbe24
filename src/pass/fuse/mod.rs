//! Fusions: patterns of several operators, as exporters write them, to one operator. A file for each pattern.
//!
//! A pattern is found from its last node. Its intermediate values must have no other reader: such a value
//! would have to be computed anyway, and the fusion would save nothing.

mod affine;
mod attention;
mod focus;
mod gelu;
mod glu;
mod group_norm;
mod hard_swish;
mod l2_normalize;
mod layer_norm;
mod look_up;
mod mish;
mod shuffle;
mod softmax;
mod split;
mod swish;
mod terms;
mod view;

use std::collections::BTreeSet;

use smallvec::smallvec;

use crate::error::Result;
use crate::graph::{Attribute, Graph, Ids, Node, Symbol, Value, ValueId};
use crate::op::{NEWEST_OPSET, OWN_DOMAIN};
use crate::pass::pattern::{self, Readers};
use crate::pass::rewrite::Rewrite;
use crate::pass::simplify::SHARE_SLICES;
use crate::tensor::{Array, DType, Dim, Tensor};

/// The fusions that make operators for which ncnn has a layer.
pub const FUSIONS: &[Rewrite] = &[
    Rewrite::by(
        "eliminate_nop_gather",
        "Gather of all indices of an axis in their order",
        &["Gather"],
        look_up::remove_gathers_of_all,
    ),
    Rewrite::by(
        "fuse_gather_of_slice",
        "Gather of a constant at a slice of constant indices to a Slice",
        &["Gather"],
        look_up::fuse_gather_of_slice,
    ),
    Rewrite::by("fuse_split", "Slices that partition an axis to Split", &["Slice"], split::fuse_split),
    Rewrite::by(
        "fuse_focus_conv",
        "strided Slices and Concat before a Conv to SpaceToDepth",
        &["Concat"],
        focus::fuse_focus_conv,
    ),
    Rewrite::by("fuse_focus", "strided Slices and Concat to SpaceToDepth", &["Concat"], focus::fuse_focus),
    Rewrite::by("fuse_softmax", "exp(x) / sum(exp(x)) to Softmax", &["Exp"], softmax::fuse_softmax),
    Rewrite::by("fuse_sigmoid", "1 / (1 + exp(-x)) to Sigmoid", &["Exp"], swish::fuse_sigmoid),
    Rewrite::by("fuse_swish", "x * Sigmoid(alpha * x) to Swish", &["Exp", "Sigmoid"], swish::fuse_swish),
    Rewrite::by("fuse_glu", "a * Sigmoid(b) of the halves of an axis to GLU", &["Sigmoid"], glu::fuse_glu),
    Rewrite::by("fuse_mish", "x * Tanh(Softplus(x)) to Mish", &["Tanh"], mish::fuse_mish),
    Rewrite::by(
        "fuse_gelu",
        "x * (1 + Erf(x / sqrt(2))) / 2, or with Tanh, to Gelu",
        &["Erf", "Sigmoid", "Tanh"],
        gelu::fuse_gelu,
    ),
    Rewrite::by(
        "fuse_hard_sigmoid",
        "clip(alpha * x + beta, 0, 1) to HardSigmoid",
        &["Clip", "Max", "Min", "Relu"],
        hard_swish::fuse_hard_sigmoid,
    ),
    Rewrite::by(
        "fuse_hard_swish",
        "x * HardSigmoid(x) to HardSwish",
        &["Clip", "HardSigmoid", "Max", "Min", "Relu"],
        hard_swish::fuse_hard_swish,
    ),
    Rewrite::by(
        "fuse_layer_norm",
        "(x - mean) / sqrt(variance + epsilon) to LayerNormalization",
        &["Pow", "Sqrt"],
        layer_norm::fuse_layer_norm,
    ),
    Rewrite::by(
        "fuse_l2_normalize",
        "x / norm(x) along an axis to Normalize",
        &["Pow", "ReduceL2", "Sqrt"],
        l2_normalize::fuse_l2_normalize,
    ),
    Rewrite::by(
        "fuse_rms_norm",
        "x / sqrt(mean(x^2) + epsilon) to RMSNormalization",
        &["Pow", "Sqrt"],
        layer_norm::fuse_rms_norm,
    ),
    Rewrite::by(
        "fuse_group_norm",
        "InstanceNormalization between Reshapes to GroupNormalization",
        &["InstanceNormalization"],
        group_norm::fuse_group_norm,
    ),
    Rewrite::by(
        "fuse_norm_affine",
        "scale and bias after a normalization to its parameters",
        &["GroupNormalization", "InstanceNormalization", "LayerNormalization", "RMSNormalization"],
        affine::fuse_affine,
    ),
    Rewrite::by(
        "fuse_shuffle",
        "Reshape, Transpose and Reshape to a rearrangement of an image",
        &["Transpose"],
        shuffle::fuse_shuffle,
    ),
    Rewrite::by(
        "fuse_attention",
        "MatMul, Softmax and linear maps to MultiHeadAttention",
        &["Softmax"],
        attention::fuse_attention,
    ),
    SHARE_SLICES,
];

/// The graph during the search for a pattern.
pub(super) struct Look<'a> {
    pub graph: &'a Graph,
    readers: &'a Readers,
}

impl<'a> Look<'a> {
    /// Returns the producer of a value, if it is this operator of ONNX's own domain.
    pub fn made_by(&self, value: ValueId, op_type: &str) -> Option<&'a Node> {
        pattern::producer(self.graph, value, op_type)
    }

    /// Returns the element of a constant of one element.
    pub fn number(&self, value: ValueId) -> Option<f64> {
        pattern::scalar(self.graph, value)
    }

    /// Returns whether a constant is `number` in the precision of its type.
    pub fn is_number(&self, value: ValueId, number: f64) -> bool {
        self.number(value).is_some_and(|found| near(found, number, self.graph.value(value).dtype))
    }

    /// Returns the only reader of a value.
    pub fn only_reader(&self, value: ValueId) -> Option<&'a Node> {
        self.graph.node(self.readers.only(value)?)
    }

    /// Returns the shape of a value, if its rank is known.
    pub fn shape(&self, value: ValueId) -> Option<&'a [Dim]> {
        self.graph.value(value).shape.as_deref()
    }

    /// Returns the sizes of a value, if all are known.
    pub fn sizes(&self, value: ValueId) -> Option<Vec<i64>> {
        self.shape(value)?.iter().map(Dim::known).collect()
    }

    /// Returns the rank of a value, if it is known.
    pub fn rank(&self, value: ValueId) -> Option<usize> {
        self.shape(value).map(<[Dim]>::len)
    }

    /// Returns whether a value has a float type.
    pub fn is_float(&self, value: ValueId) -> bool {
        matches!(self.graph.value(value).dtype, Some(DType::F16 | DType::BF16 | DType::F32 | DType::F64))
    }

    /// Returns whether two values have the same shape and the same float type.
    pub fn alike(&self, a: ValueId, b: ValueId) -> bool {
        self.is_float(a)
            && self.graph.value(a).dtype == self.graph.value(b).dtype
            && self.shape(a).is_some()
            && self.shape(a) == self.shape(b)
    }

    /// Returns whether only `last` and the nodes that compute `inner` read the values `inner`.
    fn is_closed(&self, inner: &BTreeSet<ValueId>, last: &Node) -> bool {
        inner.iter().all(|value| {
            !self.readers.is_output(*value)
                && self.readers.all(*value).iter().all(|reader| {
                    self.graph.node(*reader).is_none_or(|reader| {
                        let mut outputs = reader.outputs.iter().flatten();
                        outputs.clone().any(|output| inner.contains(output))
                            || outputs.any(|output| last.outputs.contains(&Some(*output)))
                    })
                })
        })
    }
}

/// Returns whether two numbers differ at most by the rounding of a type.
pub(super) fn near(found: f64, number: f64, dtype: Option<DType>) -> bool {
    let step = match dtype {
        Some(DType::F16) => 1e-3,
        Some(DType::BF16) => 8e-3,
        _ => 1e-6,
    };
    (found - number).abs() <= step * number.abs()
}

/// Returns the inputs of a node with exactly two.
pub(super) fn two(node: &Node) -> Option<[ValueId; 2]> {
    match node.inputs.as_slice() {
        [Some(a), Some(b)] => Some([*a, *b]),
        _ => None,
    }
}

/// Returns the inputs of a node with exactly two, in both orders.
pub(super) fn orders(node: &Node) -> impl Iterator<Item = (ValueId, ValueId)> + use<> {
    two(node).into_iter().flat_map(|[a, b]| [(a, b), (b, a)])
}

/// Returns the first input of a node.
pub(super) fn first(node: &Node) -> Option<ValueId> {
    node.inputs.first().copied().flatten()
}

/// A match of a pattern.
pub(super) struct Found<T> {
    /// The intermediate values.
    pub inner: BTreeSet<ValueId>,
    /// The operands and parameters of the new nodes.
    pub parts: T,
}

/// The nodes that replace the last node of a pattern.
pub(super) struct Build<'a> {
    graph: &'a mut Graph,
    last: Node,
    nodes: Vec<Node>,
}

impl Build<'_> {
    /// Adds a constant.
    pub fn constant(&mut self, array: &Array) -> Result<ValueId> {
        self.graph.add_constant("", Tensor::from_array(array)?)
    }

    /// Adds a constant list of integers.
    pub fn ints(&mut self, list: &[i64]) -> Result<ValueId> {
        self.constant(&Array::i64(ndarray::ArrayD::from_shape_vec(vec![list.len()], list.to_vec())?))
    }

    /// Adds a node of the newest operator set with one output.
    pub fn op(
        &mut self,
        op_type: &str,
        inputs: &[ValueId],
        attributes: &[(&str, Attribute)],
    ) -> Result<ValueId> {
        let output = self.graph.add_value(Value::default());
        self.push("", op_type, inputs, attributes, smallvec![Some(output)]);
        Ok(output)
    }

    /// Adds the node of the newest operator set that computes the outputs of the pattern.
    pub fn last(&mut self, op_type: &str, inputs: &[ValueId], attributes: &[(&str, Attribute)]) {
        let outputs = self.last.outputs.clone();
        self.push("", op_type, inputs, attributes, outputs);
    }

    /// Adds a changed copy of the pattern's last node.
    pub fn last_as(&mut self, node: Node) {
        self.nodes.push(Node { outputs: self.last.outputs.clone(), ..node });
    }

    /// Adds the node of ncnn's domain that computes the outputs of the pattern.
    pub fn own(&mut self, op_type: &str, inputs: &[ValueId], attributes: &[(&str, Attribute)]) {
        let outputs = self.last.outputs.clone();
        self.push(OWN_DOMAIN, op_type, inputs, attributes, outputs);
    }

    /// Adds a node of ncnn's domain with one output.
    pub fn own_op(&mut self, op_type: &str, inputs: &[ValueId], attributes: &[(&str, Attribute)]) -> ValueId {
        let output = self.graph.add_value(Value::default());
        self.push(OWN_DOMAIN, op_type, inputs, attributes, smallvec![Some(output)]);
        output
    }

    /// Returns the sizes of the result of the pattern, as far as they are known.
    pub fn result_sizes(&self) -> Vec<Option<i64>> {
        self.last.outputs.first().copied().flatten().map_or_else(Vec::new, |value| self.known_sizes(value))
    }

    fn push(
        &mut self,
        domain: &str,
        op_type: &str,
        inputs: &[ValueId],
        attributes: &[(&str, Attribute)],
        outputs: Ids,
    ) {
        self.nodes.push(Node {
            name: self.last.name.clone(),
            index: self.last.index,
            domain: domain.into(),
            op_type: op_type.into(),
            version: NEWEST_OPSET,
            inputs: inputs.iter().copied().map(Some).collect(),
            outputs,
            attributes: attributes.iter().map(|(name, a)| (Symbol::from(*name), a.clone())).collect(),
        });
    }

    /// Returns the sizes of a value, as far as they are known.
    pub fn known_sizes(&self, value: ValueId) -> Vec<Option<i64>> {
        self.graph.value(value).shape.iter().flatten().map(Dim::known).collect()
    }

    /// Adds a constant of one repeated number, in the type of `like`.
    pub fn filled(&mut self, number: f32, shape: &[i64], like: ValueId) -> Result<ValueId> {
        let sizes: std::result::Result<Vec<usize>, _> = shape.iter().map(|n| usize::try_from(*n)).collect();
        let dtype = self.graph.value(like).dtype.unwrap_or(DType::F32);
        let element = Array::f32(ndarray::ArrayD::from_elem(Vec::new(), number)).cast(dtype)?;
        self.graph.add_constant("", Tensor::filled(&element, sizes?)?)
    }
}

/// Replaces the last node of each match of `find` by the nodes that `build` adds. Its intermediate values
/// stay behind without readers.
pub(super) fn fuse<T>(
    graph: &mut Graph,
    find: impl Fn(&Look, &Node) -> Option<Found<T>>,
    mut build: impl FnMut(&mut Build, T) -> Result<()>,
) -> Result<bool> {
    let readers = Readers::of(graph);
    let mut changed = false;
    graph.rewrite_nodes(|graph, id| {
        let found = {
            let look = Look { graph, readers: &readers };
            let Some(node) = graph.node(id) else { return Ok(None) };
            find(&look, node).filter(|found| look.is_closed(&found.inner, node))
        };
        let Some(found) = found else { return Ok(None) };
        let Some(last) = graph.node(id).cloned() else { return Ok(None) };
        let mut made = Build { graph, last, nodes: Vec::new() };
        build(&mut made, found.parts)?;
        changed = true;
        Ok(Some(made.nodes))
    })?;
    Ok(changed)
}
