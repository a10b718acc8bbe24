//! Parts of nets, computed from the blobs that are given.

use std::collections::{BTreeMap, BTreeSet};

use super::{Mat, compute};
use crate::error::{Result, invalid};
use crate::ncnn::{BlobId, Net};

/// Computes blobs of a net from given ones. Only the layers between them are computed.
///
/// # Errors
///
/// `Invalid` if a wanted blob depends on an input that is not given, or if a layer does not fit its bottoms;
/// `Unsupported` if a layer has no reference.
pub fn run(net: &Net, given: BTreeMap<BlobId, Mat>, wanted: &[BlobId]) -> Result<Vec<Mat>> {
    let layers = between(net, |blob| given.contains_key(&blob), wanted);
    let mut readers: BTreeMap<BlobId, usize> = BTreeMap::new();
    for blob in layers.iter().filter_map(|index| net.layers.get(*index)).flat_map(|layer| &layer.bottoms) {
        *readers.entry(*blob).or_default() += 1;
    }
    let mut values = given;
    for layer in layers.into_iter().filter_map(|index| net.layers.get(index)) {
        let describe = || format!("{} \"{}\"", layer.layer.type_name(), layer.name);
        let tops = {
            let bottoms: Option<Vec<&Mat>> = layer.bottoms.iter().map(|blob| values.get(blob)).collect();
            let Some(bottoms) = bottoms else { invalid!("a bottom of {} is not given", describe()) };
            compute(&layer.layer, &bottoms, layer.tops.len()).map_err(|error| error.at_part(describe()))?
        };
        if tops.len() != layer.tops.len() {
            invalid!("{} computes {} tops in place of {}", describe(), tops.len(), layer.tops.len());
        }
        values.extend(layer.tops.iter().copied().zip(tops));
        for blob in &layer.bottoms {
            let left = readers.entry(*blob).or_default();
            *left = left.saturating_sub(1);
            if *left == 0 && !wanted.contains(blob) {
                values.remove(blob);
            }
        }
    }
    let take = |blob: &BlobId| match values.get(blob) {
        Some(value) => Ok(value.clone()),
        None => invalid!("blob \"{}\" is not given", net.blob(*blob).name),
    };
    wanted.iter().map(take).collect()
}

/// Returns the indices of the layers between given and wanted blobs, in the order of execution.
pub(crate) fn between(net: &Net, is_given: impl Fn(BlobId) -> bool, wanted: &[BlobId]) -> Vec<usize> {
    let mut needed: BTreeSet<BlobId> = wanted.iter().copied().filter(|blob| !is_given(*blob)).collect();
    let mut layers = Vec::new();
    for (index, layer) in net.layers.iter().enumerate().rev() {
        if layer.tops.iter().any(|top| needed.contains(top)) {
            layers.push(index);
            needed.extend(layer.bottoms.iter().filter(|blob| !is_given(**blob)));
        }
    }
    layers.reverse();
    layers
}
