//! ncnn's layers, computed in float64 from what their params mean.
//!
//! This room reads nets and the table of layers, and nothing of the conversion: what it computes is evidence
//! about a net, not a repetition of the steps that made it. `tests/reference.rs` compares each layer with the
//! runtime over its params. Where kernels of the runtime are at fault (NCNN.md), the meaning is computed.

mod activation;
mod array;
mod attention;
mod convolution;
mod elementwise;
mod expression;
mod movement;
mod normalization;
mod pooling;
mod product;
mod recurrent;
mod reduction;
mod reshape;
mod run;
mod sampling;
mod spectrum;

use ndarray::ArrayD;

use crate::error::{Result, invalid, unsupported};
use crate::ncnn::Layer;
pub(crate) use activation::fused;
pub(crate) use run::producers;
pub use run::run;
#[cfg(feature = "verify")]
pub(crate) use run::{Precision, between, run_layers};

/// The elements of a blob, with the axes of the Mat, outermost first.
pub type Mat = ArrayD<f64>;

/// Computes a layer.
///
/// `bottoms` are the elements of its bottoms, and `tops` the number of tops that are asked for.
///
/// # Errors
///
/// `Invalid` if the bottoms do not fit the params, `Unsupported` if the layer, or a param of it, has no
/// reference.
pub(crate) fn compute(layer: &Layer, bottoms: &[&Mat], tops: usize) -> Result<Vec<Mat>> {
    let one = |top: Result<Mat>| top.map(|top| vec![top]);
    match layer {
        Layer::AbsVal(_)
        | Layer::BNLL(_)
        | Layer::CELU(_)
        | Layer::Clip(_)
        | Layer::Dropout(_)
        | Layer::ELU(_)
        | Layer::Erf(_)
        | Layer::Exp(_)
        | Layer::GELU(_)
        | Layer::HardSigmoid(_)
        | Layer::HardSwish(_)
        | Layer::Log(_)
        | Layer::Mish(_)
        | Layer::Power(_)
        | Layer::PReLU(_)
        | Layer::ReLU(_)
        | Layer::SELU(_)
        | Layer::Shrink(_)
        | Layer::Sigmoid(_)
        | Layer::Softplus(_)
        | Layer::Swish(_)
        | Layer::TanH(_)
        | Layer::Threshold(_)
        | Layer::UnaryOp(_) => one(activation::compute(layer, bottoms)),
        Layer::Bias(_) | Layer::BinaryOp(_) | Layer::Eltwise(_) | Layer::Scale(_) => {
            one(elementwise::compute(layer, bottoms))
        }
        Layer::BatchNorm(_)
        | Layer::GroupNorm(_)
        | Layer::InstanceNorm(_)
        | Layer::LayerNorm(_)
        | Layer::LRN(_)
        | Layer::MVN(_)
        | Layer::Normalize(_)
        | Layer::RMSNorm(_)
        | Layer::Softmax(_) => one(normalization::compute(layer, bottoms)),
        Layer::CumulativeSum(_) | Layer::Reduction(_) => one(reduction::compute(layer, bottoms)),
        Layer::Convolution(_)
        | Layer::Convolution1D(_)
        | Layer::Convolution3D(_)
        | Layer::ConvolutionDepthWise(_)
        | Layer::ConvolutionDepthWise1D(_)
        | Layer::ConvolutionDepthWise3D(_)
        | Layer::Deconvolution(_)
        | Layer::Deconvolution1D(_)
        | Layer::Deconvolution3D(_)
        | Layer::DeconvolutionDepthWise(_)
        | Layer::DeconvolutionDepthWise1D(_)
        | Layer::DeconvolutionDepthWise3D(_)
        | Layer::DeformableConv2D(_) => one(convolution::compute(layer, bottoms)),
        Layer::Fold(_) | Layer::Pooling(_) | Layer::Pooling1D(_) | Layer::Pooling3D(_) | Layer::Unfold(_) => {
            one(pooling::compute(layer, bottoms))
        }
        Layer::GridSample(_) | Layer::Interp(_) | Layer::ROIAlign(_) | Layer::ROIPooling(_) => {
            one(sampling::compute(layer, bottoms))
        }
        Layer::Cast(_)
        | Layer::Concat(_)
        | Layer::CopyTo(_)
        | Layer::Crop(_)
        | Layer::DeepCopy(_)
        | Layer::Dequantize(_)
        | Layer::Diag(_)
        | Layer::Flatten(_)
        | Layer::Flip(_)
        | Layer::MemoryData(_)
        | Layer::Noop(_)
        | Layer::Padding(_)
        | Layer::Permute(_)
        | Layer::PixelShuffle(_)
        | Layer::Reorg(_)
        | Layer::ShuffleChannel(_)
        | Layer::Slice(_)
        | Layer::Tile(_) => movement::compute(layer, bottoms, tops),
        Layer::ExpandDims(_) | Layer::Reshape(_) | Layer::Squeeze(_) => one(reshape::compute(layer, bottoms)),
        Layer::Einsum(_) | Layer::Embed(_) | Layer::Gemm(_) | Layer::InnerProduct(_) | Layer::MatMul(_) => {
            one(product::compute(layer, bottoms))
        }
        Layer::GRU(_) | Layer::LSTM(_) | Layer::RNN(_) => recurrent::compute(layer, bottoms, tops),
        Layer::MultiHeadAttention(_) | Layer::RotaryEmbed(_) | Layer::SDPA(_) => {
            attention::compute(layer, bottoms, tops)
        }
        Layer::InverseSpectrogram(_) | Layer::Spectrogram(_) => one(spectrum::compute(layer, bottoms)),
        Layer::ArgMax(_)
        | Layer::DetectionOutput(_)
        | Layer::GLU(_)
        | Layer::Packing(_)
        | Layer::PriorBox(_)
        | Layer::Proposal(_)
        | Layer::PSROIPooling(_)
        | Layer::Quantize(_)
        | Layer::Requantize(_)
        | Layer::SPP(_)
        | Layer::StatisticsPooling(_)
        | Layer::YoloDetectionOutput(_)
        | Layer::Yolov3DetectionOutput(_) => unsupported!("{} has no reference", layer.type_name()),
        Layer::Custom(_) => unsupported!("{} is declared by the user, and not checked", layer.type_name()),
        // The tops of Split are its bottom.
        Layer::Input(_) | Layer::Split(_) => invalid!("{} is not computed", layer.type_name()),
    }
}
