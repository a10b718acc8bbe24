//! Powers and roots of LpPool and GlobalLpPool.

use num_traits::AsPrimitive;

use super::{read_p, split_shape};
use crate::lower::Formula;
use crate::ncnn::layer::reduction_op;
use crate::ops::prelude::*;

/// The maximum exponent: a power is a product of as many factors.
const MAX_P: i64 = 8;

/// Emits `|x|^p`.
pub(super) fn power(lower: &Lower, x: BlobId, p: i64) -> Result<BlobId> {
    if p > MAX_P {
        unsupported!("exponent p = {p} (at most {MAX_P})");
    }
    let (factor, factors) = if p % 2 == 0 { (x.square(), p / 2) } else { (x.abs(), p) };
    let factor = lower.compute(factor)?;
    lower.compute((1..factors).fold(Formula::from(factor), |y, _| y * factor))
}

/// Emits `x^(1/p)` for `x >= 0`.
pub(super) fn root(lower: &Lower, x: BlobId, p: i64) -> Result<BlobId> {
    match p {
        1 => Ok(x),
        2 => lower.compute(x.sqrt()),
        _ => {
            let p: f32 = p.as_();
            lower.power(x, 1.0 / p, Range::NOT_NEGATIVE)
        }
    }
}

pub(super) fn lower_global_lp(lower: &Lower) -> Result<()> {
    let p = read_p(lower)?;
    let (batch, channels, spatial) = split_shape(lower.shape(0)?)?;
    let form = [batch * channels, Dim::product(spatial)];
    let x = lower.blob_as(0, &form)?;
    let x = power(lower, x, p)?;
    let sum = lower.reduce(reduction_op::SUM, x, &[1])?;
    let y = root(lower, sum, p)?;
    lower.set(0, y)
}
