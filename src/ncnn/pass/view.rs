//! Merging and moving of views: layers that change the shape and keep the order of the elements.

use std::collections::{BTreeMap, BTreeSet};

use smallvec::smallvec;

use super::super::layer::{Permute, Reshape};
use super::super::{BlobId, Layer, Net, NetLayer, Provenance};
use super::Wiring;
use super::wiring::{Edits, known};
use crate::error::Result;

/// Returns the bottom and the top of the layer at an index, if it is a view whose sizes are all fixed.
pub(super) fn view_of(net: &Net, index: usize) -> Option<(BlobId, BlobId)> {
    let layer = net.layers.get(index)?;
    let ([bottom], [top]) = (layer.bottoms.as_slice(), layer.tops.as_slice()) else { return None };
    let sizes = |blob: BlobId| known(&net.blob(blob).shape);
    let keeps_elements = match &layer.layer {
        Layer::Reshape(reshape) => reshape.shape_expr.is_empty() && !reshape.changes_batch(),
        Layer::Flatten(_) | Layer::Squeeze(_) | Layer::ExpandDims(_) => true,
        Layer::Permute(permute) => keeps_order(permute, &sizes(*bottom)?),
        _ => false,
    };
    (keeps_elements && sizes(*bottom).is_some() && sizes(*top).is_some()).then_some((*bottom, *top))
}

/// Returns whether a permutation keeps the order of the axes of size other than 1.
fn keeps_order(permute: &Permute, sizes: &[i32]) -> bool {
    let axes: Vec<usize> = (0..sizes.len()).collect();
    let Ok(mut order) = permute.permuted(&axes) else { return false };
    order.retain(|axis| sizes.get(*axis).is_some_and(|size| *size != 1));
    order.is_sorted()
}

/// Returns the Reshape to these sizes, outermost first.
pub(super) fn reshape_to(sizes: &[i32]) -> Option<Layer> {
    let mut layer = Reshape::default();
    match *sizes {
        [w] => layer.w = w,
        [h, w] => (layer.w, layer.h) = (w, h),
        [c, h, w] => (layer.w, layer.h, layer.c) = (w, h, c),
        [c, d, h, w] => (layer.w, layer.h, layer.d, layer.c) = (w, h, d, c),
        _ => return None,
    }
    Some(layer.into())
}

/// Merges views of views and removes views to the same shape. The Reshape of an input stays even then, since
/// users may provide that input in several forms.
pub(super) fn merge_reshapes(net: &mut Net, wiring: &Wiring) -> Result<bool> {
    let mut edits = Edits::default();
    let inputs: BTreeSet<BlobId> = net.inputs.iter().copied().collect();
    let mut made: BTreeMap<(BlobId, Vec<i32>), BlobId> = BTreeMap::new();
    let mut changed = false;
    // The blob that each view is computed from, and whether the views between have no other readers.
    let mut roots: BTreeMap<BlobId, (BlobId, bool)> = BTreeMap::new();
    for index in 0..net.layers.len() {
        let Some((bottom, top)) = view_of(net, index) else { continue };
        let (root, single_reader) = match roots.get(&bottom) {
            Some((root, single_reader)) => (*root, *single_reader && wiring.only_reader(bottom).is_some()),
            None => (bottom, true),
        };
        roots.insert(top, (root, single_reader));
        let Some(sizes) = known(&net.blob(top).shape) else { continue };
        let same = net.blob(root).shape == net.blob(top).shape;
        if same && !inputs.contains(&root) {
            edits.replace(top, root);
            edits.remove(index, wiring.producer(root));
            continue;
        }
        if let Some(other) = made.get(&(root, sizes.clone())) {
            edits.replace(top, *other);
            edits.remove(index, wiring.producer(*other));
            continue;
        }
        made.insert((root, sizes.clone()), top);
        let between = wiring.producer(bottom).filter(|_| root != bottom && single_reader);
        let between =
            between.and_then(|producer| net.layers.get(producer)).map(|layer| layer.provenance.clone());
        let Some(layer) = net.layers.get_mut(index) else { continue };
        let is_reshape = matches!(layer.layer, Layer::Reshape(_));
        if (root != bottom && single_reader) || !is_reshape {
            let Some(reshape) = reshape_to(&sizes) else { continue };
            layer.layer = reshape;
            layer.bottoms = smallvec![if single_reader { root } else { bottom }];
            layer.provenance.extend(between.iter().flat_map(Provenance::iter));
            changed = true;
        }
    }
    Ok(edits.apply(net) || changed)
}

/// Merges two permutations in a row, unless both would remain.
pub(super) fn merge_permutes(net: &mut Net, wiring: &Wiring) -> Result<bool> {
    let mut edits = Edits::default();
    let mut merged = BTreeSet::new();
    for index in 0..net.layers.len() {
        let permute = |index: usize| match net.layers.get(index) {
            Some(NetLayer { layer: Layer::Permute(permute), bottoms, tops, provenance, .. }) => {
                Some((permute, *bottoms.first()?, *tops.first()?, provenance))
            }
            _ => None,
        };
        let Some((second, between, top, _)) = permute(index) else { continue };
        let Some(before) = wiring.producer(between).filter(|before| !merged.contains(before)) else {
            continue;
        };
        let Some((first, source, _, provenance)) = permute(before) else { continue };
        let axes: Vec<usize> = (0..net.blob(top).shape.len()).collect();
        let order = second.permuted(&first.permuted(&axes)?)?;
        let (provenance, is_only) = (provenance.clone(), wiring.only_reader(between).is_some());
        if order.is_sorted() {
            edits.replace(top, source);
            edits.remove(index, wiring.producer(source));
        } else if let Some(layer) = net.layers.get_mut(index).filter(|_| is_only) {
            layer.layer = Permute::of(&order)?.into();
            layer.bottoms = smallvec![source];
            layer.provenance.extend(provenance.iter());
        } else {
            continue;
        }
        merged.insert(index);
    }
    Ok(edits.apply(net) || !merged.is_empty())
}

/// The maximum number of axes of blobs that functions are moved to: in old releases some ignore a fourth one.
const MAX_MOVED_AXES: usize = 3;

/// Moves a view after the elementwise functions that follow it if another view follows them.
pub(super) fn sink_reshapes(net: &mut Net, wiring: &Wiring) -> Result<bool> {
    let mut edits = Edits::default();
    for index in 0..net.layers.len() {
        let Some((bottom, top)) = view_of(net, index) else { continue };
        let shape = net.blob(bottom).shape.clone();
        if shape.len() > MAX_MOVED_AXES || edits.removes(index) {
            continue;
        }
        let Some((chain, view)) = functions_after(net, wiring, top) else { continue };
        let target = net.layers.get(view).and_then(|layer| layer.tops.first());
        let sizes = target.and_then(|target| known(&net.blob(*target).shape));
        let Some(reshape) = sizes.and_then(|sizes| reshape_to(&sizes)) else { continue };
        let Some(layer) = net.layers.get_mut(view) else { continue };
        layer.layer = reshape;
        edits.remove(index, Some(view));
        edits.replace(top, bottom);
        for blob in chain {
            if let Some(blob) = net.blob_mut(blob) {
                blob.shape.clone_from(&shape);
            }
        }
    }
    Ok(edits.apply(net))
}

/// Returns the tops of the functions that follow a blob, at least one, and the index of the view after them.
fn functions_after(net: &Net, wiring: &Wiring, blob: BlobId) -> Option<(Vec<BlobId>, usize)> {
    let mut chain = Vec::new();
    let mut blob = blob;
    loop {
        let index = wiring.only_reader(blob)?;
        if view_of(net, index).is_some() {
            return (!chain.is_empty()).then_some((chain, index));
        }
        let reader = net.layers.get(index)?;
        if !reader.layer.facts().is_function() {
            return None;
        }
        blob = *reader.tops.first()?;
        chain.push(blob);
    }
}
