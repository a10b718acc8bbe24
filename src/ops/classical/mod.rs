//! Classical machine learning: the domain `ai.onnx.ml`, and n-grams.

pub(in crate::ops) mod feature;
pub(in crate::ops) mod n_gram;
pub(in crate::ops) mod trees;

use super::Row;

/// The families of this shelf.
pub(super) const FAMILIES: &[&[Row]] = &[feature::OPS, n_gram::OPS, trees::OPS];
