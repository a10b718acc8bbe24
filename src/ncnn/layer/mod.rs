//! ncnn's layers, a typed struct each: param ids, defaults and the order of the weights are written once, here.
//!
//! Names and numbers are those of ncnn's operator table
//! (<https://github.com/Tencent/ncnn/blob/master/docs/developer-guide/operators.md>); where that is silent, of the layer's
//! `load_param` and `load_model`.

mod activation;
mod attention;
mod convolution;
mod deconvolution;
mod define;
mod elementwise;
mod fold;
mod glue;
mod movement;
mod normalization;
mod pooling;
mod product;
mod recurrent;
mod reduction;
mod sampling;
pub(in crate::ncnn) mod shape;
mod window;

use smallvec::SmallVec;

use crate::error::{Error, Result};
use crate::tensor::Tensor;
use define::layers;
use shape::{Sizes, Tops};

pub(crate) use define::layer;

pub use activation::*;
pub use attention::*;
pub use convolution::*;
pub use deconvolution::*;
pub use elementwise::*;
pub use fold::*;
pub use glue::*;
pub use movement::*;
pub use normalization::*;
pub use pooling::*;
pub use product::*;
pub use recurrent::*;
pub use reduction::*;
pub use sampling::*;

/// The oldest release that this program writes for; releases are numbered by their dates.
pub const OLDEST: u32 = 20240410;

/// The first release with expressions for sizes, which are written as texts (`paramdict.cpp`).
pub(crate) const EXPRESSIONS: u32 = 20250428;

impl Layer {
    /// Whether it multiplies integers: its weight is in int8, and it has the scales for that.
    pub fn is_int8(&self) -> bool {
        match self {
            Layer::Convolution(layer) => layer.bottom_blob_int8_scales.is_some(),
            Layer::ConvolutionDepthWise(layer) => layer.bottom_blob_int8_scales.is_some(),
            Layer::InnerProduct(layer) => layer.bottom_blob_int8_scales.is_some(),
            _ => false,
        }
    }

    /// Checks that a release has this layer with these params.
    pub(crate) fn check_since(&self, release: u32) -> Result<()> {
        let since = self.since();
        if since <= release {
            return Ok(());
        }
        let message = format!("{} as it is needed here is new in ncnn {since}", self.type_name());
        Err(Error::unsupported(format!("{message}, and the net is for {release}"))
            .help(format!("for newer runtimes alone, convert with --ncnn-version {since}")))
    }
}

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

impl From<i32> for Param {
    fn from(value: i32) -> Self {
        Param::Int(value)
    }
}

impl From<f32> for Param {
    fn from(value: f32) -> Self {
        Param::Float(value)
    }
}

impl From<Vec<i32>> for Param {
    fn from(value: Vec<i32>) -> Self {
        Param::Ints(value)
    }
}

impl From<Vec<f32>> for Param {
    fn from(value: Vec<f32>) -> Self {
        Param::Floats(value)
    }
}

impl From<String> for Param {
    fn from(value: String) -> Self {
        Param::Text(value)
    }
}

/// Params of a layer by number. Most layers have a few, and lists in memory of their own take longer to make than to read.
pub type Params = SmallVec<[(i32, Param); 8]>;

/// Weights of a layer.
pub type Weights<'a> = SmallVec<[Weight<'a>; 4]>;

/// How the runtime finds a weight in the `.bin` file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Storage {
    /// Behind a tag of four bytes that tells the type: `mb.load(n, 0)`.
    Tagged,
    /// Plain float32 values: `mb.load(n, 1)`.
    Raw,
}

/// A weight of a layer, in the order in which `load_model` asks for it.
#[derive(Clone, Copy, Debug)]
pub struct Weight<'a> {
    /// The name in ncnn's operator table.
    pub name: &'static str,
    /// How it is stored.
    pub storage: Storage,
    /// The elements.
    pub tensor: &'a Tensor,
}

/// What the runtime takes where a param is not written.
#[derive(Clone, Debug, PartialEq)]
pub enum Missing {
    /// This value.
    Value(Param),
    /// The value of the param of this name.
    SameAs(&'static str),
    /// A value that this program does not count on: the param is always written.
    Other,
}

/// What the table of a layer's params says of one of them.
#[derive(Clone, Debug, PartialEq)]
pub struct ParamInfo {
    /// The number.
    pub id: i32,
    /// The name.
    pub name: &'static str,
    /// What the runtime takes where the param is not written.
    pub missing: Missing,
}

/// What is known of a type of layer.
#[derive(Clone, Debug, PartialEq)]
pub struct LayerInfo {
    /// The name in the registry.
    pub type_name: &'static str,
    /// The params.
    pub params: Vec<ParamInfo>,
    /// The weights in the order of `load_model`.
    pub weights: Vec<(&'static str, Storage)>,
}

/// How many blobs a layer reads or computes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arity {
    /// At least.
    pub min: usize,
    /// At most.
    pub max: usize,
}

/// Any number of blobs, one at least.
pub const MANY: Arity = Arity { min: 1, max: usize::MAX };

/// Exactly `n` blobs.
pub const fn exactly(n: usize) -> Arity {
    Arity { min: n, max: n }
}

/// From `min` to `max` blobs.
pub const fn between(min: usize, max: usize) -> Arity {
    Arity { min, max }
}

/// The number of elements of a weight, as ncnn counts: 0 where it is absent.
pub(crate) fn weight_len(weight: &Option<Tensor>) -> i32 {
    weight.as_ref().map_or(0, |tensor| i32::try_from(tensor.len()).unwrap_or(i32::MAX))
}

layers! {
    AbsVal,
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
    Deconvolution,
    Deconvolution1D,
    Deconvolution3D,
    DeconvolutionDepthWise,
    DeconvolutionDepthWise1D,
    DeconvolutionDepthWise3D,
    DeepCopy,
    DeformableConv2D,
    Dequantize,
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
    Padding,
    Permute,
    PixelShuffle,
    Pooling,
    Pooling1D,
    Pooling3D,
    Power,
    PReLU,
    Reduction,
    ReLU,
    Reorg,
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
    Squeeze,
    Swish,
    TanH,
    Threshold,
    Tile,
    UnaryOp,
    Unfold,
}
