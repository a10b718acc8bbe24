//! Layers that change the axes of a Mat and keep its elements.

use std::collections::BTreeSet;

use super::Mat;
use super::array::{axis, bottom, by_axis, shaped};
use super::expression::{axis_names, evaluate, size_of};
use crate::common::int::Int;
use crate::error::{Error, Result, invalid, unsupported};
use crate::ncnn::Layer;
use crate::ncnn::layer::{ExpandDims, Reshape, Squeeze};

/// The size of an absent axis in Reshape.
const ABSENT: i32 = -233;
/// The batch axis of a Mat without a batch.
const NO_BATCH: i32 = 233;

/// Computes a layer of this file.
pub(super) fn compute(layer: &Layer, bottoms: &[&Mat]) -> Result<Mat> {
    let mat = bottom(bottoms, 0)?;
    let sizes = match layer {
        Layer::ExpandDims(layer) => expanded(layer, mat.shape())?,
        Layer::Reshape(layer) => reshaped(layer, mat, bottoms)?,
        Layer::Squeeze(layer) => squeezed(layer, mat.shape())?,
        _ => unsupported!("{} does not reshape", layer.type_name()),
    };
    if sizes.is_empty() || sizes.len() > 4 {
        invalid!("a Mat of {} axes", sizes.len());
    }
    shaped(&sizes, mat.iter().copied().collect())
}

/// Returns the sizes that a Reshape states, outermost first.
fn reshaped(layer: &Reshape, mat: &Mat, bottoms: &[&Mat]) -> Result<Vec<usize>> {
    if layer.input_batch_axis != NO_BATCH || layer.output_batch_axis != NO_BATCH {
        unsupported!("a Reshape of a batch");
    }
    let mut sizes = if layer.shape_expr.is_empty() {
        let params = match (layer.w, layer.h, layer.c, layer.d) {
            (ABSENT, ..) => vec![],
            (w, ABSENT, ..) => vec![w],
            (w, h, ABSENT, _) => vec![h, w],
            (w, h, c, ABSENT) => vec![c, h, w],
            (w, h, c, d) => vec![c, d, h, w],
        };
        params.into_iter().map(i64::from).collect()
    } else {
        let mut sizes = evaluate(&layer.shape_expr, bottoms)?;
        sizes.reverse();
        sizes
    };
    let names = axis_names(sizes.len())?;
    for (size, name) in sizes.iter_mut().zip(names.chars()) {
        if *size == 0 {
            *size = size_of(mat, name)?.int();
        }
    }
    // The elements for each index of the axis whose size is not stated.
    let stated =
        sizes.iter().filter(|size| **size != -1).try_fold(1, |product: i64, size| product.checked_mul(*size));
    let rest = stated.and_then(|stated| mat.len().int().checked_div(stated));
    let mut unknown = sizes.iter_mut().filter(|size| **size == -1);
    if let (Some(size), Some(rest)) = (unknown.next(), rest) {
        *size = rest;
    }
    // A second size of -1 is negative.
    let fits = |size: &i64| usize::try_from(*size).map_err(|_| Error::invalid(format!("a size of {size}")));
    sizes.iter().map(fits).collect()
}

/// Returns the sizes without axes of size 1, if they are named; a single axis stays.
fn squeezed(layer: &Squeeze, sizes: &[usize]) -> Result<Vec<usize>> {
    let axes: BTreeSet<usize> = if layer.axes.is_empty() {
        let flags = [layer.squeeze_w, layer.squeeze_h, layer.squeeze_d, layer.squeeze_c];
        let flags = by_axis(sizes.len(), flags)?.into_iter().enumerate();
        flags.filter(|(_, flag)| *flag != 0).map(|(axis, _)| axis).collect()
    } else {
        layer.axes.iter().map(|param| axis(*param, sizes.len())).collect::<Result<_>>()?
    };
    let left = sizes.iter().enumerate().filter(|(axis, size)| **size != 1 || !axes.contains(axis));
    let left: Vec<usize> = left.map(|(_, size)| *size).collect();
    Ok(if left.is_empty() { vec![1] } else { left })
}

/// Returns the sizes with axes of size 1, which have these indices afterwards.
fn expanded(layer: &ExpandDims, sizes: &[usize]) -> Result<Vec<usize>> {
    let all = sizes.len() + layer.axes.len();
    let axes: BTreeSet<usize> = layer.axes.iter().map(|param| axis(*param, all)).collect::<Result<_>>()?;
    if axes.len() != layer.axes.len() {
        invalid!("axes {:?} are not different", layer.axes);
    }
    let mut sizes = sizes.to_vec();
    for axis in axes {
        sizes.insert(axis, 1);
    }
    Ok(sizes)
}
