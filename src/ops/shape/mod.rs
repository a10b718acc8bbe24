//! Operators that move elements or change the shape.

pub(in crate::ops) mod batch;
pub(in crate::ops) mod concat;
pub(in crate::ops) mod pad;
pub(in crate::ops) mod reshape;
pub(in crate::ops) mod slice;
pub(in crate::ops) mod tile;
pub(in crate::ops) mod transpose;
pub(in crate::ops) mod trilu;

use crate::ops::prelude::*;

/// The families of this shelf.
pub(super) const FAMILIES: &[&[Row]] =
    &[batch::OPS, concat::OPS, pad::OPS, reshape::OPS, slice::OPS, tile::OPS, transpose::OPS, trilu::OPS];

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
fn fixed_shape(shape: &[Dim]) -> Result<Vec<usize>> {
    let fixed = |size: &Dim| match size.known() {
        Some(known) => Ok(usize::try_from(known)?),
        None => unsupported!("the size {size} is not fixed"),
    };
    shape.iter().map(fixed).collect()
}

fn known_dims(list: Vec<i64>) -> Vec<Dim> {
    list.into_iter().map(Dim::Known).collect()
}

/// Returns the elements of the optional input `index` as sizes.
fn input_dims(call: &Call, index: usize) -> Result<Option<Vec<Dim>>> {
    if call.has_input(index) { call.dims(index).map(Some) } else { Ok(None) }
}

fn dims_of(array: &Array) -> Result<Vec<Dim>> {
    Ok(array.to_dims()?.iter().cloned().collect())
}

/// Returns the elements of the optional input `index` of a fold as sizes.
fn array_dims(inputs: &[Option<Array>], index: usize) -> Result<Option<Vec<Dim>>> {
    inputs.get(index).and_then(Option::as_ref).map(dims_of).transpose()
}
