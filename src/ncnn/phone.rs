//! The layers that run otherwise on a phone than on a desktop: in float32 although the runtime computes in half
//! precision, and on the processor although it computes on the GPU.

use super::layer::Trait;
use super::{Layer, Net, NetLayer};

impl Net {
    /// Returns whether a layer runs on the GPU if the runtime uses one.
    pub fn runs_on_gpu(&self, layer: &NetLayer) -> bool {
        let is_source = matches!(layer.layer, Layer::Input(_) | Layer::MemoryData(_));
        is_source || (layer.layer.has(Trait::Gpu) && !self.avoids_gpu(layer))
    }
}
