//! Layers over Mats with a batch, which is the first axis of their elements here.

use std::collections::BTreeSet;

use ndarray::{ArrayViewD, Axis, stack};

use super::reshape::batch_axes;
use super::{Mat, compute};
use crate::error::{Result, invalid, unsupported};
use crate::ncnn::{BlobId, Layer, NetLayer};

/// Computes a layer, and adds its tops to the blobs with a batch if they have one.
///
/// # Errors
///
/// Those of [`compute`]; `Invalid` if the batches of the bottoms differ.
pub(super) fn compute_with_batch(
    layer: &NetLayer,
    bottoms: &[&Mat],
    batched: &mut BTreeSet<BlobId>,
) -> Result<Vec<Mat>> {
    let is_batched: Vec<bool> = layer.bottoms.iter().map(|blob| batched.contains(blob)).collect();
    let [from, to] = batch_axes(&layer.layer)?;
    if from.is_some() || to.is_some() {
        let [mat] = bottoms else { unsupported!("a Reshape of a batch by other bottoms") };
        if to.is_some() {
            batched.extend(&layer.tops);
        }
        return reshape(&layer.layer, mat, is_batched == [true], [from, to]).map(|top| vec![top]);
    }
    let mut pairs = bottoms.iter().zip(&is_batched);
    let Some((first, _)) = pairs.find(|(_, is_batched)| **is_batched) else {
        return compute(&layer.layer, bottoms, layer.tops.len());
    };
    batched.extend(&layer.tops);
    let mut tops: Vec<Vec<Mat>> = layer.tops.iter().map(|_| Vec::new()).collect();
    for index in 0..first.len_of(Axis(0)) {
        // A bottom without a batch is read by each element.
        let element = |(mat, is_batched): (&&Mat, &bool)| match is_batched {
            true if index < mat.len_of(Axis(0)) => Ok(mat.index_axis(Axis(0), index).to_owned()),
            true => invalid!("batches of {} and {}", first.len_of(Axis(0)), mat.len_of(Axis(0))),
            false => Ok((*mat).clone()),
        };
        let elements: Vec<Mat> = bottoms.iter().zip(&is_batched).map(element).collect::<Result<_>>()?;
        let elements: Vec<&Mat> = elements.iter().collect();
        for (top, computed) in tops.iter_mut().zip(compute(&layer.layer, &elements, layer.tops.len())?) {
            top.push(computed);
        }
    }
    let stacked = |top: &Vec<Mat>| {
        let views: Vec<ArrayViewD<'_, f64>> = top.iter().map(|mat| mat.view()).collect();
        Ok(stack(Axis(0), &views)?)
    };
    tops.iter().map(stacked).collect()
}

/// Computes a Reshape that makes the batch of its bottom an axis, or an axis the batch of its top.
fn reshape(layer: &Layer, mat: &Mat, is_batched: bool, [from, to]: [Option<usize>; 2]) -> Result<Mat> {
    let whole = match (from, is_batched) {
        (Some(axis), true) => with_axis_at(mat, 0, axis)?,
        (Some(axis), false) => with_axis_at(&mat.clone().insert_axis(Axis(0)), 0, axis)?,
        (None, false) => mat.clone(),
        (None, true) => unsupported!("a batch of a batch"),
    };
    let top = compute(layer, &[&whole], 1)?.into_iter().next();
    match (top, to) {
        (Some(top), Some(axis)) => with_axis_at(&top, axis, 0),
        (Some(top), None) => Ok(top),
        (None, _) => invalid!("a Reshape without a top"),
    }
}

/// Returns an array with an axis at another index.
fn with_axis_at(mat: &Mat, from: usize, to: usize) -> Result<Mat> {
    let mut order: Vec<usize> = (0..mat.ndim()).filter(|axis| *axis != from).collect();
    if from >= mat.ndim() || to > order.len() {
        invalid!("a batch along axis {} of {} axes", from.max(to), mat.ndim());
    }
    order.insert(to, from);
    Ok(mat.view().permuted_axes(order).as_standard_layout().into_owned())
}
