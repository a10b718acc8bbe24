//! Gated units.
//!
//! Spec: <https://onnx.ai/onnx/operators/onnx__SwiGLU.html>.

use crate::ops::prelude::*;

pub(in crate::ops) const OPS: &[Row] = &[Row::new("SwiGLU", Access::Any, infer_same)
    .formula(expand_swiglu)
    .lowers_to("a * Sigmoid(alpha * a) * b")];

fn expand_swiglu<'x>(x: &'x Expand) -> Result<Expr<'x>> {
    let alpha = x.float("alpha")?;
    let (gate, value) = (x.operand(0), x.operand(1));
    let scaled = if alpha == 1.0 { gate } else { gate * alpha };
    Ok(gate * scaled.sigmoid() * value)
}
