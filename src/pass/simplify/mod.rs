//! Rewritings that keep ONNX's words: a file a subject.

mod affine;
mod arithmetic;
mod common;
mod edit;
mod gemm;
mod layout;
mod padding;
mod part;
mod reduce;
mod transpose;
mod view;

use crate::pass::rewrite::Rewrite;

use edit::Edits;
pub(in crate::pass) use edit::{InsertionPoint, input, int, only_output};

/// Those that keep ONNX's words: what is left can be written as ONNX. They have the names of onnx-optimizer where it has them.
pub const SIMPLIFICATIONS: &[Rewrite] = &[
    Rewrite::forward("eliminate_identity", "Identity itself", &["Identity"]),
    Rewrite::forward(
        "eliminate_nop_cast",
        "Cast and CastLike to the type that there is",
        &["Cast", "CastLike"],
    ),
    Rewrite::forward("eliminate_nop_concat", "Concat of one part with elements", &["Concat"]),
    Rewrite::forward("eliminate_nop_dropout", "Dropout, as it is at inference", &["Dropout"]),
    Rewrite::forward(
        "eliminate_nop_expand",
        "Expand and Tile to the shape that there is",
        &["Expand", "Tile"],
    ),
    Rewrite::forward("eliminate_nop_flatten", "Flatten to the shape that there is", &["Flatten"]),
    Rewrite::forward(
        "eliminate_nop_pad",
        "Pad and CenterCropPad that add nothing",
        &["Pad", "CenterCropPad"],
    ),
    Rewrite::forward(
        "eliminate_nop_pool",
        "poolings of windows of one element",
        &["AveragePool", "GlobalAveragePool", "GlobalMaxPool", "MaxPool"],
    ),
    Rewrite::forward(
        "eliminate_nop_rearrange",
        "DepthToSpace and SpaceToDepth of blocks of one element",
        &["DepthToSpace", "SpaceToDepth"],
    ),
    Rewrite::forward(
        "eliminate_nop_reduce",
        "reductions of nothing, or of axes of size 1 that are kept",
        &["ReduceMax", "ReduceMean", "ReduceMin", "ReduceProd", "ReduceSum"],
    ),
    Rewrite::forward(
        "eliminate_nop_reshape",
        "Reshape, Squeeze and Unsqueeze to the shape that there is",
        &["Reshape", "Squeeze", "Unsqueeze"],
    ),
    Rewrite::forward("eliminate_nop_slice", "Slice that keeps all", &["Slice"]),
    Rewrite::forward("eliminate_nop_split", "Split into one part", &["Split"]),
    Rewrite::forward("eliminate_nop_transpose", "Transpose that moves no element", &["Transpose"]),
    Rewrite::forward("eliminate_nop_where", "Where whose condition is the same everywhere", &["Where"]),
    Rewrite::forward(
        "eliminate_nop_with_unit",
        "sums with 0, products with 1 and the like, sums and extremes of one value",
        &["Add", "And", "Div", "Max", "Mean", "Min", "Mul", "Or", "Pow", "Sub", "Sum"],
    ),
    Rewrite::by(
        "eliminate_duplicate_initializer",
        "constants that are alike, up to 64 KiB",
        &[],
        common::merge_constants,
    ),
    Rewrite::by(
        "fuse_concat_into_reshape",
        "shapes for Reshape that are computed from sizes become constants, with 0 and -1 for free sizes",
        &["Reshape"],
        view::fix_targets,
    ),
    Rewrite::by(
        "fuse_consecutive_squeezes",
        "several Squeeze in a row become one",
        &["Squeeze"],
        view::fuse_squeezes,
    ),
    Rewrite::by(
        "fuse_consecutive_unsqueezes",
        "several Unsqueeze in a row become one",
        &["Unsqueeze"],
        view::fuse_unsqueezes,
    ),
    Rewrite::by(
        "fuse_consecutive_reshapes",
        "several of Reshape, Flatten, Squeeze and Unsqueeze in a row become one Reshape",
        view::VIEWS,
        view::fuse_views,
    ),
    Rewrite::by(
        "fuse_consecutive_transposes",
        "several Transpose in a row become one",
        &["Transpose"],
        transpose::fuse_transposes,
    ),
    Rewrite::by(
        "fuse_transpose_of_unit_axes",
        "a Transpose between views that drop axes of size 1 and bring them back becomes one of all axes",
        &["Transpose"],
        transpose::fuse_unit_axes,
    ),
    Rewrite::by(
        "cancel_transposes",
        "Transposes on both sides of element-wise nodes, Concat, Softmax and reductions",
        &["Transpose"],
        layout::cancel_transposes,
    ),
    Rewrite::by(
        "cancel_reshapes",
        "reshapes on both sides of element-wise nodes",
        view::VIEWS,
        layout::cancel_reshapes,
    ),
    Rewrite::by(
        "fuse_consecutive_slices",
        "several Slice of different axes in a row become one",
        &["Slice"],
        part::fuse_slices,
    ),
    Rewrite::by(
        "fuse_slice_of_concat",
        "a Slice of one part of a Concat becomes a Slice of that part",
        &["Slice"],
        part::fuse_slices_of_concats,
    ),
    Rewrite::by(
        "fuse_consecutive_concats",
        "parts of a Concat that are a Concat along the same axis, or all parts of a Split",
        &["Concat"],
        part::fuse_concats,
    ),
    Rewrite::by(
        "eliminate_split_of_concat",
        "a Split of a Concat into the parts that it was made from",
        &["Split"],
        part::remove_splits_of_concats,
    ),
    Rewrite::by(
        "fuse_consecutive_factors",
        "products and quotients with constants in a row become one",
        &["Mul", "Div"],
        arithmetic::fuse_factors,
    ),
    Rewrite::by(
        "fuse_consecutive_terms",
        "sums and differences with constants in a row become one",
        &["Add", "Sub"],
        arithmetic::fuse_terms,
    ),
    Rewrite::by(
        "fuse_consecutive_reduce_unsqueeze",
        "a reduction and the Unsqueeze that brings its axes back become one that keeps them",
        &["Unsqueeze"],
        reduce::fuse_unsqueezes,
    ),
    Rewrite::by(
        "fuse_consecutive_log_softmax",
        "the logarithm of a softmax becomes LogSoftmax, which does not lose what is small",
        &["Log"],
        reduce::fuse_log_softmax,
    ),
    Rewrite::by(
        "eliminate_nop_monotone_argmax",
        "a softmax before ArgMax along the same axis",
        &["ArgMax", "ArgMin"],
        reduce::remove_monotone,
    ),
    Rewrite::by(
        "eliminate_common_subexpression",
        "what is computed twice, and sizes that are the same expression",
        &[],
        common::merge_subexpressions,
    ),
    Rewrite::by(
        "fuse_bn_into_conv",
        "batch normalizations become part of the Conv, ConvTranspose or Gemm before them",
        &["BatchNormalization"],
        affine::fuse_batch_norms,
    ),
    Rewrite::by(
        "fuse_scale_into_conv",
        "products and quotients with a constant a channel become part of the Conv, ConvTranspose or Gemm before them",
        &["Conv", "ConvTranspose", "Gemm"],
        affine::fuse_scales,
    ),
    Rewrite::by(
        "fuse_add_bias_into_conv",
        "sums and differences with a constant a channel become part of the Conv, ConvTranspose or Gemm before them",
        &["Conv", "ConvTranspose", "Gemm"],
        affine::fuse_shifts,
    ),
    Rewrite::by(
        "fuse_affine_before_conv",
        "scales and shifts by a constant a channel become part of the Conv after them",
        &["Conv"],
        affine::fuse_before,
    ),
    Rewrite::by(
        "fuse_matmul_add_bias_into_gemm",
        "products of two matrices and the sum with a constant become Gemm",
        &["MatMul"],
        gemm::fuse_matmul_add,
    ),
    Rewrite::by(
        "fuse_pad_into_conv",
        "padding with zeros becomes that of the Conv after it",
        &["Pad"],
        padding::fuse_into_conv,
    ),
    Rewrite::by(
        "fuse_pad_into_pool",
        "padding becomes that of the AveragePool or MaxPool after it, where that computes the same",
        &["Pad"],
        padding::fuse_into_pool,
    ),
    Rewrite::by(
        "fuse_transpose_into_gemm",
        "transposed factors of Gemm become its attributes",
        &["Gemm"],
        gemm::fuse_transposes,
    ),
];

/// What saves layers of ncnn and no nodes of ONNX.
pub(super) const SHARE_SLICES: Rewrite = Rewrite::by(
    "share_slices",
    "slices with steps that begin alike share their first axes",
    &["Slice"],
    part::share_slices,
);
