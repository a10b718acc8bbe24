//! Values without operands: constants, ranges, sizes, random numbers.

pub(in crate::ops) mod constant;
pub(in crate::ops) mod random;

use super::row::Row;

/// The families of this shelf.
pub(super) const FAMILIES: &[&[Row]] = &[constant::OPS, random::OPS];
