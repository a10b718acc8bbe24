//! Operators that move elements or change the shape.

pub(in crate::ops) mod batch;
pub(in crate::ops) mod concat;
pub(in crate::ops) mod pad;
pub(in crate::ops) mod reshape;
pub(in crate::ops) mod size;
pub(in crate::ops) mod slice;
pub(in crate::ops) mod tile;
pub(in crate::ops) mod transpose;
pub(in crate::ops) mod trilu;

use crate::ops::row::Row;

/// The families of this shelf.
pub(super) const FAMILIES: &[&[Row]] =
    &[batch::OPS, concat::OPS, pad::OPS, reshape::OPS, slice::OPS, tile::OPS, transpose::OPS, trilu::OPS];
