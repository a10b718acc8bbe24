//! Layers that compute in float32, although the runtime computes in half precision.
//!
//! The feature mask of a layer disables half precision, but also the conversion of a bottom from half
//! precision (`convert_layout` in `net.cpp`). So such a layer may read only blobs that are float32 already:
//! those of inputs, constants and other such layers, and of a layer that has no code for half precision and
//! no mask. The last is an identity, which is inserted where the float32 part of the net begins.

use std::collections::BTreeSet;

use smallvec::smallvec;

use super::layer::{Squeeze, Trait};
use super::{Blob, BlobId, Element, Layer, Net, NetLayer};
use crate::common::index::{Index, IndexMap, IndexSet};
use crate::error::{At, Error, Result};

/// Returns the bottoms of which a layer uses elements, and not only the size.
fn used_elements(layer: &NetLayer) -> impl Iterator<Item = &BlobId> {
    let bottoms = layer.bottoms.iter().enumerate();
    bottoms.filter(move |(index, _)| !layer.layer.facts().reads_only_size(*index)).map(|(_, bottom)| bottom)
}

impl Net {
    /// Returns the bottoms of which a layer reads elements that may be in half precision, with their indices.
    /// Some layers also read bottoms of which they use only the size.
    fn read_elements<'a>(&'a self, layer: &'a NetLayer) -> impl Iterator<Item = (usize, &'a BlobId)> {
        let unpacks = layer.layer.has(Trait::Unpacks);
        let is_read = move |index: usize| unpacks || !layer.layer.facts().reads_only_size(index);
        let bottoms = layer.bottoms.iter().enumerate();
        bottoms.filter(move |(index, bottom)| is_read(*index) && self.blob(**bottom).element != Element::I8)
    }

    /// Returns whether a layer computes in float32 on runtimes of half precision too, which would not
    /// represent its numbers.
    pub fn is_float32(&self, layer: &NetLayer) -> bool {
        let is_marked = |blob: &BlobId| self.blob(*blob).float32;
        let is_asked = || layer.tops.iter().any(is_marked) || used_elements(layer).any(is_marked);
        !layer.layer.has(Trait::Unmasked)
            && (layer.float32 || (!layer.layer.has(Trait::OnRequest) && is_asked()))
    }

    /// Keeps the tops of the layers at these indices in float32, and all blobs with elements of them. All
    /// layers that compute or read such a blob compute in float32, attention too. It precedes [`Net::split`].
    pub(crate) fn keep_in_float32(&mut self, indices: &BTreeSet<usize>) {
        let mut kept: IndexSet<BlobId> = IndexSet::default();
        for (index, layer) in self.layers.iter_mut().enumerate() {
            let reads = used_elements(layer).any(|bottom| kept.contains(*bottom));
            layer.float32 |= reads;
            let is_kept = indices.contains(&index) || reads && layer.layer.has(Trait::Move);
            for top in layer.tops.iter().filter(|_| is_kept) {
                // Integers do not lose digits, and the runtime keeps caches in a private layout.
                let blob = self.blobs.get_mut(top.index()).filter(|blob| blob.element == Element::F32);
                if let Some(blob) = blob {
                    blob.float32 = true;
                    kept.insert(*top);
                    layer.float32 |= !matches!(layer.layer, Layer::Input(_));
                }
            }
        }
    }

    /// Returns the blobs that runtimes of half precision store in half precision, in the order of the layers,
    /// with the indices of the layers that compute them. Blobs with elements of only these are left out.
    pub(crate) fn half_blobs(&self) -> Vec<(usize, BlobId)> {
        let readers: IndexMap<BlobId, &NetLayer> = self
            .layers
            .iter()
            .flat_map(|layer| layer.bottoms.iter().map(move |blob| (*blob, layer)))
            .collect();
        let (mut known, mut found) = (IndexSet::default(), Vec::new());
        for (index, layer) in self.layers.iter().enumerate() {
            let is_copy =
                layer.layer.has(Trait::Move) && used_elements(layer).all(|bottom| known.contains(*bottom));
            let is_computed = !layer.layer.has(Trait::Float32) && !self.is_float32(layer);
            let is_half = |top: &BlobId| {
                let blob = self.blob(*top);
                let is_read = || readers.get(*top).is_some_and(|reader| !self.is_float32(reader));
                blob.element == Element::F32 && !blob.float32 && (is_computed || is_read())
            };
            for top in layer.tops.iter().filter(|top| is_half(top)) {
                known.insert(*top);
                if !is_copy {
                    found.push((index, *top));
                }
            }
        }
        found
    }

    /// Marks the layers with constants beyond float16 or with sums that lose terms, and inserts an identity
    /// before each layer in float32 that reads a blob in half precision. Moves of inputs and constants need
    /// none: they are in float32 themselves, so that no digit of an input is lost. Each blob has one reader.
    pub(crate) fn isolate_float32(&mut self) {
        let needs = |layer: &NetLayer| layer.layer.facts().exceeds_half() || self.loses_terms(layer);
        let marks: Vec<bool> = self.layers.iter().map(needs).collect();
        for (layer, needs) in self.layers.iter_mut().zip(marks) {
            layer.float32 |= needs;
        }
        if !self.layers.iter().any(|layer| self.is_float32(layer)) {
            return;
        }
        let mut producers: IndexMap<BlobId, usize> = IndexMap::default();
        let mut sources = BTreeSet::new();
        let mut entries = Vec::new();
        for (layer_index, layer) in self.layers.iter().enumerate() {
            if self.is_float32(layer) {
                for (index, bottom) in self.read_elements(layer) {
                    match self.sources(*bottom, &producers) {
                        Some(found) => sources.extend(found),
                        None => entries.push((layer_index, index, *bottom)),
                    }
                }
            }
            producers.extend(layer.tops.iter().map(|top| (*top, layer_index)));
        }
        for layer_index in sources {
            if let Some(layer) = self.layers.get_mut(layer_index) {
                layer.float32 = true;
            }
        }
        self.insert_entries(&entries);
    }

    /// Returns the indices of the constants and moves from which a blob gets all its elements, besides inputs
    /// and layers in float32. `None` if another layer computes elements in half precision.
    fn sources(&self, blob: BlobId, producers: &IndexMap<BlobId, usize>) -> Option<Vec<usize>> {
        let (mut pending, mut found) = (vec![blob], Vec::new());
        while let Some(id) = pending.pop() {
            let Some(index) = producers.get(id).copied() else { continue };
            let layer = self.layers.get(index)?;
            if matches!(layer.layer, Layer::MemoryData(_)) {
                found.push(index);
            } else if !self.is_float32(layer) && !layer.layer.has(Trait::Float32) {
                if !layer.layer.has(Trait::Move) {
                    return None;
                }
                found.push(index);
                pending.extend(self.read_elements(layer).map(|(_, bottom)| *bottom));
            }
        }
        Some(found)
    }

    /// Checks that half precision neither loses a constant, nor is read by a layer in float32.
    pub(super) fn check_float32(&self) -> Result<()> {
        let half = |layer: &&NetLayer| !self.is_float32(layer);
        if let Some(layer) = self.layers.iter().filter(half).find(|layer| layer.layer.facts().exceeds_half())
        {
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
                    .is_some_and(|producer| !self.is_float32(producer) && !producer.layer.has(Trait::Float32))
            };
            if self.is_float32(layer) && self.read_elements(layer).any(|(_, bottom)| is_half(&bottom)) {
                return Err(Error::internal(format!("\"{}\" reads half precision as float32", layer.name)));
            }
            producers.extend(layer.tops.iter().map(|top| (*top, layer)));
        }
        Ok(())
    }

    /// Inserts an identity between each of the bottoms and its layer. An entry is the index of the layer, the
    /// index of the bottom, and the bottom.
    fn insert_entries(&mut self, entries: &[(usize, usize, BlobId)]) {
        if entries.is_empty() {
            return;
        }
        let mut entries = entries.iter().peekable();
        let layers = Vec::with_capacity(self.layers.len() + entries.len());
        for (layer_index, mut layer) in std::mem::replace(&mut self.layers, layers).into_iter().enumerate() {
            while let Some((_, index, bottom)) = entries.next_if(|(at, ..)| *at == layer_index) {
                layer.float32 = true;
                let blob = self.blob(*bottom).clone();
                let name = format!("{}_float32", blob.name);
                // The mask of the identity stays clear.
                let top = self.add_blob(Blob { name: name.clone(), is_value: false, float32: false, ..blob });
                self.layers.push(NetLayer {
                    name,
                    layer: Squeeze::default().into(),
                    bottoms: smallvec![*bottom],
                    tops: smallvec![top],
                    float32: false,
                    provenance: layer.provenance.clone(),
                });
                layer.bottoms.put(*index, top);
            }
            self.layers.push(layer);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::layer::{BinaryOp, Embed, MultiHeadAttention, Reshape, UnaryOp, binary_op, unary_op};
    use super::*;

    /// Prepares a net for writing.
    fn finish(net: &mut Net) {
        net.split();
        net.isolate_float32();
        net.name(&[], std::iter::empty()).unwrap();
        net.check().unwrap();
    }

    /// The lines of a net whose second of three layers is a product with a number.
    fn lines(number: f32) -> Vec<String> {
        let mut net = Net::default();
        let x = net.push_input("x", &[4]);
        let a = net.push_abs("a", x);
        let product = BinaryOp { op_type: binary_op::MUL, with_scalar: 1, b: number };
        let b = net.push("b", product, &[a], &[4]);
        let c = net.push_abs("c", b);
        net.push_output("c", c);
        finish(&mut net);
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
    fn copies_and_readers_of_kept_blobs_are_in_float32() {
        let mut net = Net::default();
        let x = net.push_input("x", &[4]);
        let a = net.push_abs("a", x);
        let b = net.push_abs("b", a);
        let c = net.push("c", Reshape { w: 2, h: 2, ..Reshape::default() }, &[b], &[2, 2]);
        let d = net.push("d", Reshape { w: 4, ..Reshape::default() }, &[c], &[4]);
        let e = net.push_abs("e", d);
        let f = net.push_abs("f", e);
        let g = net.push_abs("g", b);
        net.push_output("f", f);
        net.push_output("g", g);
        net.keep_in_float32(&BTreeSet::from([2]));
        finish(&mut net);
        let float32 = net.layers.iter().filter(|layer| net.is_float32(layer));
        let names: Vec<&str> = float32.map(|layer| layer.name.as_str()).collect();
        assert_eq!(names, ["b", "split_b", "c", "d", "e", "g"]);
        // Their results are in half precision, but for the copies.
        let half: Vec<String> =
            net.half_blobs().into_iter().map(|(_, blob)| net.blob(blob).name.clone()).collect();
        assert_eq!(half, ["x", "a", "e", "f"]);
    }

    /// The top of a layer without code for half precision is float32, but not by a mask.
    #[test]
    fn kept_rows_of_tables_are_read_in_float32() {
        let mut net = Net::default();
        let x = net.push_input("x", &[4]);
        net.blob_mut(x).unwrap().element = Element::I32;
        let table = Some(crate::tensor::Tensor::from_f32(&[8], vec![1e6; 8]).unwrap());
        let embed = Embed { num_output: 2, input_dim: 4, weight_data: table, ..Embed::default() };
        let a = net.push("a", embed, &[x], &[4, 2]);
        let b = net.push("b", UnaryOp { op_type: unary_op::ABS }, &[a], &[4, 2]);
        net.push_output("b", b);
        net.keep_in_float32(&BTreeSet::from([1]));
        finish(&mut net);
        assert_eq!(net.wiring(), [" > x", "x > a", "a > a_float32", "a_float32 > b"]);
        assert!(net.is_float32(&net.layers[3]) && !net.is_float32(&net.layers[2]));
    }

    #[test]
    fn kept_attention_is_in_float32() {
        let mut net = Net::default();
        let x = net.push_input("x", &[2, 4]);
        let a = net.push("a", UnaryOp { op_type: unary_op::ABS }, &[x], &[2, 4]);
        let b = net.push("b", MultiHeadAttention::default(), &[a], &[2, 4]);
        net.push_output("b", b);
        // A marked bottom by itself, such as a mask, is read in half precision.
        net.blob_mut(a).unwrap().float32 = true;
        assert!(!net.is_float32(&net.layers[2]));
        for index in [1, 2] {
            let mut net = net.clone();
            net.keep_in_float32(&BTreeSet::from([index]));
            assert!(net.is_float32(&net.layers[2]));
        }
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
