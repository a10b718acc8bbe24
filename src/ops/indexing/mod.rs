//! Operators that select or replace elements by index.

mod expert_weights;
pub(in crate::ops) mod gather;
mod largest;
pub(in crate::ops) mod one_hot;
mod ordered_lists;
mod reverse_sequence;
pub(in crate::ops) mod scatter;
pub(in crate::ops) mod selection;
pub(in crate::ops) mod top_k;
pub(in crate::ops) mod unique;

use super::row::Row;

/// The families of this shelf.
pub(super) const FAMILIES: &[&[Row]] = &[
    expert_weights::OPS,
    gather::OPS,
    largest::OPS,
    one_hot::OPS,
    reverse_sequence::OPS,
    scatter::OPS,
    selection::OPS,
    top_k::OPS,
    unique::OPS,
];
