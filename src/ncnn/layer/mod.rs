//! ncnn's layers. The table of each defines a struct, its param ids, defaults, weights and shape rule.
//!
//! Names and ids are from ncnn's operator table
//! (<https://github.com/Tencent/ncnn/blob/master/docs/developer-guide/operators.md>), and if they are missing
//! there, from `load_param` and `load_model` of the layer.

mod activation;
mod attention;
mod convolution;
mod custom;
mod define;
mod elementwise;
mod facts;
mod fold;
mod foreign;
mod glue;
mod movement;
mod normalization;
mod pooling;
mod product;
mod read;
mod recurrent;
mod reduction;
mod sampling;
pub(in crate::ncnn) mod shape;
pub(in crate::ncnn) mod weight;
pub(in crate::ncnn) mod window;
mod windowed;
mod work;

use smallvec::SmallVec;

use crate::error::{Error, Result};
use crate::ncnn::block::BlockFormat;
use crate::tensor::Tensor;
use define::layers;
pub(in crate::ncnn) use facts::Facts;
pub(crate) use facts::Trait;
pub(in crate::ncnn) use read::{Settable, Stated, StatedParams};
pub(crate) use shape::axis_index;
pub(crate) use window::is_transformed;
pub(in crate::ncnn) use work::Work;

pub(crate) use define::layer;

pub use activation::*;
pub use attention::*;
pub use convolution::*;
pub use custom::Custom;
pub use elementwise::*;
pub use fold::*;
pub use foreign::*;
pub use glue::*;
pub use movement::*;
pub use normalization::*;
pub use pooling::*;
pub use product::*;
pub use recurrent::*;
pub use reduction::*;
pub use sampling::*;

/// The oldest supported release of ncnn; releases are numbered by date.
pub const OLDEST: u32 = 20240410;

/// The first release with size expressions as text params that Reshape and Interp evaluate (`paramdict.cpp`).
pub(crate) const EXPRESSIONS: u32 = 20250428;
/// The first release in which Crop evaluates expressions right: those before crash, fail, or crop elsewhere.
pub(crate) const CROP_EXPRESSIONS: u32 = 20260113;
/// The release since which the runtime hands empty blobs on to layers.
pub(crate) const EMPTY_BLOBS: u32 = 20260113;
/// The first release with Mats of a batch, of which the runtime computes one element after the other.
pub(crate) const BATCHES: u32 = 20261020;
/// The largest finite number of float16.
pub(crate) const LARGEST_HALF: f32 = 65504.0;
/// The largest magnitude of an integer in int8 layers.
pub(crate) const LARGEST_INT8: f64 = 127.0;

/// The release since which attention keeps caches (`sdpa.cpp`).
pub(crate) const CACHES: u32 = 20260113;
/// The release since which SDPA takes less time than products and Softmax, of all sizes, and with caches a
/// fraction of that in the releases before (`sdpa_x86.cpp`).
pub(crate) const FAST_ATTENTION: u32 = 20261020;

impl Layer {
    /// Returns whether the layer has a trait.
    pub(crate) fn has(&self, wanted: Trait) -> bool {
        self.facts().has(wanted) || wanted == Trait::Move && self.is_maximum()
    }

    /// Returns whether each element of the top is the largest one of a window.
    fn is_maximum(&self) -> bool {
        match self {
            Layer::Pooling1D(pooling) => pooling.pooling_type == 0,
            Layer::Pooling(pooling) => pooling.pooling_type == 0,
            Layer::Pooling3D(pooling) => pooling.pooling_type == 0,
            _ => false,
        }
    }

    /// Returns whether the layer multiplies int8 values, and has a weight of int8 with its scales.
    pub fn is_int8(&self) -> bool {
        !self.int8_weights().is_empty() && !matches!(self, Layer::Embed(_))
    }

    /// See [`Facts::int8_weights`].
    pub(crate) fn int8_weights(&self) -> &'static [&'static str] {
        self.facts().int8_weights()
    }

    /// See [`Facts::block_weight`].
    pub(crate) fn block_weight(&self) -> Option<(BlockFormat, &'static str)> {
        self.facts().block_weight()
    }

    /// See [`Facts::computes_cache`].
    pub(crate) fn computes_cache(&self, index: usize) -> bool {
        self.facts().computes_cache(index)
    }

    /// Checks that a release reads this layer with these params.
    pub(crate) fn check_since(&self, release: u32) -> Result<()> {
        let since = self.since();
        if since <= release {
            return Ok(());
        }
        let message = format!("{} with these params requires ncnn {since}", self.type_name());
        Err(Error::unsupported(format!("{message}, and the net is for {release}"))
            .help(format!("for newer runtimes only, convert with --ncnn-version {since}")))
    }
}

/// Comparison of a param with its default: -0 is not 0.
pub(in crate::ncnn) trait IsDefault: PartialEq {
    fn is(&self, default: &Self) -> bool {
        self == default
    }
}

impl IsDefault for f32 {
    fn is(&self, default: &f32) -> bool {
        self.to_bits() == default.to_bits()
    }
}

impl IsDefault for i32 {}
impl IsDefault for Vec<i32> {}
impl IsDefault for Vec<f32> {}
impl IsDefault for String {}

/// A value in the `.param` file.
#[derive(Clone, Debug, PartialEq)]
pub enum Param {
    /// `id=3`
    Int(i32),
    /// `id=5.000000e-01`
    Float(f32),
    /// `-23300-id=2,3,4`
    Ints(Vec<i32>),
    /// `-23300-id=2,3.000000e+00,4.000000e+00`
    Floats(Vec<f32>),
    /// `id="text"`
    Text(String),
}

macro_rules! param_from {
    ( $( $ty:ty => $variant:ident, )* ) => { $(
        impl From<$ty> for Param {
            fn from(value: $ty) -> Self {
                Param::$variant(value)
            }
        }
    )* };
}
param_from! {
    i32 => Int,
    f32 => Float,
    Vec<i32> => Ints,
    Vec<f32> => Floats,
    String => Text,
}

/// The params of a layer with their ids.
pub type Params = SmallVec<[(i32, Param); 8]>;

/// The weights of a layer.
pub type Weights<'a> = SmallVec<[Weight<'a>; 4]>;

/// The storage of a weight in the `.bin` file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Storage {
    /// After a tag of four bytes that encodes the element type: `mb.load(n, 0)`.
    Tagged,
    /// Plain float32 values: `mb.load(n, 1)`.
    Raw,
}

/// A weight of a layer, in the order in which `load_model` asks for it.
#[derive(Clone, Copy, Debug)]
pub struct Weight<'a> {
    /// The name in ncnn's operator table.
    pub name: &'static str,
    /// The storage in the `.bin` file.
    pub storage: Storage,
    /// The elements.
    pub tensor: &'a Tensor,
}

/// The default of a param.
#[derive(Clone, Debug, PartialEq)]
pub enum Missing {
    /// This value.
    Value(Param),
    /// The value of the param of this name.
    SameAs(&'static str),
    /// A value computed from other params. The param is always written.
    Other,
}

/// An entry of the table of a layer's params.
#[derive(Clone, Debug, PartialEq)]
pub struct ParamInfo {
    /// The id in the `.param` file.
    pub id: i32,
    /// The name in ncnn's operator table.
    pub name: &'static str,
    /// The default.
    pub missing: Missing,
}

/// The table of a layer type.
#[derive(Clone, Debug, PartialEq)]
pub struct LayerInfo {
    /// The type in the binary form of the `.param` file.
    pub index: i32,
    /// The name in ncnn's layer registry.
    pub type_name: &'static str,
    /// The params.
    pub params: Vec<ParamInfo>,
    /// The weights in the order of `load_model`.
    pub weights: Vec<(&'static str, Storage)>,
}

/// The number of bottoms or tops of a layer type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arity {
    /// The minimum.
    pub min: usize,
    /// The maximum.
    pub max: usize,
}

/// One or more blobs.
pub const MANY: Arity = Arity { min: 1, max: usize::MAX };
/// Any number of blobs, or none.
pub const ANY: Arity = Arity { min: 0, max: usize::MAX };

/// Exactly `n` blobs.
pub const fn exactly(n: usize) -> Arity {
    Arity { min: n, max: n }
}

/// From `min` to `max` blobs.
pub const fn between(min: usize, max: usize) -> Arity {
    Arity { min, max }
}

/// Returns whether a number is finite, but infinite in float16.
fn exceeds_half(x: f32) -> bool {
    x.is_finite() && x.abs() > LARGEST_HALF
}

/// Returns the number of elements of a weight, 0 if it is absent.
pub(crate) fn weight_len(weight: &Option<Tensor>) -> i32 {
    weight.as_ref().map_or(0, |tensor| i32::try_from(tensor.len()).unwrap_or(i32::MAX))
}

layers! {
    AbsVal,
    ArgMax,
    BatchNorm,
    Bias,
    BinaryOp,
    BNLL,
    Cast,
    CELU,
    Clip,
    Concat,
    Convolution,
    Convolution1D,
    Convolution3D,
    ConvolutionDepthWise,
    ConvolutionDepthWise1D,
    ConvolutionDepthWise3D,
    CopyTo,
    Crop,
    CumulativeSum,
    Custom,
    Deconvolution,
    Deconvolution1D,
    Deconvolution3D,
    DeconvolutionDepthWise,
    DeconvolutionDepthWise1D,
    DeconvolutionDepthWise3D,
    DeepCopy,
    DeformableConv2D,
    Dequantize,
    DetectionOutput,
    Diag,
    Dropout,
    Einsum,
    Eltwise,
    ELU,
    Embed,
    Erf,
    Exp,
    ExpandDims,
    Flatten,
    Flip,
    Fold,
    GELU,
    Gemm,
    GLU,
    GridSample,
    GroupNorm,
    GRU,
    HardSigmoid,
    HardSwish,
    InnerProduct,
    Input,
    InstanceNorm,
    Interp,
    InverseSpectrogram,
    LayerNorm,
    Log,
    LRN,
    LSTM,
    MatMul,
    MemoryData,
    Mish,
    MultiHeadAttention,
    MVN,
    Noop,
    Normalize,
    Packing,
    Padding,
    Permute,
    PixelShuffle,
    Pooling,
    Pooling1D,
    Pooling3D,
    Power,
    PReLU,
    PriorBox,
    Proposal,
    PSROIPooling,
    Quantize,
    Reduction,
    ReLU,
    Reorg,
    Requantize,
    Reshape,
    RMSNorm,
    RNN,
    ROIAlign,
    ROIPooling,
    RotaryEmbed,
    Scale,
    SDPA,
    SELU,
    Shrink,
    ShuffleChannel,
    Sigmoid,
    Slice,
    Softmax,
    Softplus,
    Spectrogram,
    Split,
    SPP,
    Squeeze,
    StatisticsPooling,
    Swish,
    TanH,
    Threshold,
    Tile,
    UnaryOp,
    Unfold,
    YoloDetectionOutput,
    Yolov3DetectionOutput,
}
