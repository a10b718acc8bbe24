//! Gather at constant indices: slices, strides, repetitions and reversals of parts; or samples, or a product
//! with a matrix.

use num_traits::AsPrimitive;

use super::{Gathered, Lower};
use crate::common::int::Int;
use crate::common::limits;
use crate::error::{Result, invalid, unsupported};
use crate::ncnn::BlobId;
use crate::tensor::{Dim, Tensor, period, progression, repetition, segments};

/// The maximum number of parts of a blob; for more a matrix product is cheaper.
pub(crate) const MAX_PARTS: usize = 32;

impl Lower<'_> {
    /// Emits the elements at `indices` along an axis of known size.
    pub(super) fn gather(&self, blob: BlobId, axis: usize, indices: &[i64]) -> Result<BlobId> {
        let size = self.known_size(blob, axis)?.int();
        if let Some(outside) = indices.iter().find(|p| !(0..size).contains(*p)) {
            invalid!("index {outside} is out of range for {size} elements");
        }
        if indices.is_empty() {
            unsupported!("no element is selected, and a blob cannot be empty");
        }
        if indices.iter().copied().eq(0..size) {
            return Ok(blob);
        }
        let (blob, axis) = self.grouped(blob, axis)?;
        self.gather_grouped(blob, axis, indices)
    }

    fn gather_grouped(&self, blob: BlobId, axis: usize, indices: &[i64]) -> Result<BlobId> {
        if let Some((start, step)) = progression(indices) {
            return self.gather_progression(blob, axis, start, step, indices.len());
        }
        let period = period(indices);
        if let Some(once) = indices.get(..period)
            && period < indices.len()
        {
            let part = self.gather_grouped(blob, axis, once)?;
            return self.tile(part, axis, (indices.len() / period).int());
        }
        let times = repetition(indices);
        if times > 1 {
            let once: Vec<i64> = indices.iter().copied().step_by(times).collect();
            let part = self.gather_grouped(blob, axis, &once)?;
            return self.repeat_each(part, axis, times.int());
        }
        let segments = segments(indices);
        if segments.len() > MAX_PARTS {
            if let Some(sampled) = self.sample_constant(blob, axis, indices)? {
                return Ok(sampled);
            }
            let matrix = selection(indices, self.known_size(blob, axis)?)?;
            if !self.dtype(0)?.is_float() {
                return self.linear(blob, axis, &matrix);
            }
            let half = self.bounded_half(blob)?;
            let picked = self.linear(half, axis, &matrix)?;
            return self.compute(picked * 2.0);
        }
        let mut parts = Vec::with_capacity(segments.len());
        for segment in segments {
            parts.push(self.gather_grouped(blob, axis, segment)?);
        }
        self.concat(&parts, axis)
    }

    /// Emits the elements at `indices` by samples, if that takes less time than a product with a matrix.
    fn sample_constant(&self, blob: BlobId, axis: usize, indices: &[i64]) -> Result<Option<BlobId>> {
        let form = self.form(blob);
        let (size, count) = (Dim::from(self.known_size(blob, axis)?), Dim::from(indices.len()));
        let [outer, inner] = Dim::around(&form, axis);
        let gathered = Gathered::rows(outer, size, count.clone(), inner);
        if !gathered.is_exact() || gathered.time_at_constants() >= gathered.time_of_matrix() {
            return Ok(None);
        }
        self.compute_in_float32();
        let tensor = Tensor::from_f32(&[indices.len()], indices.iter().map(|index| index.as_()).collect())?;
        let tensor = self.memory_data(&tensor, std::slice::from_ref(&count))?;
        let top = self.sample(blob, tensor, &gathered)?;
        self.reshape(top, &self.resized(blob, axis, count)).map(Some)
    }

    fn gather_progression(
        &self,
        blob: BlobId,
        axis: usize,
        start: i64,
        step: i64,
        count: usize,
    ) -> Result<BlobId> {
        let span = count.int() - 1;
        if step == 0 {
            let one = self.cut(blob, axis, start, 1)?;
            return self.tile(one, axis, span + 1);
        }
        let lowest = start.min(start + span * step);
        let rising = match step.abs() {
            1 => self.cut(blob, axis, lowest, span + 1)?,
            stride => self.strided(blob, axis, lowest, stride, span + 1)?,
        };
        if step < 0 { self.reverse(rising, axis) } else { Ok(rising) }
    }

    /// Emits `count` elements from `start` on, of an axis of known size.
    pub(super) fn cut(&self, blob: BlobId, axis: usize, start: i64, count: i64) -> Result<BlobId> {
        if self.known_size(blob, axis)?.int() == count {
            return Ok(blob);
        }
        self.crop(blob, axis, start, Some(start + count), &Dim::Known(count))
    }

    /// Emits every `stride`th element: one column of the axis in rows of `stride`.
    fn strided(&self, blob: BlobId, axis: usize, start: i64, stride: i64, count: i64) -> Result<BlobId> {
        if count == 1 {
            return self.cut(blob, axis, start, 1);
        }
        let (size, whole) = (self.known_size(blob, axis)?.int(), count * stride);
        let column = (start + whole - size).max(0);
        if column > start.min(stride - 1) {
            // All but the last element are in complete rows; the last row may be incomplete.
            let most = self.strided(blob, axis, start, stride, count - 1)?;
            let last = self.cut(blob, axis, start + (count - 1) * stride, 1)?;
            return self.concat(&[most, last], axis);
        }
        let [outer, inner] = Dim::around(&self.form(blob), axis);
        let rows = self.cut(blob, axis, start - column, whole)?;
        let (rows, at) = self.three(rows, outer * count, Dim::Known(stride), inner)?;
        let kept = self.cut(rows, at, column, 1)?;
        self.reshape(kept, &self.resized(blob, axis, Dim::Known(count)))
    }
}

/// Returns the matrix of zeros and ones that selects `indices` of `size` elements.
fn selection(indices: &[i64], size: usize) -> Result<Tensor> {
    let rows = indices.len();
    if rows.saturating_mul(size) > limits::MATRIX_ELEMENTS {
        unsupported!("{rows} of {size} elements in an order that no layer of ncnn gives");
    }
    let columns: std::result::Result<Vec<usize>, _> = indices.iter().map(|p| usize::try_from(*p)).collect();
    let columns = columns?;
    Tensor::deferred(crate::tensor::DType::F32, vec![rows, size], Vec::new(), move |_| {
        let mut matrix = ndarray::Array2::zeros((columns.len(), size));
        for (row, column) in columns.iter().enumerate() {
            if let Some(cell) = matrix.get_mut((row, *column)) {
                *cell = 1.0;
            }
        }
        Ok(crate::tensor::Array::f32(matrix.into_dyn()))
    })
}
