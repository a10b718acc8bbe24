//! Simplifications: rewritings that leave fewer or simpler nodes of ONNX's operators.

mod affine;
mod arithmetic;
mod common;
mod gemm;
mod layout;
mod noise;
mod operand;
mod padding;
mod part;
mod reduce;
mod sentinel;
mod transpose;
mod view;

use crate::pass::pattern::{axis, int, ints, only_output};
use crate::pass::rewrite::{Rewrite, pass};

pub(super) use layout::axes_of;
pub(super) use operand::{Source, replace_operands};

/// The name of the simplification that merges factors and summands into the convolution after them.
pub(crate) const FUSE_AFFINE_BEFORE: &str = "fuse_affine_before_conv";

/// The simplifications, in the order in which they are tried. Names are those of onnx-optimizer if it has the
/// pass.
pub const SIMPLIFICATIONS: &[Rewrite] = &[
    pass!(eliminate_identity [Identity] "Identity"),
    pass!(eliminate_nop_cast [Cast CastLike] "Cast and CastLike to the type of the input"),
    pass!(eliminate_nop_concat [Concat] "Concat of which one input has elements"),
    pass!(eliminate_nop_dropout [Dropout] "Dropout, which does nothing at inference"),
    pass!(eliminate_nop_expand [Expand Tile] "Expand and Tile to the shape of the input"),
    pass!(operand::eliminate_expanded_operand [ConstantOfShape Expand]
        "Expand and ConstantOfShape before an operator that broadcasts its operands as much"),
    pass!(eliminate_nop_flatten [Flatten] "Flatten to the shape of the input"),
    pass!(noise::eliminate_noise_of_zero [RandomNormal RandomNormalLike RandomUniform RandomUniformLike]
        "random factors of products with zero"),
    pass!(eliminate_nop_pad [Pad CenterCropPad] "Pad and CenterCropPad that add nothing"),
    pass!(eliminate_nop_pool [AveragePool GlobalAveragePool GlobalMaxPool MaxPool]
        "pooling over windows of one element"),
    pass!(eliminate_nop_rearrange [Compress DepthToSpace ReverseSequence SpaceToDepth]
        "Compress, DepthToSpace, ReverseSequence and SpaceToDepth that move no element"),
    pass!(eliminate_nop_reduce [ReduceMax ReduceMean ReduceMin ReduceProd ReduceSum]
        "reductions along no axis, or along axes of size 1 that are kept"),
    pass!(eliminate_nop_reshape [Reshape Squeeze Unsqueeze]
        "Reshape, Squeeze and Unsqueeze to the shape of the input"),
    pass!(eliminate_nop_slice [Slice] "Slice of all elements"),
    pass!(eliminate_nop_split [Split] "Split into one part"),
    pass!(eliminate_nop_transpose [Transpose] "Transpose that moves no element"),
    pass!(eliminate_nop_where [Where] "Where with a constant condition that is all true or all false"),
    pass!(sentinel::bound_masked_integers [Where]
        "integers beyond float32 that a mask leaves out of a minimum or maximum to a bound of the others"),
    pass!(eliminate_nop_with_unit [Add And Div Max Mean Min Mul Or Pow Sub Sum]
        "sums with 0, products with 1 and the like; Sum, Max, Mean and Min of one value"),
    MERGE_CONSTANTS,
    pass!(view::fuse_concat_into_reshape [Reshape]
        "computed target shapes of Reshape become constants, with 0 and -1 for free sizes"),
    pass!(view::fuse_consecutive_squeezes [Squeeze] "consecutive Squeeze to one"),
    pass!(view::fuse_consecutive_unsqueezes [Unsqueeze] "consecutive Unsqueeze to one"),
    pass!(view::fuse_consecutive_reshapes [Flatten Reshape Squeeze Unsqueeze]
        "several Reshape, Flatten, Squeeze and Unsqueeze in a row become one Reshape"),
    MERGE_TRANSPOSES,
    pass!(transpose::fuse_transpose_of_unit_axes [Transpose]
        "a Transpose between reshapes that drop and restore axes of size 1 becomes one of all axes"),
    pass!(layout::cancel_transposes [Transpose]
        "Transposes on both sides of elementwise nodes, Concat, Softmax and reductions"),
    pass!(layout::cancel_reshapes [Flatten Reshape Squeeze Unsqueeze]
        "reshapes on both sides of elementwise nodes"),
    pass!(part::fuse_consecutive_slices [Slice] "consecutive Slice of different axes to one"),
    pass!(part::fuse_slice_of_concat [Slice] "Slice of one part of a Concat to a Slice of that part"),
    pass!(part::fuse_consecutive_concats [Concat]
        "inputs of a Concat that are a Concat along the same axis, or all outputs of a Split"),
    pass!(part::eliminate_split_of_concat [Split] "a Split of a Concat into its inputs"),
    pass!(arithmetic::fuse_consecutive_factors [Mul Div]
        "consecutive products and quotients with constants to one"),
    pass!(arithmetic::fuse_consecutive_terms [Add Sub]
        "consecutive sums and differences with constants to one"),
    pass!(reduce::fuse_consecutive_reduce_unsqueeze [Unsqueeze]
        "a reduction and the Unsqueeze that restores its axes become a reduction that keeps them"),
    pass!(reduce::fuse_consecutive_log_softmax [Log]
        "Log of Softmax becomes LogSoftmax, which does not underflow"),
    MERGE_NODES,
    pass!(affine::fuse_bn_into_conv [BatchNormalization]
        "BatchNormalization becomes part of the Conv, ConvTranspose or Gemm before it"),
    pass!(affine::fuse_scale_into_conv [Conv ConvTranspose Gemm]
        "products and quotients with one constant per channel become part of the Conv, ConvTranspose or Gemm \
        before them"),
    pass!(affine::fuse_add_bias_into_conv [Conv ConvTranspose Gemm]
        "sums and differences with one constant per channel become part of the Conv, ConvTranspose or Gemm before \
        them"),
    pass!(affine::fuse_affine_before_conv [Conv]
        "scales and shifts by one constant per channel become part of the Conv after them"),
    pass!(affine::fuse_channel_order_into_conv [Conv]
        "a Gather that only reorders channels becomes part of the Conv after it"),
    pass!(affine::fuse_sum_of_convs [Conv]
        "sums of Convs over the same value, or of a Conv and BatchNormalization of that value, become one Conv"),
    pass!(gemm::fuse_matmul_add_bias_into_gemm [MatMul]
        "MatMul of two matrices and the sum with a constant become Gemm"),
    pass!(padding::fuse_pad_into_conv [Pad] "zero padding becomes part of the Conv after it"),
    pass!(padding::fuse_pad_into_pool [Pad]
        "padding becomes part of the AveragePool or MaxPool after it, if the result is the same"),
    pass!(gemm::fuse_transpose_into_gemm [Gemm] "transposes before Gemm become its attributes"),
];

const MERGE_CONSTANTS: Rewrite = pass!(common::eliminate_duplicate_initializer []
    "equal constants of at most 64 KiB");

const MERGE_NODES: Rewrite = pass!(common::eliminate_common_subexpression []
    "nodes with the same operator, inputs and attributes, and equal computed sizes");

const MERGE_TRANSPOSES: Rewrite =
    pass!(transpose::fuse_consecutive_transposes [Transpose] "consecutive Transpose to one");

/// The passes that merge parts of expansions. Those of several nodes have parts in common, such as the mask
/// of all layers of a decoder, and end with transposes that others begin with.
pub const MERGING: &[Rewrite] = &[MERGE_CONSTANTS, MERGE_NODES, MERGE_TRANSPOSES];

/// The pass that shares Slices. It saves layers of ncnn, but not nodes of ONNX: it is a fusion.
pub(super) const SHARE_SLICES: Rewrite = pass!(part::share_slices [Slice]
    "strided slices that are equal along their first axes share these");
