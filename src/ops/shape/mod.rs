//! Operators that move elements or change the shape.

pub(in crate::ops) mod concat;
pub(in crate::ops) mod pad;
pub(in crate::ops) mod reshape;
pub(in crate::ops) mod reverse_sequence;
pub(in crate::ops) mod slice;
pub(in crate::ops) mod tile;
pub(in crate::ops) mod transpose;
pub(in crate::ops) mod trilu;

use super::Row;

/// The families of this shelf.
pub(super) const FAMILIES: &[&[Row]] = &[
    concat::OPS,
    pad::OPS,
    reshape::OPS,
    reverse_sequence::OPS,
    slice::OPS,
    tile::OPS,
    transpose::OPS,
    trilu::OPS,
];
