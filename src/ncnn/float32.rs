//! Layers that compute in float32, although the runtime computes in half precision.
//!
//! The feature mask of a layer disables half precision, but also the conversion of a bottom from half
//! precision (`convert_layout` in `net.cpp`). So such a layer may read only blobs that are float32 already:
//! those of inputs, constants and other such layers, and of a layer that has no code for half precision and
//! no mask. The last is an identity, which is inserted where the float32 part of the net begins.

use std::collections::BTreeSet;

use smallvec::smallvec;

use super::layer::{Squeeze, binary_op};
use super::{Blob, BlobId, Layer, Net, NetLayer};
use crate::common::index::IndexMap;
use crate::error::{Error, Result};

/// The largest finite number of float16.
pub(crate) const LARGEST_HALF: f32 = 65504.0;

impl Layer {
    /// Returns whether each element of the top is an element of a bottom: it needs float32 if they do.
    pub(crate) fn is_move(&self) -> bool {
        matches!(
            self,
            Layer::Concat(_)
                | Layer::Crop(_)
                | Layer::Dequantize(_)
                | Layer::ExpandDims(_)
                | Layer::Flip(_)
                | Layer::Permute(_)
                | Layer::Reshape(_)
                | Layer::Slice(_)
                | Layer::Split(_)
                | Layer::Squeeze(_)
                | Layer::Tile(_)
        )
    }

    /// Returns whether a constant of the layer is beyond float16, in which it would be infinite: a product
    /// with 0 is NaN then. Bounds may be infinite.
    fn exceeds_half(&self) -> bool {
        match self {
            Layer::BinaryOp(layer) => {
                let bounds = matches!(layer.op_type, binary_op::MAX | binary_op::MIN);
                layer.with_scalar != 0 && !bounds && exceeds_half(layer.b)
            }
            Layer::Power(layer) => exceeds_half(layer.scale) || exceeds_half(layer.shift),
            _ => false,
        }
    }
}

/// Returns whether a number is finite, but infinite in float16.
fn exceeds_half(x: f32) -> bool {
    x.is_finite() && x.abs() > LARGEST_HALF
}

/// Returns whether the tops of a layer are float32 without a mask: inputs, constants, and the identity, which
/// has no code for half precision.
fn is_source(layer: &NetLayer) -> bool {
    matches!(layer.layer, Layer::Input(_) | Layer::MemoryData(_) | Layer::Squeeze(_))
}

/// Returns the bottoms of which a layer reads elements, with their places. Crop unpacks also those of which it uses
/// the size alone.
fn read_elements(layer: &NetLayer) -> impl Iterator<Item = (usize, &BlobId)> {
    let is_crop = matches!(layer.layer, Layer::Crop(_));
    layer
        .bottoms
        .iter()
        .enumerate()
        .filter(move |(place, _)| is_crop || !layer.layer.reads_size_alone(*place))
}

impl Net {
    /// Returns whether a layer computes in float32 on runtimes of half precision too, which would not represent its
    /// numbers.
    pub fn is_float32(&self, layer: &NetLayer) -> bool {
        let holds = |blob: &BlobId| self.blob(*blob).float32;
        match layer.layer {
            // Embed has no code for half precision.
            Layer::Input(_) | Layer::Embed(_) => false,
            // A mask may become -inf. Attention in float32 takes twice the time, and differs only for a query
            // of which all keys are masked.
            Layer::MultiHeadAttention(_) | Layer::SDPA(_) => layer.float32,
            _ => {
                let used =
                    |(place, blob): (usize, &BlobId)| !layer.layer.reads_size_alone(place) && holds(blob);
                layer.float32 || layer.tops.iter().any(holds) || layer.bottoms.iter().enumerate().any(used)
            }
        }
    }

    /// Marks the layers with constants beyond float16, and inserts an identity before each layer in float32
    /// that reads a blob in half precision. Each blob has one reader.
    pub(crate) fn isolate_float32(&mut self) {
        for layer in &mut self.layers {
            layer.float32 |= layer.layer.exceeds_half();
        }
        if !self.layers.iter().any(|layer| self.is_float32(layer)) {
            return;
        }
        let mut producers: IndexMap<BlobId, usize> = IndexMap::default();
        let mut constants = BTreeSet::new();
        let mut entries = Vec::new();
        for (place, layer) in self.layers.iter().enumerate() {
            if self.is_float32(layer) {
                for (index, bottom) in read_elements(layer) {
                    let producer = producers.get(*bottom).and_then(|at| Some((*at, self.layers.get(*at)?)));
                    match producer {
                        Some((at, NetLayer { layer: Layer::MemoryData(_), .. })) => {
                            constants.insert(at);
                        }
                        Some((_, producer)) if self.is_float32(producer) || is_source(producer) => {}
                        None => {}
                        Some(_) => entries.push((place, index, *bottom)),
                    }
                }
            }
            producers.extend(layer.tops.iter().map(|top| (*top, place)));
        }
        for place in constants {
            if let Some(layer) = self.layers.get_mut(place) {
                layer.float32 = true;
            }
        }
        self.insert_entries(&entries);
    }

    /// Checks that half precision neither loses a constant, nor is read by a layer in float32.
    pub(super) fn check_float32(&self) -> Result<()> {
        let half = |layer: &&NetLayer| !self.is_float32(layer);
        if let Some(layer) = self.layers.iter().filter(half).find(|layer| layer.layer.exceeds_half()) {
            return Err(Error::internal(format!("a constant of \"{}\" is beyond float16", layer.name)));
        }
        if self.layers.iter().all(|layer| half(&layer)) {
            return Ok(());
        }
        let mut producers: IndexMap<BlobId, &NetLayer> = IndexMap::default();
        for layer in &self.layers {
            let is_half = |bottom: &&BlobId| {
                producers
                    .get(**bottom)
                    .is_some_and(|producer| !self.is_float32(producer) && !is_source(producer))
            };
            if self.is_float32(layer) && read_elements(layer).any(|(_, bottom)| is_half(&bottom)) {
                return Err(Error::internal(format!("\"{}\" reads half precision as float32", layer.name)));
            }
            producers.extend(layer.tops.iter().map(|top| (*top, layer)));
        }
        Ok(())
    }

    /// Inserts an identity between each of the bottoms, given by the place of their layer and their index,
    /// and the layer.
    fn insert_entries(&mut self, entries: &[(usize, usize, BlobId)]) {
        if entries.is_empty() {
            return;
        }
        let mut entries = entries.iter().peekable();
        let layers = Vec::with_capacity(self.layers.len() + entries.len());
        for (place, mut layer) in std::mem::replace(&mut self.layers, layers).into_iter().enumerate() {
            while let Some((_, index, bottom)) = entries.next_if(|(at, ..)| *at == place) {
                layer.float32 = true;
                let blob = self.blob(*bottom).clone();
                let name = format!("{}_float32", blob.name);
                // The mask of the identity stays clear.
                let top = self.add_blob(Blob { name: name.clone(), float32: false, ..blob });
                self.layers.push(NetLayer {
                    name,
                    layer: Squeeze::default().into(),
                    bottoms: smallvec![*bottom],
                    tops: smallvec![top],
                    float32: false,
                    provenance: layer.provenance.clone(),
                });
                if let Some(bottom) = layer.bottoms.get_mut(*index) {
                    *bottom = top;
                }
            }
            self.layers.push(layer);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::layer::BinaryOp;
    use super::*;

    /// The lines of a net whose second of three layers is a product with a number.
    fn lines(number: f32) -> Vec<String> {
        let mut net = Net::default();
        let x = net.push_input("x", &[4]);
        let a = net.push_abs("a", x);
        let product = BinaryOp { op_type: binary_op::MUL, with_scalar: 1, b: number };
        let b = net.push("b", product, &[a], &[4]);
        let c = net.push_abs("c", b);
        net.push_output("c", c);
        net.split();
        net.isolate_float32();
        net.name(&[]).unwrap();
        net.check().unwrap();
        let mut text = String::new();
        net.layers.iter().for_each(|layer| net.push_line(&mut text, layer, true));
        let words = |line: &str| line.split_whitespace().collect::<Vec<_>>().join(" ");
        text.lines().map(words).collect()
    }

    #[test]
    fn constants_of_float16_need_no_float32() {
        assert_eq!(lines(65504.0).iter().filter(|line| line.contains(" 31=")).count(), 0);
        assert_eq!(lines(65504.0).len(), 4);
    }

    #[test]
    fn larger_constants_are_in_float32_after_an_identity() {
        let lines = lines(65505.0);
        assert_eq!(lines.len(), 5);
        assert!(lines[2].starts_with("Squeeze a_float32 1 1 a a_float32 -23330="), "{lines:?}");
        assert!(
            lines[3].starts_with("BinaryOp b 1 1 a_float32 b ") && lines[3].contains(" 31=23 "),
            "{lines:?}"
        );
        assert!(!lines[4].contains(" 31="), "{lines:?}");
    }

    #[test]
    fn half_precision_is_not_read_as_float32() {
        let mut net = Net::default();
        let x = net.push_input("x", &[4]);
        let a = net.push_abs("a", x);
        let b = net.push_abs("b", a);
        net.push_output("b", b);
        net.check().unwrap();
        net.layers[2].float32 = true;
        net.check().unwrap_err();
        net.isolate_float32();
        net.check().unwrap();
    }
}
