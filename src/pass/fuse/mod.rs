//! Fusions: patterns of several operators become the operator that they compute; one file for each pattern.
//!
//! A pattern is matched from its last node backwards. Nothing outside the pattern may read its intermediate
//! values: they would still have to be computed, and the fusion would save nothing.

mod affine;
mod atan2;
mod attention;
mod cached_attention;
mod experts;
mod focus;
mod frames;
mod gather_nd;
mod gelu;
mod group_norm;
mod hard_swish;
mod l2_normalize;
mod layer_norm;
mod layout;
mod look_up;
mod mish;
mod narrow;
mod rotary;
mod scores;
mod shuffle;
mod softmax;
mod split;
mod swish;
mod terms;
mod view;

use std::collections::BTreeSet;

use crate::error::Result;
use crate::graph::{Graph, Node, ValueId};
use crate::op::NEWEST_OPSET;
use crate::pass::builder::{Builder, Expr, in_place_of};
use crate::pass::pattern::{Readers, constant_ints, input, producer, scalar};
use crate::pass::rewrite::{Rewrite, pass};
use crate::pass::simplify::SHARE_SLICES;
use crate::tensor::{DType, Dim, Tensor};

pub(super) use cached_attention::refused_attentions;

/// The pass that precedes the fusions: it evaluates constants, which they need not do again.
pub const NARROWING: &[Rewrite] = &[pass!(narrow::narrow_constants []
    "constants that repeat elements along an axis to those of one, which is broadcast")];

/// The fusions, in the order in which they are tried.
pub const FUSIONS: &[Rewrite] = &[
    pass!(look_up::eliminate_nop_gather [Gather] "Gather of all indices of an axis in order"),
    pass!(look_up::fuse_gather_of_selected [Gather]
        "Gather from a constant at a Slice or Gather of indices to the Slice or Gather of a Gather"),
    pass!(frames::fuse_frames [Gather] "Gather of overlapping parts of an axis to Frames"),
    pass!(frames::fuse_overlap_add [ScatterElements ScatterND]
        "ScatterElements and ScatterND that add overlapping frames to Col2Im"),
    pass!(gather_nd::fuse_gather_nd_of_all [GatherND] "GatherND at all positions of its axes to a Transpose"),
    pass!(experts::fuse_gathered_experts [Gather GatherND]
        "experts with matrices gathered for each token to products with the matrices of all experts"),
    pass!(experts::fuse_scattered_experts [NonZero]
        "experts of the tokens that choose them to weighted experts of all tokens"),
    pass!(split::fuse_split [Slice] "Slices that partition an axis to Split"),
    pass!(focus::fuse_focus_conv [Concat] "strided Slices and Concat before a Conv to SpaceToDepth"),
    pass!(focus::fuse_focus [Concat] "strided Slices and Concat to SpaceToDepth"),
    pass!(atan2::fuse_atan2 [Atan] "atan(y / x), turned by pi where x is negative, to Atan2"),
    pass!(softmax::fuse_softmax [Exp] "exp(x) / sum(exp(x)) to Softmax"),
    pass!(swish::fuse_sigmoid [Exp] "1 / (1 + exp(-x)) to Sigmoid"),
    pass!(swish::fuse_swish [Exp Sigmoid] "x * Sigmoid(alpha * x) to Swish"),
    pass!(mish::fuse_mish [Tanh] "x * Tanh(Softplus(x)) to Mish"),
    pass!(gelu::fuse_gelu [Erf Sigmoid Tanh]
        "x * (1 + erf(x / sqrt(2))) / 2, or its approximation by tanh, to Gelu"),
    pass!(hard_swish::fuse_hard_sigmoid [Clip Max Min Relu] "clip(alpha * x + beta, 0, 1) to HardSigmoid"),
    pass!(hard_swish::fuse_hard_swish [Clip HardSigmoid Max Min Relu]
        "x * clip(x / 6 + 1 / 2, 0, 1) to HardSwish"),
    pass!(layer_norm::fuse_layer_norm [Pow Sqrt]
        "(x - mean(x)) / sqrt(variance(x) + epsilon) to LayerNormalization"),
    pass!(l2_normalize::fuse_l2_normalize [Pow ReduceL2 Sqrt]
        "x divided by its L2 norm along an axis to Normalize"),
    pass!(layer_norm::fuse_rms_norm [Pow Sqrt] "x / sqrt(mean(x^2) + epsilon) to RMSNormalization"),
    pass!(group_norm::fuse_group_norm [InstanceNormalization]
        "InstanceNormalization between two Reshapes to GroupNormalization"),
    pass!(affine::fuse_norm_affine [GroupNormalization InstanceNormalization LayerNormalization RMSNormalization]
        "scale and bias after a normalization to its parameters"),
    pass!(shuffle::fuse_shuffle [Transpose]
        "Reshape, Transpose and Reshape to DepthToSpace, SpaceToDepth or ShuffleChannel"),
    pass!(attention::fuse_attention [PlainAttention Softmax]
        "attention with its linear projections to MultiHeadAttention"),
    SHARE_SLICES,
];

/// The fusions for caches of the runtime, after the others.
pub const CACHE_FUSIONS: &[Rewrite] = &[
    pass!(rotary::fuse_rotary_embed [Add Concat]
        "with --kv-cache: pairs of elements turned by angles to RotaryEmbed"),
    pass!(cached_attention::fuse_cached_attention [PlainAttention Softmax]
        "with --kv-cache: attention to a cache to SDPA"),
];

/// A graph in which patterns are matched.
pub(super) struct Matcher<'a> {
    pub graph: &'a Graph,
    readers: &'a Readers,
}

impl<'a> Matcher<'a> {
    /// The node that computes a value.
    pub fn producer(&self, value: ValueId) -> Option<&'a Node> {
        self.graph.node(self.graph.value(value).producer?)
    }

    /// The node that computes a value, if it is `op_type` of ONNX's own domain.
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
        input(self.producer(range)?, 1)
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
    pub fn beside_scalar(&self, node: &Node, scalar: f64) -> Option<ValueId> {
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

    /// Whether only `last` and the nodes that compute `inner` read the values of `inner`.
    fn is_closed(&self, inner: &BTreeSet<ValueId>, last: &Node) -> bool {
        let in_pattern = |reader: &Node| {
            reader.outputs.iter().any(|output| {
                output.is_some_and(|id| inner.contains(&id) || last.outputs.contains(&Some(id)))
            })
        };
        inner.iter().all(|value| {
            let mut readers = self.readers.all(*value).iter().filter_map(|id| self.graph.node(*id));
            !self.readers.is_output(*value) && readers.all(in_pattern)
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

/// Returns the first input of a node.
pub(super) fn first(node: &Node) -> Option<ValueId> {
    input(node, 0)
}

/// The first output of a node.
pub(super) fn output(node: &Node) -> Option<ValueId> {
    node.outputs.first().copied().flatten()
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

/// Replaces the last node of each pattern that `find` matches by the nodes of the value that `build` returns.
/// The other nodes of the pattern stay, unread.
pub(super) fn fuse<T>(
    graph: &mut Graph,
    find: impl Fn(&Matcher, &Node) -> Option<Found<T>>,
    mut build: impl for<'b> FnMut(&'b Builder<'b>, T) -> Result<Expr<'b>>,
) -> Result<bool> {
    let readers = Readers::of(graph);
    let mut changed = false;
    graph.rewrite_nodes(|graph, id| {
        let matcher = Matcher { graph, readers: &readers };
        let Some(node) = graph.node(id) else { return Ok(None) };
        let found = find(&matcher, node).filter(|found| matcher.is_closed(&found.inner, node));
        let Some(found) = found else { return Ok(None) };
        let last = node.clone();
        changed = true;
        in_place_of(graph, &last, NEWEST_OPSET, |made| build(made, found.parts).map(Some))
    })?;
    Ok(changed)
}
