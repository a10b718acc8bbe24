//! Values as blobs in the forms that layers require.

use super::Nd;
use crate::error::{Error, Result};
use crate::lower::form::{MAX_AXES, isolate};
use crate::ncnn::{BlobId, Layer};
use crate::tensor::{DType, Dim, Range, display_shape};

impl<'l> Nd<'l> {
    /// Returns the value with the axes before `axis` merged to one, and those from it on.
    pub fn flatten(self, axis: usize) -> Nd<'l> {
        let shape = self.shape();
        let (outer, inner) = shape.split_at(axis.min(shape.len()));
        self.reshape([Dim::product(outer), Dim::product(inner)])
    }

    /// Returns the value as a blob in which each of these axes is one, which the layers that follow are to
    /// read.
    pub fn with_axes(self, axes: &[usize]) -> Nd<'l> {
        self.map_blob(self.shape(), |_| Ok(self.isolated_axes(axes)?.ok_or_else(|| self.too_many(axes))?.0))
    }

    /// Returns the error of a blob that would need more than four axes.
    pub(super) fn too_many(self, axes: &[usize]) -> Error {
        let shape = display_shape(&self.shape());
        Error::unsupported(format!("axes {axes:?} of {shape} as separate axes: ncnn has at most four"))
    }

    /// Returns the value as a blob of which an axis, before which all have size 1, is the outermost.
    pub fn with_outermost(self, axis: usize) -> Nd<'l> {
        let shape = self.shape();
        self.map_blob(shape.clone(), |lower| {
            let is_outermost =
                |blob: &BlobId| isolate(&lower.form(*blob), &shape, &[axis]).as_deref() == Some(&[0]);
            if let Some(blob) = self.blobs()?.into_iter().find(is_outermost) {
                return Ok(blob);
            }
            match shape.get(axis..).unwrap_or_default() {
                [first, inner @ ..] if inner.len() >= MAX_AXES => {
                    self.in_form(&[first.clone(), Dim::product(inner)])
                }
                form => self.in_form(form),
            }
        })
    }

    /// Returns the axes from `axis` on as rows: the last of two or three axes, of which a blob has that form.
    pub fn rows(self, axis: usize) -> Nd<'l> {
        let shape = self.shape();
        let size = Dim::product(shape.iter().skip(axis));
        let has_rows = |form: &[Dim]| (2..=3).contains(&form.len()) && form.last() == Some(&size);
        let blobs = self.lower.run(|| self.blobs()).unwrap_or_default();
        match blobs.into_iter().find(|blob| has_rows(&self.lower.form(*blob))) {
            Some(blob) => self.lower.nd(blob, self.lower.form(blob)),
            None => self.flatten(axis).isolated(),
        }
    }

    /// Returns the value as a blob of at most three axes in which an axis is one, which the layers that
    /// follow are to read: some ignore a fourth axis in old releases.
    pub fn with_lanes(self, axis: usize) -> Nd<'l> {
        self.map_blob(self.shape(), |_| Ok(self.lanes(axis)?.0))
    }

    /// Returns the value after a layer along an axis, in a blob of at most three; `layer` gets the index
    /// of the axis there.
    pub fn map_along<L: Into<Layer>>(self, axis: usize, layer: impl FnOnce(i32) -> L) -> Nd<'l> {
        self.map_blob(self.shape(), |lower| {
            let (x, index) = self.lanes(axis)?;
            lower.emit(layer(i32::try_from(index)?), &[x], &lower.form(x))
        })
    }

    /// Returns a power of the elements, which are in `range`.
    pub fn power(self, power: f32, range: Range) -> Nd<'l> {
        self.map_blob(self.shape(), |lower| lower.power(self.blob()?, power, range))
    }

    /// Returns the elements wrapped to integers of a type, see [`Lower::wrap`].
    pub fn wrap(self, dtype: DType) -> Nd<'l> {
        self.map_blob(self.shape(), |lower| lower.wrap(self.blob()?, dtype))
    }

    /// Returns a blob of at most three axes in which an axis is one, and its index there.
    fn lanes(self, axis: usize) -> Result<(BlobId, usize)> {
        let shape = self.shape();
        for blob in self.blobs()? {
            let form = self.lower.form(blob);
            if form.len() <= 3
                && let Some(&[index]) = isolate(&form, &shape, &[axis]).as_deref()
            {
                return Ok((blob, index));
            }
        }
        let [outer, inner] = Dim::around(&shape, axis);
        let index = usize::from(!outer.is(1));
        let others = |size: Dim| (!size.is(1)).then_some(size);
        let form: Vec<Dim> =
            [others(outer), Some(self.size(axis)), others(inner)].into_iter().flatten().collect();
        Ok((self.in_form(&form)?, index))
    }
}
