//! The work of layers in multiply-adds.

use crate::tensor::Tensor;

/// The sizes of the bottoms and tops of a layer, as far as they are known.
pub(in crate::ncnn) struct Work {
    pub bottoms: Vec<Option<Vec<u64>>>,
    pub tops: Vec<Option<Vec<u64>>>,
}

impl Work {
    /// Returns the sizes of a bottom.
    pub fn bottom(&self, index: usize) -> Option<&[u64]> {
        self.bottoms.get(index)?.as_deref()
    }

    /// Returns the sizes of the first top.
    pub fn top(&self) -> Option<&[u64]> {
        self.tops.first()?.as_deref()
    }

    /// Returns the number of rows of a bottom.
    pub fn rows(&self, index: usize) -> Option<u64> {
        self.bottom(index)?.iter().rev().nth(1).copied()
    }

    /// Returns the work of a layer that uses each weight once for each position of the blob of these sizes. A
    /// weight that is computed is the second bottom.
    pub fn at_positions(&self, sizes: &[u64], weight: &Option<Tensor>) -> Option<u64> {
        let weight = match weight_len(weight) {
            0 => elements(self.bottom(1)?),
            len => len,
        };
        elements(sizes).checked_mul(weight)
    }

    /// Returns the work of a convolution.
    pub fn convolve(&self, weight: &Option<Tensor>) -> Option<u64> {
        self.at_positions(self.top()?.get(1..)?, weight)
    }

    /// Returns the work of a transposed convolution.
    pub fn transpose(&self, weight: &Option<Tensor>) -> Option<u64> {
        self.at_positions(self.bottom(0)?.get(1..)?, weight)
    }
}

/// Returns the number of elements of a blob of these sizes.
pub(super) fn elements(sizes: &[u64]) -> u64 {
    sizes.iter().fold(1, |n, size| n.saturating_mul(*size))
}

/// Returns the number of elements of a weight, 0 if it is absent.
pub(super) fn weight_len(weight: &Option<Tensor>) -> u64 {
    weight.as_ref().map_or(0, |tensor| u64::try_from(tensor.len()).unwrap_or(u64::MAX))
}
