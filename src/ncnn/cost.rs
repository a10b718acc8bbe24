//! The work of layers: multiply-adds, and what else takes time.

use std::ops::{Add, Mul};

use super::{BlobId, Layer, Net, NetLayer};

/// The work of layers. Where several compositions of layers compute the same, the one of the least time is used.
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
    /// The time in nanoseconds of layers that compute one element at a time: 2 for a multiply-add of a convolution over
    /// three axes, 28 for a function such as a logarithm.
    pub scalars: u64,
}

/// The nanoseconds of a function, and of a multiply-add, that is computed one element at a time.
const FUNCTION: u64 = 28;
/// See [`FUNCTION`].
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

    /// Returns the time in nanoseconds on one thread of a processor of 2020, as measured with ncnn 20261020 on x86: with
    /// large matrices a multiply-add takes half of what it is taken for here, with a single row eight times as much.
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
        let mut elements = 0_u64;
        for top in &layer.tops {
            elements = elements.saturating_add(self.elements(*top)?);
        }
        let multiply_adds = self.multiply_adds(layer)?;
        let weights = layer.layer.weights();
        let lens = weights.iter().map(|weight| u64::try_from(weight.tensor.len()).unwrap_or(u64::MAX));
        let weight_bytes = lens.fold(0, u64::saturating_add).saturating_mul(4);
        let is_scalar = matches!(
            layer.layer,
            Layer::Convolution3D(_)
                | Layer::ConvolutionDepthWise3D(_)
                | Layer::Deconvolution3D(_)
                | Layer::DeconvolutionDepthWise3D(_)
                | Layer::Deconvolution1D(_)
        );
        let scalars = match &layer.layer {
            _ if is_scalar => multiply_adds.saturating_mul(SCALAR_PRODUCT),
            Layer::Power(_) | Layer::Log(_) | Layer::Exp(_) => elements.saturating_mul(FUNCTION),
            _ => 0,
        };
        // Layers that hand on their bottoms copy nothing.
        let moves = !matches!(layer.layer, Layer::Split(_) | Layer::Input(_) | Layer::MemoryData(_));
        let blob_bytes = if moves { elements.saturating_mul(4) } else { 0 };
        Some(Cost { layers: 1, multiply_adds, weight_bytes, blob_bytes, scalars })
    }

    /// Returns the multiply-adds of a layer: convolutions, matrix products, attention and recurrent layers; 0
    /// for all others. `None` if a size is not known.
    pub fn multiply_adds(&self, layer: &NetLayer) -> Option<u64> {
        let name = layer.layer.type_name();
        let rows = |blob: &BlobId| self.sizes(*blob)?.iter().rev().nth(1).copied();
        let weight = || match self.weight_len(&layer.layer, "weight_data") {
            0 => self.elements(*layer.bottoms.get(1)?),
            len => Some(len),
        };
        if name.starts_with("Convolution") || name == "DeformableConv2D" {
            let top = self.sizes(*layer.tops.first()?)?;
            // At each position each weight is used once.
            return product(top.get(1..)?).checked_mul(weight()?);
        }
        if name.starts_with("Deconvolution") {
            let bottom = self.sizes(*layer.bottoms.first()?)?;
            return product(bottom.get(1..)?).checked_mul(weight()?);
        }
        match &layer.layer {
            Layer::InnerProduct(_) => {
                let top = self.sizes(*layer.tops.first()?)?;
                product(top.split_last()?.1).checked_mul(weight()?)
            }
            Layer::Gemm(gemm) => {
                let left = match &gemm.A_data {
                    Some(data) => u64::try_from(data.len()).ok()?,
                    None => self.elements(*layer.bottoms.first()?)?,
                };
                let top = self.sizes(*layer.tops.first()?)?;
                left.checked_mul(*if gemm.output_transpose == 0 { top.last()? } else { top.first()? })
            }
            Layer::MatMul(_) => {
                let inner = *self.sizes(*layer.bottoms.first()?)?.last()?;
                self.elements(*layer.tops.first()?)?.checked_mul(inner)
            }
            Layer::MultiHeadAttention(attention) => {
                let data = layer.bottoms.len().checked_sub(usize::from(attention.attn_mask != 0))?;
                let queries = rows(layer.bottoms.first()?)?;
                let keys = rows(layer.bottoms.get(usize::from(data > 1))?)?;
                let of = |name| self.weight_len(&layer.layer, name);
                let maps = queries.checked_mul(of("q_weight_data").checked_add(of("out_weight_data"))?)?;
                let others = keys.checked_mul(of("k_weight_data").checked_add(of("v_weight_data"))?)?;
                let width = u64::try_from(attention.embed_dim).ok()?;
                let scores = queries.checked_mul(keys)?.checked_mul(width)?.checked_mul(2)?;
                maps.checked_add(others)?.checked_add(scores)
            }
            Layer::SDPA(_) => {
                let query = self.elements(*layer.bottoms.first()?)?;
                let top = self.elements(*layer.tops.first()?)?;
                let keys = rows(layer.bottoms.get(1)?)?;
                keys.checked_mul(query.checked_add(top)?)
            }
            Layer::LSTM(_) | Layer::GRU(_) | Layer::RNN(_) => {
                let steps = self.sizes(*layer.bottoms.first()?)?.first().copied()?;
                let names = ["weight_xc_data", "weight_hc_data", "weight_hr_data"];
                steps.checked_mul(names.iter().map(|name| self.weight_len(&layer.layer, name)).sum())
            }
            Layer::Einsum(_) => None,
            _ => Some(0),
        }
    }

    fn sizes(&self, blob: BlobId) -> Option<Vec<u64>> {
        self.blob(blob).shape.iter().map(|size| u64::try_from(size.known()?).ok()).collect()
    }

    fn elements(&self, blob: BlobId) -> Option<u64> {
        Some(product(&self.sizes(blob)?))
    }

    /// Returns the number of elements of a weight, 0 if it is absent.
    fn weight_len(&self, layer: &Layer, name: &str) -> u64 {
        let weights = layer.weights();
        let found = weights.iter().find(|weight| weight.name == name);
        found.map_or(0, |weight| u64::try_from(weight.tensor.len()).unwrap_or(u64::MAX))
    }
}

fn product(sizes: &[u64]) -> u64 {
    sizes.iter().fold(1, |n, size| n.saturating_mul(*size))
}

#[cfg(test)]
mod tests {
    use super::super::layer::{
        Convolution, ConvolutionDepthWise, Deconvolution, Gemm, InnerProduct, LSTM, Log, MatMul, ReLU,
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
        net.push("z", Log::default(), &[y], &[1000]);
        let [relu, log] = [1, 2].map(|place| net.cost(&net.layers[net.layers.len() - 3 + place]).unwrap());
        assert_eq!(relu, Cost::passes(1, 1000));
        assert_eq!(log.scalars, 28_000);
        assert!(log.nanoseconds() > 10 * relu.nanoseconds());
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
