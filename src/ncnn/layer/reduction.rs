//! Reductions along axes.

use super::shape::{Size, Sizes, Tops, axis_of, one};
use super::{exactly, layer};
use crate::error::{At, Result, unsupported};

layer! {
    /// A reduction along `axes`, counted from the outermost axis.
    25 Reduction(exactly(1), exactly(1)) [Gpu] {
        params {
            /// See [`reduction_op`].
            0 operation: i32 = 0,
            1 reduce_all: i32 = 1,
            2 coeff: f32 = 1.0,
            3 axes: Vec<i32> = Vec::new(),
            4 keepdims: i32 = 0,
            /// 1: axes are counted without a batch axis. The runtime rejects axes if it is 0.
            5 fixbug0: i32 = 0,
        }
        tops { Reduction::top }
    }
}

impl Reduction {
    fn top(&self, bottoms: &[Sizes], _: usize) -> Result<Tops> {
        let bottom = bottoms.at(0)?;
        if self.fixbug0 == 0 && !self.axes.is_empty() {
            unsupported!("axes without fixbug0");
        }
        let mut reduced = vec![self.reduce_all != 0 || bottom.len() == 1; bottom.len()];
        for axis in &self.axes {
            reduced.put(axis_of(*axis, bottom)?, true);
        }
        let kept = bottom.iter().zip(reduced).filter_map(|(size, reduced)| match reduced {
            false => Some(*size),
            true => (self.keepdims != 0).then_some(Size::from(1)),
        });
        let sizes: Sizes = kept.collect();
        one(if sizes.is_empty() { vec![Size::from(1)] } else { sizes })
    }
}

/// Values of `Reduction::operation`.
#[allow(missing_docs)] // The names are from ncnn's `reduction.h`.
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
