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
mod masked;
mod masked_function;
mod matcher;
mod mish;
mod narrow;
mod plain_attention;
mod rotary;
mod scores;
mod shift;
mod shuffle;
mod softmax;
mod split;
mod swish;
mod terms;
mod text;
mod view;

use crate::pass::rewrite::{Rewrite, pass};
use crate::pass::simplify::SHARE_SLICES;

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
    pass!(masked_function::fuse_masked_function [NonZero]
        "functions of the elements that a mask selects, where they are, to Where"),
    pass!(masked::fuse_masked_scatter [NonZero]
        "ScatterND at the indices of a mask to Where and a Gather"),
    pass!(experts::fuse_gathered_experts [Gather GatherND]
        "experts with matrices gathered for each token to products with the matrices of all experts"),
    pass!(experts::fuse_scattered_experts [NonZero]
        "experts of the tokens that choose them to weighted experts of all tokens"),
    pass!(split::fuse_split [Slice] "Slices that partition an axis to Split"),
    pass!(focus::fuse_focus_conv [Concat] "strided Slices and Concat before a Conv to SpaceToDepth"),
    pass!(focus::fuse_focus [Concat] "strided Slices and Concat to SpaceToDepth"),
    pass!(atan2::fuse_atan2 [Atan] "atan(y / x), turned by pi where x is negative, to Atan2"),
    pass!(shift::fuse_signed_shift [BitShift]
        "a shift to the right whose highest bits are set where x is negative to floor(x / 2^n)"),
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

/// The fusion for runtimes in which attention takes less time than its products, after the others.
pub const ATTENTION_FUSIONS: &[Rewrite] = &[pass!(plain_attention::fuse_plain_attention [Softmax]
    "for ncnn 20261020 or later: products, Softmax and product to SDPA")];

/// The fusions for caches of the runtime, after the others.
pub const CACHE_FUSIONS: &[Rewrite] = &[
    pass!(rotary::fuse_rotary_embed [Add Concat]
        "with --kv-cache: pairs of elements turned by angles to RotaryEmbed"),
    pass!(cached_attention::fuse_cached_attention [PlainAttention Softmax]
        "with --kv-cache: attention to a cache to SDPA"),
];
