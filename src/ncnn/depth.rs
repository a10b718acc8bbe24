//! The depth of the recursion with which the runtime computes a net.

use super::{BlobId, Net};
use crate::common::index::IndexMap;

impl Net {
    /// Returns the number of layers of the longest path: the runtime computes the bottoms of a layer before
    /// the layer, and calls itself for each (NCNN.md).
    pub(crate) fn depth(&self) -> usize {
        let mut depths: IndexMap<BlobId, usize> = IndexMap::default();
        let mut deepest = 0;
        for layer in &self.layers {
            let before = layer.bottoms.iter().filter_map(|bottom| depths.get(*bottom)).max();
            let depth = before.map_or(1, |before| before + 1);
            deepest = deepest.max(depth);
            for top in &layer.tops {
                depths.insert(*top, depth);
            }
        }
        deepest
    }
}
