//! Powers and roots of LpPool and GlobalLpPool.

use num_traits::AsPrimitive;

use super::{read_p, split_shape};
use crate::error::{Result, unsupported};
use crate::lower::Lower;
use crate::ncnn::BlobId;
use crate::ncnn::layer::{binary_op, reduction_op, unary_op};
use crate::tensor::Dim;

/// Largest power that is a product of so many factors.
const MAX_P: i64 = 8;
/// The least number whose root is taken: the logarithm of 0 is not finite, and the root of this is nothing beside any other element.
const LEAST_POWER: f32 = 1e-37;

/// `|x|^p`.
pub(super) fn power(lower: &mut Lower, x: BlobId, p: i64) -> Result<BlobId> {
    if p > MAX_P {
        unsupported!("the exponent {p}");
    }
    if p % 2 == 0 {
        let square = lower.unary(unary_op::SQUARE, x)?;
        return repeated(lower, square, p / 2);
    }
    let magnitude = lower.unary(unary_op::ABS, x)?;
    repeated(lower, magnitude, p)
}

fn repeated(lower: &mut Lower, x: BlobId, n: i64) -> Result<BlobId> {
    let mut y = x;
    for _ in 1..n {
        y = lower.binary(binary_op::MUL, y, x)?;
    }
    Ok(y)
}

/// `x^(1/p)` of what is not negative.
pub(super) fn root(lower: &mut Lower, x: BlobId, p: i64) -> Result<BlobId> {
    match p {
        1 => Ok(x),
        2 => lower.unary(unary_op::SQRT, x),
        _ => {
            let p: f32 = p.as_();
            let x = lower.binary_scalar(binary_op::MAX, x, LEAST_POWER)?;
            lower.binary_scalar(binary_op::POW, x, 1.0 / p)
        }
    }
}

pub(super) fn lower_global_lp(lower: &mut Lower) -> Result<()> {
    let p = read_p(lower)?;
    let (batch, channels, spatial) = split_shape(lower)?;
    let form = [batch.mul(channels)?, Dim::product(spatial)?];
    let x = lower.blob_as(0, &form)?;
    let x = power(lower, x, p)?;
    let sum = lower.reduce(reduction_op::SUM, x, &[1])?;
    let y = root(lower, sum, p)?;
    lower.set(0, y)
}
