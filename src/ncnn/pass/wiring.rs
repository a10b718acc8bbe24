//! Who computes and who reads the blobs of a net, and edits that are made together.

use std::collections::{BTreeMap, BTreeSet};

use super::super::{BlobId, Net, NetLayer};
use crate::common::index::{IndexLists, IndexMap};
#[cfg(test)]
use crate::error::Result;
use crate::tensor::Dim;

/// The places of layers and the blobs between them. It tells of the net that it was made from, not of later changes.
#[derive(Debug, Default)]
pub(super) struct Wiring {
    producers: IndexMap<BlobId, usize>,
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

    /// The layer that computes a blob.
    pub fn producer(&self, blob: BlobId) -> Option<usize> {
        self.producers.get(blob).copied()
    }

    /// The layers that read a blob; one that reads it twice is there twice.
    pub fn readers(&self, blob: BlobId) -> &[usize] {
        self.readers.get(blob)
    }

    /// Whether users extract a blob.
    pub fn is_output(&self, blob: BlobId) -> bool {
        self.outputs.contains(&blob)
    }

    /// The one layer that reads a blob, where users do not.
    pub fn only_reader(&self, blob: BlobId) -> Option<usize> {
        match self.readers(blob) {
            [reader] if !self.is_output(blob) => Some(*reader),
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

/// Changes of a net that wait until all are known.
#[derive(Debug, Default)]
pub(super) struct Edits {
    /// Places of layers that go, and of those that do their work.
    removed: IndexMap<usize, Option<usize>>,
    /// Layers that go before the one at a place.
    inserted: BTreeMap<usize, Vec<NetLayer>>,
    /// Blobs that are read in place of others.
    replaced: IndexMap<BlobId, BlobId>,
}

impl Edits {
    /// Removes the layer at a place; its work is done by the one at another.
    pub fn remove(&mut self, layer: usize, by: Option<usize>) {
        self.removed.insert(layer, by);
    }

    /// Whether a layer goes.
    pub fn removes(&self, layer: usize) -> bool {
        self.removed.contains(layer)
    }

    /// Adds a layer before the one at this place.
    pub fn insert_before(&mut self, place: usize, layer: NetLayer) {
        self.inserted.entry(place).or_default().push(layer);
    }

    /// Lets all that read `blob`, users among them, read `other` instead.
    pub fn replace(&mut self, blob: BlobId, other: BlobId) {
        self.replaced.insert(blob, other);
    }

    /// What is read in place of a blob.
    pub fn resolve(&self, blob: BlobId) -> BlobId {
        let mut blob = blob;
        while let Some(other) = self.replaced.get(blob) {
            blob = *other;
        }
        blob
    }

    /// Makes the changes; the answer is whether there were any.
    pub fn apply(mut self, net: &mut Net) -> bool {
        if self.removed.is_empty() && self.inserted.is_empty() && self.replaced.is_empty() {
            return false;
        }
        self.forward_work(net);
        let mut layers = Vec::with_capacity(net.layers.len());
        for (place, layer) in std::mem::take(&mut net.layers).into_iter().enumerate() {
            layers.extend(self.inserted.remove(&place).unwrap_or_default());
            if !self.removed.contains(place) {
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

    fn forward_work(&self, net: &mut Net) {
        for (place, by) in self.removed.iter() {
            let mut by = *by;
            // Each of those may go as well; the bound guards against a cycle.
            for _ in 0..self.removed.len() {
                match by.and_then(|by| self.removed.get(by)) {
                    Some(next) => by = *next,
                    None => break,
                }
            }
            let work = net.layers.get(place).map(|layer| layer.provenance.clone()).unwrap_or_default();
            if let Some(layer) = by.and_then(|by| net.layers.get_mut(by)) {
                layer.provenance.extend(work.iter());
            }
        }
    }
}

/// Sizes that are all numbers.
pub(super) fn known(shape: &[Dim]) -> Option<Vec<i32>> {
    shape.iter().map(|size| size.known().and_then(|n| i32::try_from(n).ok())).collect()
}
