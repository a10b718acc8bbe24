//! Resize of free sizes by 1/2, 1/4, 1/8 or 1/16.
//!
//! Interp is not used: for sizes that are not multiples it scales by the quotient of the sizes instead. Each
//! output element reads the same elements of its block for every size.

use num_traits::AsPrimitive;

use super::axis::onnx_map;
use super::lower::is_plane;
use super::node::{AxisResize, Resize};
use crate::ncnn::layer::Pooling;
use crate::ncnn::layer::pad_mode::VALID;
use crate::ncnn::layer::pooling_type::AVERAGE;
use crate::ops::prelude::*;

/// The sizes of blocks. Coordinates scaled by powers of two are exact.
const BLOCKS: [i64; 4] = [2, 4, 8, 16];
/// The sizes for which weights are compared: the number of blocks, and of remaining elements.
const TRIED: [(i64, i64); 6] = [(40, 1), (9, 1), (5, 0), (2, 1), (1, 0), (1, 1)];

/// The elements of a block with a weight other than 0, and their weights.
#[derive(Clone, Debug, PartialEq)]
struct Block {
    size: i64,
    weights: Vec<(i64, f32)>,
    /// Whether a single block has these weights, too.
    may_be_single: bool,
}

/// Emits the Resize if every changed axis is reduced by blocks.
pub(super) fn shrink(
    lower: &mut Lower,
    resize: &Resize,
    shape: &[Dim],
    changed: &[AxisResize],
) -> Result<Option<BlobId>> {
    let mut blocks = Vec::with_capacity(changed.len());
    for axis in changed {
        match block(resize, axis, shape.at(axis.axis)?)? {
            Some(block) => blocks.push(block),
            None => return Ok(None),
        }
    }
    for (axis, _) in changed.iter().zip(&blocks).filter(|(_, block)| !block.may_be_single) {
        lower.require(SizeCondition::at_least(&axis.output, 2))?;
    }
    if let ([height, width], [a, b]) = (changed, blocks.as_slice())
        && is_plane(shape, height.axis, width.axis)
        && [a, b].into_iter().all(|block| block.weights == [(0, 0.5), (1, 0.5)])
    {
        return average(lower, shape, height, width).map(Some);
    }
    let mut shape = shape.to_vec();
    let mut blob = lower.blob(0)?;
    for (axis, block) in changed.iter().zip(&blocks) {
        blob = shrink_axis(lower, blob, &shape, axis, block)?;
        shape.put(axis.axis, axis.output.clone());
    }
    Ok(Some(blob))
}

/// Returns the block of each output element, if all blocks have the same weights, but for those of results of one
/// element.
fn block(resize: &Resize, axis: &AxisResize, input: &Dim) -> Result<Option<Block>> {
    let is_scale = |size: &i64| {
        let size: f32 = size.as_();
        axis.scale == Some(1.0 / size)
    };
    let Some(size) = BLOCKS.into_iter().find(is_scale) else { return Ok(None) };
    if axis.output != input.floor_div(&Dim::Known(size))? {
        return Ok(None);
    }
    let mut common: Option<Vec<(i64, f32)>> = None;
    let mut may_be_single = true;
    for (count, rest) in TRIED {
        let tried = AxisResize { output: Dim::Known(count), ..axis.clone() };
        let map = onnx_map(&resize.filter, &tried, count * size + rest)?;
        if map.outside.contains(&true) {
            return Ok(None);
        }
        for (row, start) in map.rows.iter().zip((0..).step_by(usize::try_from(size)?)) {
            let mut weights = Vec::with_capacity(row.len());
            for (index, weight) in row.iter().filter(|(_, weight)| *weight != 0.0) {
                weights.push((i64::try_from(*index)? - start, *weight));
            }
            let within = weights.iter().all(|(index, _)| (0..size).contains(index));
            let differs = *common.get_or_insert_with(|| weights.clone()) != weights;
            may_be_single &= count > 1 || !differs;
            if !within || differs && count > 1 {
                return Ok(None);
            }
        }
    }
    Ok(common.map(|weights| Block { size, weights, may_be_single }))
}

/// Emits the mean of each block of 2 x 2 elements.
fn average(lower: &mut Lower, shape: &[Dim], height: &AxisResize, width: &AxisResize) -> Result<BlobId> {
    let outer = Dim::product(shape.iter().take(height.axis))?;
    let form = [outer.clone(), shape.at(height.axis)?.clone(), shape.at(width.axis)?.clone()];
    let x = lower.blob_as(0, &form)?;
    let layer = Pooling {
        pooling_type: AVERAGE,
        kernel_w: 2,
        kernel_h: 2,
        stride_w: 2,
        stride_h: 2,
        pad_mode: VALID,
        ..Pooling::default()
    };
    lower.emit(layer, &[x], &[outer, height.output.clone(), width.output.clone()])
}

/// Emits the weighted sum of each block along one axis, one element of the block after the other.
fn shrink_axis(
    lower: &mut Lower,
    x: BlobId,
    shape: &[Dim],
    axis: &AxisResize,
    block: &Block,
) -> Result<BlobId> {
    let (x, at) = lower.alone(x, shape, axis.axis)?;
    let size = shape.at(axis.axis)?;
    let mut sum = None;
    for (index, weight) in &block.weights {
        // Elements after the last whole block are not read.
        let after = block.size - 1 - index;
        let end = (after != 0).then_some(-after);
        let rest = size.sub(&Dim::Known(block.size - 1))?;
        let own = lower.crop(x, at, *index, end, &rest)?;
        let mut own = lower.stride(own, at, &Dim::Known(0), block.size, &axis.output)?;
        if *weight != 1.0 {
            own = lower.compute(own * *weight)?;
        }
        sum = Some(match sum {
            Some(sum) => lower.compute(sum + own)?,
            None => own,
        });
    }
    sum.ok_or_else(|| crate::error::Error::internal("a block has no elements"))
}
