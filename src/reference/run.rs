//! Parts of nets, computed from some of their blobs.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use num_traits::AsPrimitive;

use super::{Mat, compute};
use crate::common::index::IndexMap;
use crate::error::{Result, invalid};
use crate::ncnn::{BlobId, Layer, Net};

/// What becomes of the elements of each blob.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Precision {
    /// They are kept in float64.
    Double,
    /// They are rounded to float32, as in the runtime: layers may round numbers by adding large ones.
    Single,
}

/// Computes blobs of a net from the blobs `inputs`. Only the layers between them are computed.
///
/// # Errors
///
/// `Invalid` if a wanted blob depends on an input that is absent, or if a layer does not fit its bottoms;
/// `Unsupported` if a layer has no reference.
pub fn run(net: &Net, inputs: BTreeMap<BlobId, Mat>, wanted: &[BlobId]) -> Result<Vec<Mat>> {
    let layers = between(net, &producers(net), |blob| inputs.contains_key(&blob), wanted);
    run_layers(net, &layers, inputs, wanted, Precision::Double)
}

/// Computes blobs by the layers with these indices, which are those [`between`] inputs and wanted blobs.
///
/// # Errors
///
/// As [`run`].
pub(crate) fn run_layers(
    net: &Net,
    layers: &[usize],
    inputs: BTreeMap<BlobId, Mat>,
    wanted: &[BlobId],
    precision: Precision,
) -> Result<Vec<Mat>> {
    let layers = || layers.iter().filter_map(|index| net.layers.get(*index));
    let mut readers: BTreeMap<BlobId, usize> = BTreeMap::new();
    for blob in layers().flat_map(|layer| &layer.bottoms) {
        *readers.entry(*blob).or_default() += 1;
    }
    let mut values: BTreeMap<BlobId, Arc<Mat>> =
        inputs.into_iter().map(|(blob, mat)| (blob, Arc::new(mat))).collect();
    // The blobs whose elements are int8: layers do not round them again.
    let mut int8: BTreeSet<BlobId> = BTreeSet::new();
    for layer in layers() {
        let describe = || format!("{} \"{}\"", layer.layer.type_name(), layer.name);
        let mut tops: Vec<Arc<Mat>> = {
            let bottoms: Option<Vec<&Arc<Mat>>> = layer.bottoms.iter().map(|blob| values.get(blob)).collect();
            let Some(bottoms) = bottoms else { invalid!("a bottom of {} is absent", describe()) };
            let is_int8 = layer.bottoms.first().is_some_and(|blob| int8.contains(blob));
            let scale = scale_of(&layer.layer, "bottom_blob_int8_scales")?.filter(|_| is_int8);
            if scale_of(&layer.layer, "top_blob_int8_scales")?.is_some() || (is_int8 && scale.is_none()) {
                int8.extend(&layer.tops);
            }
            match (&layer.layer, &bottoms[..]) {
                // A weight that many layers read is in memory once.
                (Layer::Split(_), [blob]) => vec![Arc::clone(blob); layer.tops.len()],
                _ => {
                    let numbers = bottoms.first().zip(scale).map(|(blob, scale)| &***blob / scale);
                    let mut bottoms: Vec<&Mat> = bottoms.into_iter().map(|blob| &**blob).collect();
                    if let (Some(numbers), Some(first)) = (&numbers, bottoms.first_mut()) {
                        *first = numbers;
                    }
                    let tops = compute(&layer.layer, &bottoms, layer.tops.len());
                    tops.map_err(|error| error.at_part(describe()))?.into_iter().map(Arc::new).collect()
                }
            }
        };
        if tops.len() != layer.tops.len() {
            invalid!("{} computes {} tops instead of {}", describe(), tops.len(), layer.tops.len());
        }
        if precision == Precision::Single {
            let round = |x: f64| f64::from(AsPrimitive::<f32>::as_(x));
            // The tops of Split are its bottom, which is rounded already, or an input.
            tops.iter_mut().filter_map(Arc::get_mut).for_each(|top| top.mapv_inplace(round));
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
        Some(value) => Ok(Mat::clone(value)),
        None => invalid!("blob \"{}\" is absent", net.blob(*blob).name),
    };
    wanted.iter().map(take).collect()
}

/// Returns the scale of int8 in a weight of a layer, if it has that weight.
fn scale_of(layer: &Layer, weight: &str) -> Result<Option<f64>> {
    let weights = layer.weights();
    let found = weights.iter().find(|found| found.name == weight);
    Ok(found.map(|found| found.tensor.load()).transpose()?.and_then(|array| array.number_at(0)))
}

/// Returns the index of the layer that computes each blob.
pub(crate) fn producers(net: &Net) -> IndexMap<BlobId, usize> {
    let tops = net
        .layers
        .iter()
        .enumerate()
        .flat_map(|(index, layer)| layer.tops.iter().map(move |top| (*top, index)));
    tops.collect()
}

/// Returns the indices of the layers between inputs and wanted blobs, in the order of execution.
pub(crate) fn between(
    net: &Net,
    producers: &IndexMap<BlobId, usize>,
    is_input: impl Fn(BlobId) -> bool,
    wanted: &[BlobId],
) -> Vec<usize> {
    let (mut layers, mut left) = (BTreeSet::new(), wanted.to_vec());
    while let Some(blob) = left.pop() {
        let producer = producers.get(blob).filter(|_| !is_input(blob));
        if let Some(index) = producer.copied()
            && layers.insert(index)
        {
            left.extend(net.layers.get(index).into_iter().flat_map(|layer| &layer.bottoms));
        }
    }
    layers.into_iter().collect()
}
