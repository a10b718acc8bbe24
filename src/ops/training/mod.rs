//! Losses and steps of optimizers.

pub(in crate::ops) mod loss;
pub(in crate::ops) mod optimizer;

use super::row::Row;

/// The families of this shelf.
pub(super) const FAMILIES: &[&[Row]] = &[loss::OPS, optimizer::OPS];
