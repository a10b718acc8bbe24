//! Sizes in lists, and shapes with one other size.

use crate::ops::prelude::*;

/// Returns `shape` with another size along `axis`.
pub(in crate::ops) fn resized<T: Clone>(shape: &[T], axis: usize, size: T) -> Vec<T> {
    let mut shape = shape.to_vec();
    shape.put(axis, size);
    shape
}

/// Returns `shape` with two axes instead of `axis`; a shape without it, as after an error, is unchanged.
pub(in crate::ops) fn divided<T: Clone>(shape: &[T], axis: usize, sizes: [T; 2]) -> Vec<T> {
    let mut shape = shape.to_vec();
    if axis < shape.len() {
        shape.splice(axis..=axis, sizes);
    }
    shape
}

/// Returns the sizes of input 0, which must be known.
pub(in crate::ops) fn data_sizes(call: &Call) -> Result<Vec<usize>> {
    call.sizes(0)?.into_iter().map(|size| Ok(usize::try_from(size)?)).collect()
}

pub(super) fn known_dims(list: Vec<i64>) -> Vec<Dim> {
    list.into_iter().map(Dim::Known).collect()
}
