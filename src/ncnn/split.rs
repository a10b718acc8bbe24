//! A blob may be read once: a value with several readers goes through a Split layer, an end for each.
//!
//! A blob that the user extracts has no other reader, since the runtime takes a blob away from the extractor when a layer reads it
//! (`NetPrivate::do_forward_layer` in `net.cpp`).

use std::collections::{BTreeMap, BTreeSet};

use super::layer::Split;
use super::{Blob, BlobId, Net, NetLayer};

/// A place that reads a blob.
#[derive(Clone, Copy)]
enum Reader {
    Bottom { layer: usize, index: usize },
    Output(usize),
}

impl Net {
    /// Gives each reader of a blob a blob of its own. Outputs that read the same blob under the same name become one.
    pub fn split(&mut self) {
        let mut seen = BTreeSet::new();
        self.outputs.retain(|output| seen.insert((output.blob, output.name.clone())));

        let mut readers: BTreeMap<BlobId, Vec<Reader>> = BTreeMap::new();
        for (layer, net_layer) in self.layers.iter().enumerate() {
            for (index, bottom) in net_layer.bottoms.iter().enumerate() {
                readers.entry(*bottom).or_default().push(Reader::Bottom { layer, index });
            }
        }
        for (index, output) in self.outputs.iter().enumerate() {
            readers.entry(output.blob).or_default().push(Reader::Output(index));
        }
        readers.retain(|blob, readers| self.must_split(*blob, readers));

        let splits: BTreeMap<BlobId, NetLayer> =
            readers.iter().map(|(blob, readers)| (*blob, self.split_layer(*blob, readers))).collect();
        self.insert_behind_producers(splits);
    }

    fn insert_behind_producers(&mut self, mut splits: BTreeMap<BlobId, NetLayer>) {
        for layer in std::mem::take(&mut self.layers) {
            let tops = layer.tops.clone();
            self.layers.push(layer);
            self.layers.extend(tops.iter().filter_map(|top| splits.remove(top)));
        }
    }

    fn must_split(&self, blob: BlobId, readers: &[Reader]) -> bool {
        match readers {
            [Reader::Bottom { .. }] => false,
            // The blob takes the name of the output, unless it carries that of an input.
            [Reader::Output(index)] => {
                let renamed =
                    self.outputs.get(*index).is_some_and(|output| output.name != self.blob(blob).name);
                renamed && self.inputs.contains(&blob)
            }
            _ => true,
        }
    }

    fn split_layer(&mut self, from: BlobId, readers: &[Reader]) -> NetLayer {
        let mut tops = Vec::with_capacity(readers.len());
        for (end, reader) in readers.iter().enumerate() {
            let blob = self.blob(from);
            let name = format!("{}_splitncnn_{end}", blob.name);
            let top = self.add_blob(Blob { name, shape: blob.shape.clone(), element: blob.element });
            tops.push(top);
            match *reader {
                Reader::Bottom { layer, index } => {
                    let slot = self.layers.get_mut(layer).and_then(|layer| layer.bottoms.get_mut(index));
                    if let Some(bottom) = slot {
                        *bottom = top;
                    }
                }
                Reader::Output(index) => {
                    if let Some(output) = self.outputs.get_mut(index) {
                        output.blob = top;
                    }
                }
            }
        }
        let name = format!("split_{}", self.blob(from).name);
        NetLayer { name, layer: Split::default().into(), bottoms: vec![from], tops }
    }
}
