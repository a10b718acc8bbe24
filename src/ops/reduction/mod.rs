//! Reductions and cumulative sums along axes.

pub(in crate::ops) mod cumulate;
pub(in crate::ops) mod reduce;

use super::row::Row;

/// The families of this shelf.
pub(super) const FAMILIES: &[&[Row]] = &[cumulate::OPS, reduce::OPS];
