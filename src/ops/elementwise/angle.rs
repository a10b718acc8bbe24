//! The angle of a point, which the fusion of `src/pass/fuse/atan2.rs` makes of quotients.

use super::broadcast::{infer_first, lower_pair};
use crate::lower::ScalarOrBlob;
use crate::ncnn::layer::binary_op;
use crate::ops::prelude::*;

pub(in crate::ops) const OPS: &[Row] = &[Row::of(NCNN_DOMAIN, "Atan2", Access::Broadcast, infer_first)
    .lower(lower_atan2)
    .range(|_, _| Range::new(-3.2, 3.2))
    .lowers_to("BinaryOp ATAN2")
    .differs("the angle of the origin, which is 0 and not NaN; x of -0, which counts as 0; infinities")];

/// Emits `-atan2(0 - y, x)`: -pi for `y` of 0 and negative `x`, as in the sum of quotients and turns. The
/// difference is not -0, of which scalar code would make pi.
fn lower_atan2(lower: &Lower) -> Result<()> {
    let (y, x) = lower_pair(lower)?;
    let below = match y {
        ScalarOrBlob::Number(y) => (0.0 - y).into(),
        ScalarOrBlob::Blob(y) => 0.0 - y,
    };
    lower.set(0, -below.with(binary_op::ATAN2, x))
}
