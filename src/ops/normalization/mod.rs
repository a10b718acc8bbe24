//! Normalizations and Softmax.

pub(in crate::ops) mod norm;
pub(in crate::ops) mod softmax;

use super::row::Row;

/// The families of this shelf.
pub(super) const FAMILIES: &[&[Row]] = &[norm::OPS, softmax::OPS];
