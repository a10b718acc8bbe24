//! The work of layers: multiply-adds, and what else takes time.

use std::ops::{Add, Mul};

use super::layer::{Trait, Work};
use super::{BlobId, Layer, Net, NetLayer};
use crate::tensor::Dim;

/// The work of layers. Where several compositions of layers compute the same, the one of the least time is
/// used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Cost {
    /// The number of layers.
    pub layers: u64,
    /// Multiply-adds of products and convolutions.
    pub multiply_adds: u64,
    /// The bytes of weights.
    pub weight_bytes: u64,
    /// The bytes of tops.
    pub blob_bytes: u64,
    /// The time in nanoseconds of layers that compute one element at a time: 2 for a multiply-add of a
    /// convolution over three axes, 28 for a power.
    pub scalars: u64,
}

/// The number that stands for a free size.
pub(crate) const USUAL_SIZE: i64 = 256;

/// The nanoseconds of a power, and of a multiply-add, that is computed one element at a time.
const POWER: u64 = 28;
/// See [`POWER`].
const SCALAR_PRODUCT: u64 = 2;

impl Cost {
    /// Returns the cost of layers that each compute so many elements of float32, one pass over memory.
    pub(crate) fn passes(layers: u64, elements: u64) -> Cost {
        let blob_bytes = layers.saturating_mul(elements).saturating_mul(4);
        Cost { layers, blob_bytes, ..Cost::default() }
    }

    /// Returns the cost of a product of matrices with a top of so many elements.
    pub(crate) fn product(elements: u64, inner: u64) -> Cost {
        Cost { multiply_adds: elements.saturating_mul(inner), ..Cost::passes(1, elements) }
    }

    /// Returns the cost of constants of float32.
    pub(crate) fn constants(elements: u64) -> Cost {
        Cost { layers: 1, weight_bytes: elements.saturating_mul(4), ..Cost::default() }
    }

    /// Returns the cost of multiply-adds that are computed one at a time.
    pub(crate) fn scalar_products(multiply_adds: u64) -> Cost {
        Cost { multiply_adds, scalars: multiply_adds.saturating_mul(SCALAR_PRODUCT), ..Cost::default() }
    }

    /// Returns the time in nanoseconds on one thread of a processor of 2020, as measured with ncnn 20261020
    /// on x86: with large matrices a multiply-add takes half of what it is taken for here, with a single row
    /// eight times as much.
    pub fn nanoseconds(&self) -> u64 {
        let tenths = [
            (self.layers, 5_000),
            (self.multiply_adds, 1),
            (self.weight_bytes, 1),
            (self.blob_bytes, 2),
            (self.scalars, 10),
        ];
        tenths.into_iter().fold(0_u64, |sum, (count, each)| sum.saturating_add(count.saturating_mul(each)))
            / 10
    }
}

impl Add for Cost {
    type Output = Cost;

    fn add(self, other: Cost) -> Cost {
        Cost {
            layers: self.layers.saturating_add(other.layers),
            multiply_adds: self.multiply_adds.saturating_add(other.multiply_adds),
            weight_bytes: self.weight_bytes.saturating_add(other.weight_bytes),
            blob_bytes: self.blob_bytes.saturating_add(other.blob_bytes),
            scalars: self.scalars.saturating_add(other.scalars),
        }
    }
}

impl Mul<u64> for Cost {
    type Output = Cost;

    fn mul(self, times: u64) -> Cost {
        Cost {
            layers: self.layers.saturating_mul(times),
            multiply_adds: self.multiply_adds.saturating_mul(times),
            weight_bytes: self.weight_bytes.saturating_mul(times),
            blob_bytes: self.blob_bytes.saturating_mul(times),
            scalars: self.scalars.saturating_mul(times),
        }
    }
}

impl Net {
    /// Returns the cost of a layer. `None` if a size is not known.
    pub fn cost(&self, layer: &NetLayer) -> Option<Cost> {
        let batch = self.batch(layer);
        let mut elements = 0_u64;
        for top in &layer.tops {
            let count = self.known_sizes(*top)?.into_iter().fold(1, u64::saturating_mul);
            elements = elements.saturating_add(count.saturating_mul(batch));
        }
        let multiply_adds = self.multiply_adds(layer)?;
        let weights = layer.layer.weights();
        let lens = weights.iter().map(|weight| u64::try_from(weight.tensor.len()).unwrap_or(u64::MAX));
        let weight_bytes = lens.fold(0, u64::saturating_add).saturating_mul(4);
        let scalars = match (layer.layer.has(Trait::Scalar), multiply_adds) {
            (false, _) => 0,
            (true, 0) => elements.saturating_mul(POWER),
            (true, _) => multiply_adds.saturating_mul(SCALAR_PRODUCT),
        };
        // Layers that hand on their bottoms copy nothing.
        let moves = !layer.layer.has(Trait::Source) && !matches!(layer.layer, Layer::Split(_));
        let blob_bytes = if moves { elements.saturating_mul(4) } else { 0 };
        Some(Cost { layers: batch, multiply_adds, weight_bytes, blob_bytes, scalars })
    }

    /// Returns the sizes of a blob. `None` if one is not known.
    fn known_sizes(&self, blob: BlobId) -> Option<Vec<u64>> {
        Dim::known_sizes(self.blob(blob).shape.iter())
    }

    /// Returns the multiply-adds of a layer: convolutions, matrix products, attention and recurrent layers; 0
    /// for all others. `None` if a size is not known.
    pub fn multiply_adds(&self, layer: &NetLayer) -> Option<u64> {
        let work = self.work(layer, |blob| self.known_sizes(blob));
        Some(layer.layer.facts().work(&work)?.saturating_mul(self.batch(layer)))
    }

    /// Returns how many times a layer runs: once for each element of the batch of its tops.
    fn batch(&self, layer: &NetLayer) -> u64 {
        layer.tops.iter().map(|top| u64::from(self.blob(*top).batch)).max().unwrap_or(1)
    }

    /// Returns the multiply-adds of a layer, and those for an element of its first top; free sizes count as
    /// [`USUAL_SIZE`].
    pub fn usual_multiply_adds(&self, layer: &NetLayer) -> (u64, u64) {
        let usual = |size: &Dim| size.known().unwrap_or(USUAL_SIZE);
        let sizes = |blob: BlobId| {
            let shape = self.blob(blob).shape.iter();
            shape.map(|size| u64::try_from(usual(size)).ok()).collect::<Option<Vec<_>>>()
        };
        let work = self.work(layer, sizes);
        let all = layer.layer.facts().work(&work).unwrap_or(0);
        let elements = work.top().map_or(1, |sizes| sizes.iter().copied().fold(1, u64::saturating_mul));
        (all.saturating_mul(self.batch(layer)), all / elements.max(1))
    }

    fn work(&self, layer: &NetLayer, sizes: impl Fn(BlobId) -> Option<Vec<u64>>) -> Work {
        let of = |blobs: &[BlobId]| blobs.iter().map(|blob| sizes(*blob)).collect();
        Work { bottoms: of(&layer.bottoms), tops: of(&layer.tops) }
    }
}

#[cfg(test)]
mod tests {
    use super::super::layer::{
        Convolution, ConvolutionDepthWise, Deconvolution, Gemm, InnerProduct, LSTM, MatMul, Power, ReLU,
    };
    use super::*;
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
    fn costs_are_compared_by_time() {
        let mut net = Net::default();
        let x = net.push_input("x", &[1000]);
        let y = net.push("y", ReLU { slope: 0.0 }, &[x], &[1000]);
        net.push("z", Power::default(), &[y], &[1000]);
        let [relu, power] = [1, 2].map(|index| net.cost(&net.layers[net.layers.len() - 3 + index]).unwrap());
        assert_eq!(relu, Cost::passes(1, 1000));
        assert_eq!(power.scalars, 28_000);
        assert!(power.nanoseconds() > 10 * relu.nanoseconds());
        assert_eq!((relu + relu) * 2, relu * 4);
        assert_eq!(Cost::product(6, 7).multiply_adds, 42);
        assert_eq!(Cost::constants(5).weight_bytes, 20);
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
