//! Sums, extremes and other reductions along axes.

use super::{exactly, layer};

layer! {
    /// A reduction along `axes`, counted from the outermost axis of the Mat.
    Reduction(exactly(1), exactly(1)) {
        params {
            /// See [`reduction_op`].
            0 operation: i32 = 0,
            1 reduce_all: i32 = 1,
            2 coeff: f32 = 1.0,
            3 axes: Vec<i32> = Vec::new(),
            4 keepdims: i32 = 0,
            /// Whether the axes count without a batch axis: the runtime refuses axes where it is 0.
            5 fixbug0: i32 = 0,
        }
    }
}

/// Numbers of `Reduction::operation`.
#[allow(missing_docs)] // The names are those of ncnn's `reduction.h`.
pub mod reduction_op {
    pub const SUM: i32 = 0;
    pub const ASUM: i32 = 1;
    pub const SUMSQ: i32 = 2;
    pub const MEAN: i32 = 3;
    pub const MAX: i32 = 4;
    pub const MIN: i32 = 5;
    pub const PROD: i32 = 6;
    pub const L1: i32 = 7;
    pub const L2: i32 = 8;
    pub const LOG_SUM: i32 = 9;
    pub const LOG_SUM_EXP: i32 = 10;
}
