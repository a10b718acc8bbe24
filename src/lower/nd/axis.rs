//! The elements of one axis: some of them, in another order, or several times.

use super::Nd;
use crate::error::{At, Result};
use crate::lower::Lower;
use crate::lower::along::OPEN_END;
use crate::lower::form::{extended, line_form};
use crate::ncnn::BlobId;
use crate::ncnn::layer::Slice;
use crate::op::{index_from_front, resolve_index};
use crate::tensor::{Dim, Shape, Span, from_either_end};

/// The size by which ncnn's Slice takes an equal part of the rest (`slice.cpp`).
const EQUAL_PART: i32 = -233;

impl<'l> Nd<'l> {
    /// Returns a value that differs along one axis: `emit` gets a blob in whose form that is an axis, the
    /// position of the axis, and the new size.
    pub(super) fn along(
        self,
        axis: usize,
        size: impl Into<Dim>,
        emit: impl FnOnce(&'l Lower<'l>, BlobId, usize, &Dim) -> Result<BlobId>,
    ) -> Nd<'l> {
        let (mut shape, size) = (self.shape().to_vec(), size.into());
        shape.put(axis, size.clone());
        self.map_blob(shape, |lower| {
            let (isolated, blob_axis) = self.isolated_axis(axis)?;
            emit(lower, isolated, blob_axis, &size)
        })
    }

    /// Returns the elements of a span of an axis.
    pub fn take(self, axis: usize, span: &Span) -> Nd<'l> {
        let size = self.size(axis);
        if span.is_whole(&size) {
            return self;
        }
        if span.step == 1 && bounds_of_crop(&size, span).is_some() {
            return self.along(axis, &span.count, |lower, x, blob_axis, count| {
                let size = &lower.form(x).at(blob_axis)?.clone();
                match bounds_of_crop(size, span) {
                    Some((start, end)) => lower.crop(x, blob_axis, start, end, count),
                    None => lower.crop_by_expression(x, blob_axis, &span.start, count),
                }
            });
        }
        // An element of a free axis is picked as a span.
        match span.indices() {
            Ok(indices) if span.step != 1 || size.known().is_some() => self.pick(axis, &indices),
            Err(_) if span.step < 0 => self.reverse(axis).take(axis, &span.of_reversed(&size)),
            _ => self.along(axis, &span.count, |lower, x, blob_axis, count| match span.step {
                1 => lower.crop_by_expression(x, blob_axis, &span.start, count),
                step => lower.stride(x, blob_axis, &span.start, step, count),
            }),
        }
    }

    /// Returns `count` elements of an axis, from `start` on.
    pub fn slice(self, axis: usize, start: impl Into<Dim>, count: impl Into<Dim>) -> Nd<'l> {
        self.take(axis, &Span::of(start, count))
    }

    /// Returns the first elements of an axis.
    pub fn first(self, axis: usize, count: impl Into<Dim>) -> Nd<'l> {
        self.slice(axis, 0, count)
    }

    /// Returns the last elements of an axis.
    pub fn last(self, axis: usize, count: impl Into<Dim>) -> Nd<'l> {
        let count = count.into();
        self.slice(axis, self.size(axis) - &count, count)
    }

    /// Returns the elements of an axis at these indices. Negative ones count from the end.
    pub fn pick(self, axis: usize, indices: &[i64]) -> Nd<'l> {
        let size = self.size(axis);
        let Some(known) = size.known() else {
            if let [only] = indices {
                return self.slice(axis, index_from_front(*only, &size), 1);
            }
            let near = match ends(indices) {
                [front, 0] => self.first(axis, front),
                [0, back] => self.last(axis, back),
                [front, back] => self.first(axis, front).join(self.last(axis, back), axis),
            };
            // The size is still free if cutting failed.
            return if near.size(axis).known().is_some() { near.pick(axis, indices) } else { near };
        };
        self.along(axis, indices.len(), |lower, x, blob_axis, _| {
            let resolved: Result<Vec<i64>> =
                indices.iter().map(|index| resolve_index(*index, known)).collect();
            lower.gather(x, blob_axis, &resolved?)
        })
    }

    /// Returns the elements of an axis in reverse order.
    pub fn reverse(self, axis: usize) -> Nd<'l> {
        self.along(axis, self.size(axis), |lower, x, blob_axis, _| lower.reverse(x, blob_axis))
    }

    /// Returns the only element of an axis `count` times.
    pub fn repeat(self, axis: usize, count: impl Into<Dim>) -> Nd<'l> {
        self.along(axis, count, |lower, x, blob_axis, count| {
            let ones = lower.ones(&line_form(count, blob_axis, lower.form(x).len()))?;
            lower.compute(x * ones)
        })
    }

    /// Returns a number as each element of the shape with another size of an axis; the number may be
    /// infinite.
    pub fn filled(self, axis: usize, count: impl Into<Dim>, number: f32) -> Nd<'l> {
        self.along(axis, count, |lower, x, blob_axis, count| {
            let ones = lower.ones(&lower.resized(x, blob_axis, count.clone()))?;
            lower.scaled(ones, number)
        })
    }

    /// Returns the elements repeated along axes to these sizes.
    pub fn broadcast(self, shape: &[Dim]) -> Nd<'l> {
        self.map_blob(shape, |lower| {
            lower.broadcast_to(self.blob()?, &extended(&self.shape(), shape.len()), shape)
        })
    }

    /// Returns the elements repeated along axes to these sizes, by products with 1: adjacent axes at once.
    pub fn stretch(self, shape: &[Dim]) -> Nd<'l> {
        self.map_blob(shape, |lower| {
            lower.multiply_to(self.blob()?, &extended(&self.shape(), shape.len()), shape)
        })
    }

    /// Returns the value with its axes in another order.
    pub fn transpose(self, perm: &[usize]) -> Nd<'l> {
        let shape = self.shape();
        let moved: Shape = perm.iter().filter_map(|axis| shape.get(*axis).cloned()).collect();
        if perm.iter().filter(|axis| !self.size(**axis).is(1)).is_sorted() {
            return self.reshape(moved);
        }
        self.map_blob(moved, |lower| lower.transpose(self.blob()?, &shape, perm))
    }

    /// Returns the parts of an axis of these sizes, by one layer if the sizes permit it. Those without
    /// elements are the value itself: no blob is empty.
    pub fn split(self, axis: usize, sizes: &[Dim]) -> Vec<Nd<'l>> {
        let parts: Vec<&Dim> = sizes.iter().filter(|size| !size.is(0)).collect();
        let slices: Option<Vec<i32>> = (parts.iter().enumerate())
            .map(|(at, size)| match size.known() {
                Some(n) => i32::try_from(n).ok(),
                None => parts.iter().skip(at).all(|other| other == size).then_some(EQUAL_PART),
            })
            .collect();
        let mut start = Dim::ZERO;
        let spans = sizes.iter().map(|size| {
            start += size;
            Span::of(&start - size, size)
        });
        let (Some(slices), 2..) = (slices, parts.len()) else {
            return spans.map(|span| if span.count.is(0) { self } else { self.take(axis, &span) }).collect();
        };
        let tops = self.lower.run(|| {
            let (x, blob_axis) = self.isolated_axis(axis)?;
            let forms: Vec<_> =
                parts.iter().map(|size| self.lower.resized(x, blob_axis, (*size).clone())).collect();
            let layer = Slice { slices, axis: i32::try_from(blob_axis)?, ..Slice::default() };
            self.lower.emit_n(layer, &[x], &forms)
        });
        let mut tops = tops.unwrap_or_default().into_iter();
        let part = |size: &Dim| {
            let mut shape = self.shape().to_vec();
            shape.put(axis, size.clone());
            let top = if size.is(0) { None } else { tops.next() };
            top.map_or(self, |top| self.lower.nd(top, shape))
        };
        sizes.iter().map(part).collect()
    }
}

/// Returns the numbers of elements at the front and at the back of an axis that indices address.
pub(crate) fn ends(indices: &[i64]) -> [i64; 2] {
    let front = indices.iter().map(|index| index.saturating_add(1)).max().unwrap_or(0).max(0);
    let back = indices.iter().map(|index| index.saturating_neg()).max().unwrap_or(0).max(0);
    [front, back]
}

/// Returns a bound of an axis of `size` as Crop counts it: from the front, or negative from the end.
fn from_end(bound: &Dim, size: &Dim) -> Option<i64> {
    from_either_end(bound, size).filter(|n| *n != i64::from(OPEN_END))
}

/// Returns start and end for Crop of an axis of `size`; `None` if they need expressions.
fn bounds_of_crop(size: &Dim, span: &Span) -> Option<(i64, Option<i64>)> {
    let (start, end) = (from_end(&span.start, size)?, span.end());
    Some((start, if end == *size { None } else { Some(from_end(&end, size)?) }))
}
