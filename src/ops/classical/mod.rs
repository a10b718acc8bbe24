//! Classical machine learning: the domain `ai.onnx.ml`, and n-grams.

pub(in crate::ops) mod classes;
pub(in crate::ops) mod encoders;
pub(in crate::ops) mod ensemble;
pub(in crate::ops) mod feature;
mod forest;
pub(in crate::ops) mod linear;
mod matrix;
pub(in crate::ops) mod n_gram;
mod split;
pub(in crate::ops) mod support_vectors;
pub(in crate::ops) mod trees;

use crate::ops::row::Row;

const DOMAIN: &str = "ai.onnx.ml";

/// The families of this shelf.
pub(super) const FAMILIES: &[&[Row]] =
    &[encoders::OPS, ensemble::OPS, feature::OPS, linear::OPS, n_gram::OPS, support_vectors::OPS, trees::OPS];
