//! Control flow, sequences and optional values, and operators that are always refused.

pub(in crate::ops) mod flow;
pub(in crate::ops) mod impossible;
pub(in crate::ops) mod sequence;

use super::row::Row;

/// The families of this shelf.
pub(super) const FAMILIES: &[&[Row]] = &[flow::OPS, impossible::OPS, sequence::OPS];
