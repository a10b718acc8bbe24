//! Values joined along an axis.

use super::Nd;
use crate::error::{At, Error, Result};
use crate::lower::Lower;
use crate::ncnn::BlobId;
use crate::ncnn::layer::Concat;
use crate::tensor::{Dim, Tensor, axis_groups};

impl<'l> Nd<'l> {
    /// Returns the elements followed by those of another value along an axis.
    pub fn join(self, other: Nd<'l>, axis: usize) -> Nd<'l> {
        self.lower.join(&[self, other], axis)
    }
}

impl<'l> Lower<'l> {
    /// Returns the values joined along an axis, without those that have no elements. Sizes of other axes are
    /// equal, but may be different expressions.
    pub fn join(&'l self, parts: &[Nd<'l>], axis: usize) -> Nd<'l> {
        let parts: Vec<Nd> = parts.iter().copied().filter(|part| !part.size(axis).is(0)).collect();
        let Some(leading) = parts.iter().copied().reduce(|most, part| longer(most, part, axis)) else {
            return self.fail(Error::unsupported("all parts are empty"));
        };
        if parts.len() == 1 {
            return leading;
        }
        let mut shape = leading.shape().to_vec();
        shape.put(axis, parts.iter().map(|part| part.size(axis)).sum());
        leading.map_blob(shape.clone(), |lower| {
            let (pattern, blob_axis) = leading.isolated_axis(axis)?;
            let pattern = lower.form(pattern);
            let merged = axis_groups(&pattern, &leading.shape());
            // All parts take the form of one, with their sizes.
            let like_leading = |shape: &[Dim]| -> Result<Vec<Dim>> {
                // An axis of size 1 in the leading part may be merged with a neighbour there.
                let others = |axes: &Vec<usize>| {
                    let others = axes.iter().filter(|other| **other != axis);
                    Dim::product(others.filter_map(|other| shape.get(*other)))
                };
                let mut form = match &merged {
                    Some(groups) => groups.iter().map(others).collect(),
                    None => pattern.clone(),
                };
                form.put(blob_axis, shape.at(axis)?.clone());
                Ok(form)
            };
            let blobs = parts.iter().map(|part| part.in_form(&like_leading(&part.shape())?));
            let blobs = blobs.collect::<Result<Vec<BlobId>>>()?;
            let form = like_leading(&shape)?;
            if lower.accepts_empty() && lower.form(*blobs.at(0)?).at(blob_axis)?.has_length() {
                return append(lower, &blobs, blob_axis, &form);
            }
            lower.emit(Concat { axis: i32::try_from(blob_axis)? }, &blobs, &form)
        })
    }
}

/// Returns the longer of two values along an axis, since the other one may have to be copied to another form.
/// A free size is not compared.
fn longer<'l>(a: Nd<'l>, b: Nd<'l>, axis: usize) -> Nd<'l> {
    let is_longer = a.size(axis).known().zip(b.size(axis).known()).is_some_and(|(a, b)| b > a);
    if is_longer { b } else { a }
}

/// Concatenates blobs; the first one may be empty. Concat takes the element type and the packing of all
/// blobs from the first, and an empty one has none; so an element precedes it, and is removed again.
fn append(lower: &Lower, blobs: &[BlobId], axis: usize, form: &[Dim]) -> Result<BlobId> {
    let concat = Concat { axis: i32::try_from(axis)? };
    let mut single = form.to_vec();
    single.put(axis, Dim::ONE);
    let Some(sizes) = Dim::known_sizes(&single) else { return lower.emit(concat, blobs, form) };
    let one = lower.memory_data(&Tensor::all(0.0, sizes)?, &single)?;
    let all: Vec<BlobId> = std::iter::once(one).chain(blobs.iter().copied()).collect();
    let (size, mut longer) = (form.at(axis)?, form.to_vec());
    longer.put(axis, size + 1);
    let longer = lower.emit(concat, &all, &longer)?;
    lower.crop(longer, axis, 1, None, size)
}
