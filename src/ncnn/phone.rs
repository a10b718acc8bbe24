//! The layers that run otherwise on a phone than on a desktop: in float32 although the runtime computes in half
//! precision, and on the processor although it computes on the GPU.

use super::{Layer, Net, NetLayer};

/// The types of layers with code for the GPU in the newest release (`src/layer/vulkan`).
#[rustfmt::skip]
const GPU: &[&str] = &[
    "AbsVal", "BatchNorm", "BinaryOp", "CELU", "Cast", "Clip", "Concat", "Convolution", "Convolution1D",
    "ConvolutionDepthWise", "Crop", "Deconvolution", "DeconvolutionDepthWise", "DeepCopy", "Dequantize",
    "Dropout", "ELU", "Eltwise", "Erf", "Flatten", "GELU", "Gemm", "GroupNorm", "HardSigmoid", "HardSwish",
    "InnerProduct", "InstanceNorm", "Interp", "LRN", "LayerNorm", "MemoryData", "Mish", "MultiHeadAttention",
    "Noop", "Normalize", "PReLU", "Padding", "Permute", "PixelShuffle", "Pooling", "RMSNorm", "ReLU",
    "Reduction", "Reorg", "Reshape", "RotaryEmbed", "SDPA", "SELU", "Scale", "Shrink", "ShuffleChannel",
    "Sigmoid", "Slice", "Softmax", "Softplus", "Split", "Swish", "TanH", "UnaryOp", "Unfold",
];

impl Net {
    /// Returns whether a layer runs on the GPU if the runtime uses one.
    pub fn runs_on_gpu(&self, layer: &NetLayer) -> bool {
        let is_source = matches!(layer.layer, Layer::Input(_) | Layer::MemoryData(_));
        is_source || (GPU.contains(&layer.layer.type_name()) && !self.avoids_gpu(layer))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn layers_with_code_for_the_gpu_are_known_and_sorted() {
        assert!(GPU.is_sorted());
        let tables = Layer::tables();
        for name in GPU {
            assert!(tables.iter().any(|table| table.type_name == *name), "{name}");
        }
    }
}
