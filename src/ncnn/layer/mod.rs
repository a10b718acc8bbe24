//! ncnn's layers. The table of each defines a struct, its param ids, defaults, weights and shape rule.
//!
//! Names and ids are from ncnn's operator table
//! (<https://github.com/Tencent/ncnn/blob/master/docs/developer-guide/operators.md>), and if they are missing
//! there, from `load_param` and `load_model` of the layer.

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
pub(in crate::ncnn) mod window;

use smallvec::SmallVec;

use crate::error::{Error, Result};
use crate::ncnn::block::BlockFormat;
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

/// The oldest supported release of ncnn; releases are numbered by date.
pub const OLDEST: u32 = 20240410;

/// The first release with size expressions as string params (`paramdict.cpp`).
pub(crate) const EXPRESSIONS: u32 = 20250428;
/// The release since which the runtime hands empty blobs on to layers.
pub(crate) const EMPTY_BLOBS: u32 = 20260113;
/// The release since which attention keeps caches (`sdpa.cpp`).
pub(crate) const CACHES: u32 = 20260113;

impl Layer {
    /// Returns whether the layer multiplies int8 values, and has a weight of int8 with its scales.
    pub fn is_int8(&self) -> bool {
        self.int8_weight().is_some() && !self.is_int8_table()
    }

    /// Returns the format and the name of the weight in blocks.
    pub(crate) fn block_weight(&self) -> Option<(BlockFormat, &'static str)> {
        match self {
            Layer::Gemm(layer) => Some((BlockFormat::of_term(layer.quantize_term)?, "B_data")),
            _ => None,
        }
    }

    /// Returns whether the layer reads a table of int8.
    fn is_int8_table(&self) -> bool {
        matches!(self, Layer::Embed(layer) if layer.weight_data_int8_scale.is_some())
    }

    /// Returns the name of the weight of int8.
    pub(crate) fn int8_weight(&self) -> Option<&'static str> {
        let (scales, name) = match self {
            Layer::Convolution(layer) => (&layer.weight_data_int8_scales, "weight_data"),
            Layer::ConvolutionDepthWise(layer) => (&layer.weight_data_int8_scales, "weight_data"),
            Layer::InnerProduct(layer) => (&layer.weight_data_int8_scales, "weight_data"),
            Layer::Gemm(layer) => (&layer.A_data_int8_scales, "A_data"),
            Layer::Embed(layer) => (&layer.weight_data_int8_scale, "weight_data"),
            _ => return None,
        };
        scales.as_ref().map(|_| name)
    }

    /// Returns whether the layer computes the right result if the bottom at `place` is empty. The runtime hands
    /// empty blobs on to layers; most fail, and those that work in place read a null pointer (`net.cpp`).
    pub(crate) fn bears_empty(&self, place: usize) -> bool {
        match self {
            Layer::Split(_) => true,
            // Concat takes its layout from the first bottom.
            Layer::Concat(_) => place > 0,
            // The caches, which follow the other bottoms.
            Layer::SDPA(layer) if layer.kv_cache != 0 => place >= if layer.attn_mask != 0 { 4 } else { 3 },
            // Crop unpacks all its bottoms, which fails for an empty one.
            Layer::Crop(_) => false,
            _ => self.reads_size_alone(place),
        }
    }

    /// Returns whether the top at `place` is a cache in a layout of the runtime's own. The last bottoms are the caches
    /// that it continues.
    pub(crate) fn computes_cache(&self, place: usize) -> bool {
        matches!(self, Layer::SDPA(layer) if layer.kv_cache != 0) && place > 0
    }

    /// Returns whether the result depends on the size of the bottom at `place`, but on no element.
    pub(crate) fn reads_size_alone(&self, place: usize) -> bool {
        matches!(self, Layer::Crop(_) | Layer::Interp(_) | Layer::Reshape(_)) && place > 0
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
    /// A default that is never used: the param is always written.
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

/// Exactly `n` blobs.
pub const fn exactly(n: usize) -> Arity {
    Arity { min: n, max: n }
}

/// From `min` to `max` blobs.
pub const fn between(min: usize, max: usize) -> Arity {
    Arity { min, max }
}

/// Returns the number of elements of a weight, 0 if it is absent.
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
    ConvolutionDepthWise3D,
    CopyTo,
    Crop,
    CumulativeSum,
    Deconvolution,
    Deconvolution1D,
    Deconvolution3D,
    DeconvolutionDepthWise,
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
