//! The work of a layer in multiply-adds.

use super::layer::Work;
use super::{BlobId, Net, NetLayer};

impl Net {
    /// Returns the multiply-adds of a layer: convolutions, matrix products, attention and recurrent layers; 0
    /// for all others. `None` if a size is not known.
    pub fn multiply_adds(&self, layer: &NetLayer) -> Option<u64> {
        let sizes = |blob: &BlobId| {
            self.blob(*blob).shape.iter().map(|size| u64::try_from(size.known()?).ok()).collect()
        };
        let (bottoms, tops) = (&layer.bottoms, &layer.tops);
        let work =
            Work { bottoms: bottoms.iter().map(sizes).collect(), tops: tops.iter().map(sizes).collect() };
        layer.layer.facts().work(&work)
    }
}

#[cfg(test)]
mod tests {
    use super::super::layer::{
        Convolution, ConvolutionDepthWise, Deconvolution, Gemm, InnerProduct, LSTM, MatMul, ReLU,
    };
    use super::*;
    use crate::ncnn::Layer;
    use crate::tensor::Tensor;

    fn weight(len: usize) -> Option<Tensor> {
        Some(Tensor::from_f32(&[len], vec![0.0; len]).unwrap())
    }

    /// Returns the work of a layer with bottoms and a top of these sizes.
    fn work(layer: impl Into<Layer>, bottoms: &[&[i64]], top: &[i64]) -> Option<u64> {
        let mut net = Net::default();
        let bottoms: Vec<BlobId> = bottoms.iter().map(|sizes| net.push_input("x", sizes)).collect();
        net.push("y", layer, &bottoms, top);
        net.multiply_adds(net.layers.last().unwrap())
    }

    #[test]
    fn multiply_adds_are_counted() {
        let conv = Convolution { weight_data: weight(8 * 3 * 9), ..Convolution::default() };
        assert_eq!(work(conv, &[&[3, 10, 10]], &[8, 5, 4]), Some(8 * 5 * 4 * 27));
        let depth_wise =
            ConvolutionDepthWise { weight_data: weight(8 * 9), ..ConvolutionDepthWise::default() };
        assert_eq!(work(depth_wise, &[&[8, 10, 10]], &[8, 5, 4]), Some(8 * 5 * 4 * 9));
        let transposed = Deconvolution { weight_data: weight(3 * 8 * 4), ..Deconvolution::default() };
        assert_eq!(work(transposed, &[&[3, 5, 4]], &[8, 10, 8]), Some(3 * 5 * 4 * 8 * 4));
        let linear = || InnerProduct { weight_data: weight(6 * 7), ..InnerProduct::default() };
        assert_eq!(work(linear(), &[&[7]], &[6]), Some(42));
        assert_eq!(work(linear(), &[&[5, 7]], &[5, 6]), Some(5 * 42));
        let gemm = |b: usize| Gemm { B_data: weight(b), ..Gemm::default() };
        assert_eq!(work(gemm(7 * 6), &[&[5, 7]], &[5, 6]), Some(5 * 6 * 7));
        assert_eq!(work(MatMul::default(), &[&[2, 5, 7], &[2, 7, 3]], &[2, 5, 3]), Some(2 * 5 * 3 * 7));
        let recurrent =
            LSTM { weight_xc_data: weight(16 * 3), weight_hc_data: weight(16 * 4), ..LSTM::default() };
        assert_eq!(work(recurrent, &[&[9, 3]], &[9, 4]), Some(9 * 16 * 7));
        assert_eq!(work(ReLU { slope: 0.0 }, &[&[3, 5, 4]], &[3, 5, 4]), Some(0));
    }
}
