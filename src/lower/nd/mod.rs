//! Blobs with the axes of ONNX, as operands of expressions.
//!
//! A family says what is computed along which axis: `x.first(2, n - 1).join(x.reverse(2), 2)`. In which form
//! a blob contains the elements, where an axis lies in that form, whether a size is known or free, and which
//! layer has these bounds, is decided here. The first error sticks, as in `pass/builder/`: what is emitted
//! after it is never used.

mod axis;
mod form;
mod index;
mod interp;
mod join;
mod layer;
mod pad;
mod reduce;

use super::Lower;
use super::form::{MAX_AXES, interface_form, isolate, isolated_form, same_elements};
use super::state::mismatch;
use crate::error::{At, Error, Result};
use crate::ncnn::BlobId;
use crate::tensor::{Dim, Shape};

pub(crate) use axis::ends;

/// Elements of a lowering in the order of a shape of any rank.
#[derive(Clone, Copy)]
pub(crate) struct Nd<'l> {
    lower: &'l Lower<'l>,
    source: Source,
    /// The index of the shape.
    shape: usize,
}

/// Where the elements are.
#[derive(Clone, Copy)]
enum Source {
    /// In the blobs of an input, each in another form. It has none if it has no elements.
    Input(usize),
    Blob(BlobId),
    /// In a constant, by its index.
    Tensor(usize),
    /// Nowhere, after an error.
    Nothing,
}

impl<'l> Lower<'l> {
    /// Returns input `index`.
    pub fn input(&'l self, index: usize) -> Nd<'l> {
        match self.run(|| self.call.shape(index)) {
            Some(shape) => self.elements(Source::Input(index), shape),
            None => self.nothing(),
        }
    }

    /// Returns a blob whose elements have this shape.
    pub fn nd(&'l self, blob: BlobId, shape: impl Into<Shape>) -> Nd<'l> {
        self.elements(Source::Blob(blob), shape)
    }

    fn elements(&'l self, source: Source, shape: impl Into<Shape>) -> Nd<'l> {
        let mut shapes = self.shapes.borrow_mut();
        shapes.push(shape.into());
        Nd { lower: self, source, shape: shapes.len() - 1 }
    }

    /// Makes `x` output `index`, if the node has that output.
    ///
    /// # Errors
    ///
    /// The first error of an expression.
    pub fn give(&self, index: usize, x: Nd) -> Result<()> {
        self.check()?;
        match x.source {
            Source::Input(input) => {
                self.blob(input)?;
                self.alias(index, self.input_id(input)?)
            }
            _ => self.set(index, x.blob()?),
        }
    }

    /// Returns the first error of an expression.
    pub(super) fn check(&self) -> Result<()> {
        self.failed.borrow_mut().take().map_or(Ok(()), Err)
    }

    /// Emits layers, unless there was an error before.
    fn run<T>(&self, emit: impl FnOnce() -> Result<T>) -> Option<T> {
        if self.failed.borrow().is_some() {
            return None;
        }
        emit().map_err(|error| *self.failed.borrow_mut() = Some(error)).ok()
    }

    /// Records an error, and returns a substitute for the missing value.
    pub fn fail(&'l self, error: Error) -> Nd<'l> {
        self.failed.borrow_mut().get_or_insert(error);
        self.nothing()
    }

    fn nothing(&'l self) -> Nd<'l> {
        self.elements(Source::Nothing, Shape::default())
    }
}

impl<'l> Nd<'l> {
    pub fn shape(self) -> Shape {
        self.lower.shapes.borrow().get(self.shape).cloned().unwrap_or_default()
    }

    /// Returns the size of an axis.
    pub fn size(self, axis: usize) -> Dim {
        self.shape().get(axis).cloned().unwrap_or(Dim::ONE)
    }

    /// Returns the same elements in another shape, without a layer.
    pub fn reshape(self, shape: impl Into<Shape>) -> Nd<'l> {
        let shape = shape.into();
        let checked = self.lower.run(|| match same_elements(&self.shape(), &shape)? {
            true => Ok(()),
            false => Err(mismatch("a value", &self.shape(), "taken as", &shape)),
        });
        match checked {
            Some(()) => self.lower.elements(self.source, shape),
            None => self,
        }
    }

    /// Returns the elements in a shape that has as many of them only under a condition on free sizes.
    pub fn view(self, shape: impl Into<Shape>) -> Nd<'l> {
        let shape = shape.into();
        if self.lower.run(|| same_elements(&self.shape(), &shape)) != Some(false) {
            return self.reshape(shape);
        }
        let form = interface_form(&shape);
        self.map_blob(shape, |lower| {
            let blob = self.blob()?;
            let (layer, bottoms) = lower.state().reshape_layer_of(blob, &form)?;
            lower.emit_newer(layer, &bottoms, &form)
        })
    }

    /// Returns what `emit` makes of the blob and the shape; the value itself after an error.
    fn map_blob(self, shape: impl Into<Shape>, emit: impl FnOnce(&'l Lower<'l>) -> Result<BlobId>) -> Nd<'l> {
        match self.lower.run(|| emit(self.lower)) {
            Some(blob) => self.lower.nd(blob, shape),
            None => self,
        }
    }

    /// Returns a blob with the elements.
    fn blob(self) -> Result<BlobId> {
        match self.source {
            Source::Input(index) => self.lower.blob(index),
            Source::Blob(blob) => Ok(blob),
            Source::Tensor(_) => self.in_form(&interface_form(&self.shape())),
            Source::Nothing => Err(Error::internal("a value after an error")),
        }
    }

    /// Returns the blobs with the elements.
    fn blobs(self) -> Result<Vec<BlobId>> {
        let first = self.blob()?;
        let Source::Input(index) = self.source else { return Ok(vec![first]) };
        let forms = self.lower.state().forms.get(self.lower.input_id(index)?).cloned();
        Ok(std::iter::once(first).chain(forms.into_iter().flatten()).collect())
    }

    /// Returns the forms of the blobs with the elements.
    fn forms(self) -> Result<Vec<Vec<Dim>>> {
        if let Source::Tensor(_) = self.source {
            return Ok(Vec::new());
        }
        Ok(self.blobs()?.into_iter().map(|blob| self.lower.form(blob)).collect())
    }

    /// Returns whether the value is a constant, which is stored in any form.
    fn is_constant(self) -> bool {
        match self.source {
            Source::Input(index) => self.lower.call.constant(index).is_some(),
            Source::Tensor(_) => true,
            Source::Blob(_) | Source::Nothing => false,
        }
    }

    /// Returns a blob in a form: a shape of at most four axes with the same elements.
    fn in_form(self, form: &[Dim]) -> Result<BlobId> {
        match self.source {
            Source::Input(index) => self.lower.blob_as(index, form),
            Source::Tensor(index) => self.lower.tensor_as(index, form),
            _ => self.lower.reshape(self.blob()?, form),
        }
    }

    /// Returns a blob in a form in which each of these axes is one, and the positions of the axes; `None` if
    /// that takes more than four axes.
    fn isolated_axes(self, axes: &[usize]) -> Result<Option<(BlobId, Vec<usize>)>> {
        let (blobs, shape) = (self.blobs()?, self.shape());
        for blob in &blobs {
            if let Some(found) = isolate(&self.lower.form(*blob), &shape, axes) {
                return Ok(Some((*blob, found)));
            }
        }
        let can_be_had = |form: &[Dim]| blobs.iter().any(|blob| self.lower.state().is_plain(*blob, form));
        let (form, found) = isolated_form(&shape, axes, can_be_had);
        if form.len() > MAX_AXES { Ok(None) } else { Ok(Some((self.in_form(&form)?, found))) }
    }

    /// Returns a blob in a form in which an axis is one, and the position of the axis.
    fn isolated_axis(self, axis: usize) -> Result<(BlobId, usize)> {
        let found = self.isolated_axes(&[axis])?;
        let (blob, found) = found.ok_or_else(|| Error::internal("more than four separate axes"))?;
        Ok((blob, *found.at(0)?))
    }
}
