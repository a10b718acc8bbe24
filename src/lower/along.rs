//! Layers that move or mix the elements of a blob along one axis.

use super::form::{MAX_AXES, isolate, isolated_form};
use super::gather::MAX_PARTS;
use super::{Lower, extended, line_form};
use crate::common::int::Int;
use crate::error::{At, Error, Result, invalid};
use crate::ncnn::BlobId;
use crate::ncnn::layer::pad_mode::VALID;
use crate::ncnn::layer::{Concat, Crop, Flip, InnerProduct, MatMul, Pooling, Slice, Tile};
use crate::tensor::{Dim, SizeCondition, Tensor, display_shape};

/// ncnn's code for the end of an axis in Crop (`crop.cpp`, `resolve_crop_roi`).
pub(super) const OPEN_END: i32 = -233;

impl Lower<'_> {
    /// Returns the blob in a form in which `axis` of `shape`, the sizes of its elements, is an axis, and the
    /// position of that axis.
    pub(super) fn isolated(&self, blob: BlobId, shape: &[Dim], axis: usize) -> Result<(BlobId, usize)> {
        if let Some(found) = isolate(&self.form(blob), shape, &[axis]) {
            return Ok((blob, *found.at(0)?));
        }
        let (form, found) = isolated_form(shape, &[axis], |form| self.state().is_plain(blob, form));
        Ok((self.reshape(blob, &form)?, *found.at(0)?))
    }

    /// Merges the axes before and after the axis at `axis`, to at most three axes.
    pub(super) fn grouped(&self, blob: BlobId, axis: usize) -> Result<(BlobId, usize)> {
        let form = self.form(blob);
        let [outer, inner] = Dim::around(&form, axis);
        self.three(blob, outer, form.at(axis)?.clone(), inner)
    }

    /// Returns the blob in the form of these sizes, without a first or a last one that is 1, and the index of
    /// `axis` in it.
    pub(super) fn three(&self, blob: BlobId, outer: Dim, axis: Dim, inner: Dim) -> Result<(BlobId, usize)> {
        let index = usize::from(!outer.is(1));
        let mut form = vec![outer, axis, inner];
        if index == 0 {
            form.remove(0);
        }
        form.truncate(if form.last().is_some_and(|inner| inner.is(1)) { form.len() - 1 } else { MAX_AXES });
        Ok((self.reshape(blob, &form)?, index))
    }

    /// Returns the form of the blob with another size of an axis.
    pub(super) fn resized(&self, blob: BlobId, axis: usize, size: Dim) -> Vec<Dim> {
        let mut form = self.form(blob);
        form.put(axis, size);
        form
    }

    /// Returns the size of an axis; refuses a free one.
    pub(super) fn known_size(&self, blob: BlobId, axis: usize) -> Result<usize> {
        let form = self.form(blob);
        let size = form.at(axis)?;
        let known = size.known().ok_or_else(|| Error::unsupported(format!("an axis of free size {size}")))?;
        Ok(usize::try_from(known)?)
    }

    /// Emits the elements of an axis from `start` to `end`, or to the end of the axis; negative bounds count
    /// from the end. The result has `size` elements.
    pub(super) fn crop(
        &self,
        blob: BlobId,
        axis: usize,
        start: i64,
        end: Option<i64>,
        size: &Dim,
    ) -> Result<BlobId> {
        let (start, end) = (i32::try_from(start)?, end.map(i32::try_from).transpose()?);
        let axis_size = self.form(blob).at(axis)?.clone();
        let farthest = end.unwrap_or(0).unsigned_abs().max(start.unsigned_abs());
        self.require(SizeCondition::at_least(&axis_size, farthest.into()))?;
        if start == OPEN_END || end == Some(OPEN_END) {
            // Crop interprets this number as the whole axis.
            let mut first = Dim::Known(start.into());
            if start < 0 {
                first = (axis_size + &first).maximum(0);
            }
            return self.crop_by_expression(blob, axis, &first, size);
        }
        let form = self.resized(blob, axis, size.clone());
        let axes = vec![i32::try_from(axis)?];
        let ends = vec![end.unwrap_or(OPEN_END)];
        self.emit(Crop { starts: vec![start], ends, axes, ..Crop::default() }, &[blob], &form)
    }

    /// Emits every `step`th element of an axis from `start` on, `count` of them, by a pooling with windows of
    /// one element.
    pub(super) fn stride(
        &self,
        blob: BlobId,
        axis: usize,
        start: &Dim,
        step: i64,
        count: &Dim,
    ) -> Result<BlobId> {
        let form = self.form(blob);
        let size = form.at(axis)?;
        let to_the_end = (size - start).ceil_div(step) == *count;
        let mut blob = blob;
        if let Some(start) = start.known().filter(|_| to_the_end) {
            if start > 0 {
                let rest = size - start;
                blob = self.crop(blob, axis, start, None, &rest)?;
            }
        } else {
            let span = (count - 1) * step + 1;
            blob = self.crop_by_expression(blob, axis, start, &span)?;
        }
        let whole = self.resized(blob, axis, count.clone());
        // Height or width of three axes.
        let from_end = form.len() - 1 - axis;
        let mut plane = extended(&self.form(blob), 3);
        let (mut at, mut rows) = (plane.len() - 1 - from_end, from_end > 0);
        if form.len() > 3 || at == 0 {
            let form = self.form(blob);
            let [outer, inner] = Dim::around(&form, axis);
            (plane, at, rows) = (vec![outer, form.at(axis)?.clone(), inner], 1, true);
        }
        let blob = self.reshape(blob, &plane)?;
        let top = self.resized(blob, at, count.clone());
        let step = i32::try_from(step)?;
        let strides = if rows { (1, step) } else { (step, 1) };
        let layer = Pooling {
            kernel_w: 1,
            kernel_h: 1,
            stride_w: strides.0,
            stride_h: strides.1,
            pad_mode: VALID,
            ..Pooling::default()
        };
        let blob = self.emit(layer, &[blob], &top)?;
        self.reshape(blob, &whole)
    }

    /// Emits a blob of a value of shape `from`, broadcast to shape `to` of equal rank.
    pub(super) fn broadcast_to(&self, blob: BlobId, from: &[Dim], to: &[Dim]) -> Result<BlobId> {
        let (mut blob, mut shape) = (blob, from.to_vec());
        // Inner axes first: fewer elements are copied often.
        for axis in (0..to.len()).rev() {
            let (from, size) = (shape.at(axis)?.clone(), to.at(axis)?.clone());
            if from == size {
                continue;
            }
            let (isolated, blob_axis) = self.isolated(blob, &shape, axis)?;
            let times = size.exact_div(&from).and_then(|times| times.known());
            // A free size is 1 or matches: a product broadcasts it or keeps it.
            let is_open = from.known().is_none() && self.call.op_type() == "Expand";
            if from.is(1) && size.known().is_none() || times.is_none() && is_open {
                let ones = self.ones(&line_form(&size, blob_axis, self.form(isolated).len()))?;
                blob = self.compute(isolated * ones)?;
            } else {
                let times = times.ok_or_else(|| {
                    Error::unsupported(format!(
                        "shape {} broadcast to {}",
                        display_shape(&shape),
                        display_shape(to)
                    ))
                })?;
                blob = self.tile(isolated, blob_axis, times)?;
            }
            shape.put(axis, size);
        }
        Ok(blob)
    }

    /// Concatenates blobs that differ only along one axis.
    pub(super) fn concat(&self, blobs: &[BlobId], axis: usize) -> Result<BlobId> {
        if let [only] = blobs {
            return Ok(*only);
        }
        let first = *blobs.first().ok_or_else(|| Error::internal("nothing to concatenate"))?;
        let mut size = Dim::ZERO;
        for blob in blobs {
            size += self.form(*blob).at(axis)?;
        }
        let form = self.resized(first, axis, size);
        self.emit(Concat { axis: i32::try_from(axis)? }, blobs, &form)
    }

    /// Repeats an axis `times` times.
    pub(super) fn tile(&self, blob: BlobId, axis: usize, times: i64) -> Result<BlobId> {
        if times == 1 {
            return Ok(blob);
        }
        // Release 20240410 copies nothing along the second of four axes (`tile.cpp`).
        let (blob, axis) = if self.form(blob).len() > 3 { self.grouped(blob, axis)? } else { (blob, axis) };
        let size = self.form(blob).at(axis)? * times;
        let form = self.resized(blob, axis, size);
        let layer = Tile { axis: i32::try_from(axis)?, tiles: i32::try_from(times)?, ..Tile::default() };
        self.emit(layer, &[blob], &form)
    }

    /// Repeats each element of an axis `times` times.
    pub(super) fn repeat_each(&self, blob: BlobId, axis: usize, times: i64) -> Result<BlobId> {
        let form = self.form(blob);
        let outer = Dim::product(form.iter().take(axis + 1));
        let inner = Dim::product(form.iter().skip(axis + 1));
        let (each, unit) = self.three(blob, outer, Dim::ONE, inner)?;
        let tiled = self.tile(each, unit, times)?;
        let size = form.at(axis)? * times;
        self.reshape(tiled, &self.resized(blob, axis, size))
    }

    /// Reverses an axis; its size must be known unless the release has Flip.
    pub(super) fn reverse(&self, blob: BlobId, axis: usize) -> Result<BlobId> {
        let flip = Flip { axes: vec![i32::try_from(axis)?] };
        if self.form(blob).at(axis)?.known().is_none() {
            self.state_mut().allow(&flip.clone().into());
        }
        if flip.since() <= self.release() {
            return self.map(flip, blob);
        }
        let size = self.known_size(blob, axis)?;
        if size <= MAX_PARTS {
            let form = self.resized(blob, axis, Dim::ONE);
            if size == 1 {
                return Ok(blob);
            }
            let layer = Slice { slices: vec![1; size], axis: i32::try_from(axis)?, ..Slice::default() };
            let mut parts = self.emit_n(layer, &[blob], &vec![form; size])?;
            parts.reverse();
            return self.concat(&parts, axis);
        }
        let whole = self.form(blob);
        if let Some(columns) = (2..=MAX_PARTS).rev().find(|n| size.is_multiple_of(*n)) {
            // Reversed rows of reversed elements.
            let (rows, columns) = (Dim::from(size / columns), Dim::from(columns));
            let [outer, inner] = Dim::around(&whole, axis);
            let (within, at) = self.three(blob, &outer * &rows, columns.clone(), inner.clone())?;
            let within = self.reverse(within, at)?;
            let (across, at) = self.three(within, outer, rows, columns * &inner)?;
            let across = self.reverse(across, at)?;
            return self.reshape(across, &whole);
        }
        let size = size.int();
        let last = self.cut(blob, axis, size - 1, 1)?;
        let rest = self.cut(blob, axis, 0, size - 1)?;
        let rest = self.reverse(rest, axis)?;
        self.concat(&[last, rest], axis)
    }

    /// Emits a linear map of an axis: each element of the result is a sum of the elements of the axis,
    /// weighted by a row of `matrix`. With a weight of 0, an infinite or NaN element makes all results along
    /// the axis NaN.
    pub(super) fn linear(&self, blob: BlobId, axis: usize, matrix: &Tensor) -> Result<BlobId> {
        let [rows, columns] = *matrix.shape() else {
            invalid!("the matrix has {} axes", matrix.shape().len())
        };
        if self.known_size(blob, axis)? != columns {
            invalid!("the matrix has {columns} columns for an axis of {}", self.known_size(blob, axis)?);
        }
        let top = self.resized(blob, axis, Dim::from(rows));
        let (blob, at) = self.grouped(blob, axis)?;
        let form = self.resized(blob, at, Dim::from(rows));
        let mapped = if at + 1 == form.len() {
            let layer = InnerProduct {
                num_output: i32::try_from(rows)?,
                weight_data: Some(matrix.clone()),
                ..InnerProduct::default()
            };
            self.emit(layer, &[blob], &form)?
        } else {
            let weights = self.memory_data(matrix, &[Dim::from(rows), Dim::from(columns)])?;
            self.emit(MatMul::default(), &[weights, blob], &form)?
        };
        self.reshape(mapped, &top)
    }
}
