//! Matrix products and contractions.

pub(in crate::ops) mod determinant;
pub(in crate::ops) mod einsum;
pub(in crate::ops) mod matmul;

use super::row::Row;

/// The families of this shelf.
pub(super) const FAMILIES: &[&[Row]] = &[determinant::OPS, einsum::OPS, matmul::OPS];
