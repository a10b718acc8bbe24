//! Operators over spatial axes: sliding windows, grids, regions of interest, resizing.

pub(in crate::ops) mod causal_conv;
pub(in crate::ops) mod col2im;
pub(in crate::ops) mod conv;
pub(in crate::ops) mod grid;
pub(in crate::ops) mod pool;
pub(in crate::ops) mod rearrange;
pub(in crate::ops) mod resize;
pub(in crate::ops) mod roi;
pub(in crate::ops) mod unpool;
pub(in crate::ops) mod window;

use super::Row;

/// The families of this shelf.
pub(super) const FAMILIES: &[&[Row]] = &[
    causal_conv::OPS,
    col2im::OPS,
    conv::OPS,
    grid::OPS,
    pool::OPS,
    rearrange::OPS,
    resize::OPS,
    roi::OPS,
    unpool::OPS,
];
