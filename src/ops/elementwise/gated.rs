//! Gated units.
//!
//! Spec: <https://onnx.ai/onnx/operators/onnx__SwiGLU.html>.

use crate::ops::prelude::*;

pub(in crate::ops) const OPS: &[Row] =
    &[Row::defined("", "SwiGLU", |x| Ok(swish(x.operand(0), x.float("alpha")?).times(x.operand(1))))
        .lowers_to("a * Sigmoid(alpha * a) * b")];

/// Returns `x * sigmoid(alpha * x)`.
pub(in crate::ops) fn swish(x: Expr<'_>, alpha: f32) -> Expr<'_> {
    let scaled = if alpha == 1.0 { x } else { x * alpha };
    x * scaled.sigmoid()
}
