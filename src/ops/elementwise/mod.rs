//! Elementwise operators, with broadcasting.

pub(in crate::ops) mod activation;
pub(in crate::ops) mod angle;
pub(in crate::ops) mod arithmetic;
pub(in crate::ops) mod bit_cast;
pub(in crate::ops) mod broadcast;
pub(in crate::ops) mod cast;
pub(in crate::ops) mod compare;
pub(in crate::ops) mod gated;
pub(in crate::ops) mod unary;

use super::row::Row;

/// The families of this shelf.
pub(super) const FAMILIES: &[&[Row]] = &[
    activation::OPS,
    angle::OPS,
    arithmetic::OPS,
    bit_cast::OPS,
    cast::OPS,
    compare::OPS,
    gated::OPS,
    unary::OPS,
];
