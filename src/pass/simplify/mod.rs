//! Simplifications: rewritings that leave fewer or simpler nodes of ONNX's own operators.

mod affine;
mod arithmetic;
mod common;
mod edit;
mod gemm;
mod layout;
mod noise;
mod operand;
mod padding;
mod part;
mod reduce;
mod transpose;
mod view;

use crate::pass::pattern::{axis, input, int, ints, only_output};
use crate::pass::rewrite::Rewrite;

use edit::{Edits, replace_nodes};
pub(super) use layout::axes_of;

/// The name of the simplification that merges factors and summands into the convolution after them.
pub(crate) const FUSE_AFFINE_BEFORE: &str = "fuse_affine_before_conv";

/// The simplifications, in the order in which they are tried. Names are those of onnx-optimizer if it has the
/// pass.
pub const SIMPLIFICATIONS: &[Rewrite] = &[
    Rewrite::forward("eliminate_identity", "Identity", &["Identity"]),
    Rewrite::forward(
        "eliminate_nop_cast",
        "Cast and CastLike to the type of the input",
        &["Cast", "CastLike"],
    ),
    Rewrite::forward("eliminate_nop_concat", "Concat of which one input has elements", &["Concat"]),
    Rewrite::forward("eliminate_nop_dropout", "Dropout, which does nothing at inference", &["Dropout"]),
    Rewrite::forward(
        "eliminate_nop_expand",
        "Expand and Tile to the shape of the input",
        &["Expand", "Tile"],
    ),
    Rewrite::by(
        "eliminate_expanded_operand",
        "Expand and ConstantOfShape before an operator that broadcasts its operands as much",
        &["ConstantOfShape", "Expand"],
        operand::eliminate_expanded,
    ),
    Rewrite::forward("eliminate_nop_flatten", "Flatten to the shape of the input", &["Flatten"]),
    Rewrite::by(
        "eliminate_noise_of_zero",
        "random factors of products with zero",
        &["RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike"],
        noise::eliminate_noise,
    ),
    Rewrite::forward(
        "eliminate_nop_pad",
        "Pad and CenterCropPad that add nothing",
        &["Pad", "CenterCropPad"],
    ),
    Rewrite::forward(
        "eliminate_nop_pool",
        "pooling over windows of one element",
        &["AveragePool", "GlobalAveragePool", "GlobalMaxPool", "MaxPool"],
    ),
    Rewrite::forward(
        "eliminate_nop_rearrange",
        "DepthToSpace and SpaceToDepth of blocks of one element",
        &["DepthToSpace", "SpaceToDepth"],
    ),
    Rewrite::forward(
        "eliminate_nop_reduce",
        "reductions along no axis, or along axes of size 1 that are kept",
        &["ReduceMax", "ReduceMean", "ReduceMin", "ReduceProd", "ReduceSum"],
    ),
    Rewrite::forward(
        "eliminate_nop_reshape",
        "Reshape, Squeeze and Unsqueeze to the shape of the input",
        &["Reshape", "Squeeze", "Unsqueeze"],
    ),
    Rewrite::forward("eliminate_nop_slice", "Slice of all elements", &["Slice"]),
    Rewrite::forward("eliminate_nop_split", "Split into one part", &["Split"]),
    Rewrite::forward("eliminate_nop_transpose", "Transpose that moves no element", &["Transpose"]),
    Rewrite::forward(
        "eliminate_nop_where",
        "Where with a constant condition that is all true or all false",
        &["Where"],
    ),
    Rewrite::forward(
        "eliminate_nop_with_unit",
        "sums with 0, products with 1 and the like; Sum, Max, Mean and Min of one value",
        &["Add", "And", "Div", "Max", "Mean", "Min", "Mul", "Or", "Pow", "Sub", "Sum"],
    ),
    MERGE_CONSTANTS,
    Rewrite::by(
        "fuse_concat_into_reshape",
        "computed target shapes of Reshape become constants, with 0 and -1 for free sizes",
        &["Reshape"],
        view::fix_targets,
    ),
    Rewrite::by("fuse_consecutive_squeezes", "consecutive Squeeze to one", &["Squeeze"], view::fuse_squeezes),
    Rewrite::by(
        "fuse_consecutive_unsqueezes",
        "consecutive Unsqueeze to one",
        &["Unsqueeze"],
        view::fuse_unsqueezes,
    ),
    Rewrite::by(
        "fuse_consecutive_reshapes",
        "several Reshape, Flatten, Squeeze and Unsqueeze in a row become one Reshape",
        view::VIEWS,
        view::fuse_views,
    ),
    Rewrite::by(
        "fuse_consecutive_transposes",
        "consecutive Transpose to one",
        &["Transpose"],
        transpose::fuse_transposes,
    ),
    Rewrite::by(
        "fuse_transpose_of_unit_axes",
        "a Transpose between reshapes that drop and restore axes of size 1 becomes one of all axes",
        &["Transpose"],
        transpose::fuse_unit_axes,
    ),
    Rewrite::by(
        "cancel_transposes",
        "Transposes on both sides of elementwise nodes, Concat, Softmax and reductions",
        &["Transpose"],
        layout::cancel_transposes,
    ),
    Rewrite::by(
        "cancel_reshapes",
        "reshapes on both sides of elementwise nodes",
        view::VIEWS,
        layout::cancel_reshapes,
    ),
    Rewrite::by(
        "fuse_consecutive_slices",
        "consecutive Slice of different axes to one",
        &["Slice"],
        part::fuse_slices,
    ),
    Rewrite::by(
        "fuse_slice_of_concat",
        "Slice of one part of a Concat to a Slice of that part",
        &["Slice"],
        part::fuse_slices_of_concats,
    ),
    Rewrite::by(
        "fuse_consecutive_concats",
        "inputs of a Concat that are a Concat along the same axis, or all outputs of a Split",
        &["Concat"],
        part::fuse_concats,
    ),
    Rewrite::by(
        "eliminate_split_of_concat",
        "a Split of a Concat into its inputs",
        &["Split"],
        part::remove_splits_of_concats,
    ),
    Rewrite::by(
        "fuse_consecutive_factors",
        "consecutive products and quotients with constants to one",
        &["Mul", "Div"],
        arithmetic::fuse_factors,
    ),
    Rewrite::by(
        "fuse_consecutive_terms",
        "consecutive sums and differences with constants to one",
        &["Add", "Sub"],
        arithmetic::fuse_terms,
    ),
    Rewrite::by(
        "fuse_consecutive_reduce_unsqueeze",
        "a reduction and the Unsqueeze that restores its axes become a reduction that keeps them",
        &["Unsqueeze"],
        reduce::fuse_unsqueezes,
    ),
    Rewrite::by(
        "fuse_consecutive_log_softmax",
        "Log of Softmax becomes LogSoftmax, which does not underflow",
        &["Log"],
        reduce::fuse_log_softmax,
    ),
    MERGE_NODES,
    Rewrite::by(
        "fuse_bn_into_conv",
        "BatchNormalization becomes part of the Conv, ConvTranspose or Gemm before it",
        &["BatchNormalization"],
        affine::fuse_batch_norms,
    ),
    Rewrite::by(
        "fuse_scale_into_conv",
        "products and quotients with one constant per channel become part of the Conv, \
            ConvTranspose or Gemm before them",
        &["Conv", "ConvTranspose", "Gemm"],
        affine::fuse_scales,
    ),
    Rewrite::by(
        "fuse_add_bias_into_conv",
        "sums and differences with one constant per channel become part of the Conv, \
            ConvTranspose or Gemm before them",
        &["Conv", "ConvTranspose", "Gemm"],
        affine::fuse_shifts,
    ),
    Rewrite::by(
        FUSE_AFFINE_BEFORE,
        "scales and shifts by one constant per channel become part of the Conv after them",
        &["Conv"],
        affine::fuse_before,
    ),
    Rewrite::by(
        "fuse_channel_order_into_conv",
        "a Gather that only reorders channels becomes part of the Conv after it",
        &["Conv"],
        affine::fuse_order,
    ),
    Rewrite::by(
        "fuse_sum_of_convs",
        "sums of Convs over the same value, or of a Conv and BatchNormalization of that value, become one Conv",
        &["Conv"],
        affine::fuse_parallel,
    ),
    Rewrite::by(
        "fuse_matmul_add_bias_into_gemm",
        "MatMul of two matrices and the sum with a constant become Gemm",
        &["MatMul"],
        gemm::fuse_matmul_add,
    ),
    Rewrite::by(
        "fuse_pad_into_conv",
        "zero padding becomes part of the Conv after it",
        &["Pad"],
        padding::fuse_into_conv,
    ),
    Rewrite::by(
        "fuse_pad_into_pool",
        "padding becomes part of the AveragePool or MaxPool after it, if the result is the same",
        &["Pad"],
        padding::fuse_into_pool,
    ),
    Rewrite::by(
        "fuse_transpose_into_gemm",
        "transposes before Gemm become its attributes",
        &["Gemm"],
        gemm::fuse_transposes,
    ),
];

const MERGE_CONSTANTS: Rewrite = Rewrite::by(
    "eliminate_duplicate_initializer",
    "equal constants of at most 64 KiB",
    &[],
    common::merge_constants,
);

const MERGE_NODES: Rewrite = Rewrite::by(
    "eliminate_common_subexpression",
    "nodes with the same operator, inputs and attributes, and equal computed sizes",
    &[],
    common::merge_subexpressions,
);

/// The passes that merge equal parts. Expansions of several nodes have parts in common, such as the mask of all layers
/// of a decoder.
pub const MERGING: &[Rewrite] = &[MERGE_CONSTANTS, MERGE_NODES];

/// The pass that shares Slices. It saves layers of ncnn, but not nodes of ONNX: it is a fusion.
pub(super) const SHARE_SLICES: Rewrite = Rewrite::by(
    "share_slices",
    "strided slices that are equal along their first axes share these",
    &["Slice"],
    part::share_slices,
);
