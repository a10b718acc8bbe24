//! Producers and readers of the blobs of a net, and batches of edits.

use std::collections::{BTreeMap, BTreeSet};

use smallvec::smallvec;

use super::super::{BlobId, Layer, Net, NetLayer};
use crate::common::index::{IndexLists, IndexMap};
use crate::error::Result;
use crate::tensor::Dim;

/// The producers and readers of blobs, by the indices of layers. It does not reflect later changes of the
/// net.
#[derive(Debug, Default)]
pub(super) struct Wiring {
    producers: IndexMap<BlobId, usize>,
    /// A layer that reads a blob twice occurs twice.
    readers: IndexLists<BlobId, usize>,
    outputs: BTreeSet<BlobId>,
}

impl Wiring {
    pub fn of(net: &Net) -> Wiring {
        let layers = || net.layers.iter().enumerate();
        let tops = layers().flat_map(|(index, layer)| layer.tops.iter().map(move |top| (*top, index)));
        let bottoms =
            layers().flat_map(|(index, layer)| layer.bottoms.iter().map(move |bottom| (*bottom, index)));
        Wiring {
            producers: tops.collect(),
            readers: IndexLists::of(bottoms),
            outputs: net.outputs.iter().map(|output| output.blob).collect(),
        }
    }

    /// Returns the layer that computes a blob.
    pub fn producer(&self, blob: BlobId) -> Option<usize> {
        self.producers.get(blob).copied()
    }

    /// Returns the readers of a blob that is not an output.
    pub fn readers(&self, blob: BlobId) -> &[usize] {
        if self.outputs.contains(&blob) { &[] } else { self.readers.get(blob) }
    }

    /// Returns the only reader of a blob that is not an output.
    pub fn only_reader(&self, blob: BlobId) -> Option<usize> {
        match self.readers(blob) {
            [reader] => Some(*reader),
            _ => None,
        }
    }
}

/// Applies a pass once.
#[cfg(test)]
pub(super) fn apply(pass: fn(&mut Net, &Wiring) -> Result<bool>, net: &mut Net) -> Result<bool> {
    let wiring = Wiring::of(net);
    pass(net, &wiring)
}

/// Fuses each layer that `find` matches into the layer before it at the index that it returns, if `set`
/// changes that.
pub(super) fn fuse_into<T>(
    net: &mut Net,
    find: impl Fn(&Net, usize) -> Result<Option<(usize, T)>>,
    set: impl Fn(&mut Layer, T) -> Result<bool>,
) -> Result<bool> {
    let mut edits = Edits::default();
    for index in 0..net.layers.len() {
        let found = find(net, index)?.filter(|(target, _)| !edits.removes(*target));
        let top = net.layers.get(index).and_then(|layer| layer.tops.first()).copied();
        let (Some((target, found)), Some(top)) = (found, top) else { continue };
        let Some(producer) = net.layers.get_mut(target) else { continue };
        if set(&mut producer.layer, found)? {
            producer.tops = smallvec![top];
            edits.remove(index, Some(target));
        }
    }
    Ok(edits.apply(net))
}

/// Changes of a net to apply together.
#[derive(Debug, Default)]
pub(super) struct Edits {
    /// Removed layers, and the layers that do their work instead.
    removed: IndexMap<usize, Option<usize>>,
    /// Layers to insert before the layer at an index.
    inserted: BTreeMap<usize, Vec<NetLayer>>,
    /// Replaced blobs and their replacements.
    replaced: IndexMap<BlobId, BlobId>,
}

impl Edits {
    /// Removes a layer; layer `by` does its work instead.
    pub fn remove(&mut self, layer: usize, by: Option<usize>) {
        self.removed.insert(layer, by);
    }

    /// Returns whether a layer is removed.
    pub fn removes(&self, layer: usize) -> bool {
        self.removed.contains(layer)
    }

    /// Inserts a layer before the one at an index.
    pub fn insert_before(&mut self, index: usize, layer: NetLayer) {
        self.inserted.entry(index).or_default().push(layer);
    }

    /// Replaces a blob in bottoms and outputs.
    pub fn replace(&mut self, blob: BlobId, other: BlobId) {
        self.replaced.insert(blob, other);
    }

    /// Returns the replacement of a blob.
    fn resolve(&self, blob: BlobId) -> BlobId {
        let mut blob = blob;
        while let Some(other) = self.replaced.get(blob) {
            blob = *other;
        }
        blob
    }

    /// Applies the changes; returns whether there are any.
    pub fn apply(mut self, net: &mut Net) -> bool {
        if self.removed.is_empty() && self.inserted.is_empty() && self.replaced.is_empty() {
            return false;
        }
        self.forward_provenance(net);
        let mut layers = Vec::with_capacity(net.layers.len());
        for (index, layer) in std::mem::take(&mut net.layers).into_iter().enumerate() {
            layers.extend(self.inserted.remove(&index).unwrap_or_default());
            if !self.removed.contains(index) {
                layers.push(layer);
            }
        }
        for bottom in layers.iter_mut().flat_map(|layer| &mut layer.bottoms) {
            *bottom = self.resolve(*bottom);
        }
        for output in &mut net.outputs {
            output.blob = self.resolve(output.blob);
        }
        net.layers = layers;
        true
    }

    fn forward_provenance(&self, net: &mut Net) {
        for (index, by) in self.removed.iter() {
            let mut by = *by;
            // That layer may be removed as well; the number of steps is bounded in case of a cycle.
            for _ in 0..self.removed.len() {
                match by.and_then(|by| self.removed.get(by)) {
                    Some(next) => by = *next,
                    None => break,
                }
            }
            let work = net.layers.get(index).map(|layer| layer.provenance.clone()).unwrap_or_default();
            if let Some(layer) = by.and_then(|by| net.layers.get_mut(by)) {
                layer.provenance.extend(work.iter());
            }
        }
    }
}

/// Returns the sizes if all are known.
pub(super) fn known(shape: &[Dim]) -> Option<Vec<i32>> {
    shape.iter().map(|size| size.known().and_then(|n| i32::try_from(n).ok())).collect()
}
