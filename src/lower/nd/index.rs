//! Indices computed at run time.

use super::Nd;
use crate::lower::form::line_form;
use crate::lower::{Formula, Gathered, Lower, Operand};
use crate::ncnn::BlobId;
use crate::tensor::{Dim, Shape};

impl<'l> Lower<'l> {
    /// Returns a size as a single element.
    pub fn scalar(&'l self, size: &Dim) -> Nd<'l> {
        self.made([Dim::ONE], |_| self.materialize(std::slice::from_ref(size)))
    }

    /// Returns the indices along one of `rank` axes; the other axes have size 1.
    pub fn indices_along(&'l self, size: &Dim, axis: usize, rank: usize) -> Nd<'l> {
        self.made(line_form(size, axis, rank), |form| self.positions_along(size, form))
    }
}

impl<'l> Nd<'l> {
    /// Returns indices of an axis of this size, with negative ones counted from its front.
    pub fn counted_from_front(self, size: &Dim) -> Nd<'l> {
        match size.known() {
            Some(size) => self.map_blob(self.shape(), |lower| lower.counted_from_front(self.blob()?, size)),
            None => self + self.compute(|x| x.less(0.0)) * self.lower.scalar(size),
        }
    }

    /// Returns a formula of each element and of each index along an axis of `size`, to which an axis of size
    /// 1 is broadcast.
    pub fn compute_along(
        self,
        axis: usize,
        size: &Dim,
        formula: impl FnOnce(BlobId, BlobId) -> Formula,
    ) -> Nd<'l> {
        self.along(axis, size, |lower, x, blob_axis, size| {
            let indices = lower.positions_along(size, &line_form(size, blob_axis, lower.form(x).len()))?;
            lower.compute(formula(x, indices))
        })
    }

    /// Returns 1 at each index along an axis of `size`, otherwise 0; the indices are integers, one along that
    /// axis.
    pub fn hits_along(self, axis: usize, size: &Dim) -> Nd<'l> {
        self.compute_along(axis, size, |x, index| (x - index).equals_zero())
    }

    /// Returns a matrix with a row for each of the indices of an axis of `size`: 1 at the index, otherwise 0.
    pub fn one_hot(self, size: i64) -> Nd<'l> {
        let count = Dim::product(&self.shape());
        self.map_blob([count, Dim::Known(size)], |lower| lower.one_hot(self.blob()?, size))
    }

    /// Returns the elements at indices computed at run time, by samples.
    pub fn sample(self, indices: Nd<'l>, gathered: &Gathered, shape: impl Into<Shape>) -> Nd<'l> {
        self.map_blob(shape, |lower| {
            let indices = indices.blob()?;
            lower.sample(self.blob()?, indices, gathered)
        })
    }

    /// Returns the value through a Reshape if it is an input of the net, see [`Lower::known_layout`].
    pub fn in_known_layout(self) -> Nd<'l> {
        self.map_blob(self.shape(), |lower| lower.known_layout(self.blob()?))
    }

    /// Returns half of the elements, with infinities bounded, see [`Lower::bounded_half`].
    pub fn bounded_half(self) -> Nd<'l> {
        self.map_blob(self.shape(), |lower| lower.bounded_half(self.blob()?))
    }
}
