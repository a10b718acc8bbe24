//! Sizes in lists, and shapes with one other size.

use crate::ops::prelude::*;

/// Returns `shape` with another size along `axis`.
pub(in crate::ops) fn resized<T: Clone>(shape: &[T], axis: usize, size: T) -> Vec<T> {
    let mut shape = shape.to_vec();
    shape.put(axis, size);
    shape
}

/// Returns the sizes of input 0, which must be known.
pub(in crate::ops) fn data_sizes(call: &Call) -> Result<Vec<usize>> {
    call.sizes(0)?.into_iter().map(|size| Ok(usize::try_from(size)?)).collect()
}

/// Returns the sizes of a shape without free sizes.
pub(in crate::ops) fn fixed_shape(shape: &[Dim]) -> Result<Vec<usize>> {
    let fixed = |size: &Dim| match size.known() {
        Some(known) => Ok(usize::try_from(known)?),
        None => unsupported!("the size {size} is not fixed"),
    };
    shape.iter().map(fixed).collect()
}

pub(super) fn known_dims(list: Vec<i64>) -> Vec<Dim> {
    list.into_iter().map(Dim::Known).collect()
}
