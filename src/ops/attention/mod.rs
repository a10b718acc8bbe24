//! Attention and its state.

pub(in crate::ops) mod cache;
pub(in crate::ops) mod cached;
pub(in crate::ops) mod flex_attention;
pub(in crate::ops) mod linear_attention;
pub(in crate::ops) mod multi_head;
pub(in crate::ops) mod parts;
pub(in crate::ops) mod plain;
pub(in crate::ops) mod positions;
pub(in crate::ops) mod standard;

use super::row::Row;

/// The families of this shelf.
pub(super) const FAMILIES: &[&[Row]] = &[
    cache::OPS,
    cached::OPS,
    flex_attention::OPS,
    linear_attention::OPS,
    multi_head::OPS,
    plain::OPS,
    standard::OPS,
];
