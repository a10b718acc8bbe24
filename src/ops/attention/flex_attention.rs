//! FlexAttention: attention whose scores and weights pass through graphs of the model.
//!
//! Spec: <https://onnx.ai/onnx/operators/onnx_aionnxpreview_FlexAttention.html>.

use num_traits::AsPrimitive;

use super::parts::{Sizes, Standard, attend, unknown_heads};
use crate::ops::prelude::*;

pub(in crate::ops) const OPS: &[Row] =
    &[Row::defined("ai.onnx.preview", "FlexAttention", expand_flex_attention)
        .multiply_adds(|call| read_flex_attention(call).ok()?.sizes.multiply_adds())
        .lowers_to("MatMul, the graph for scores, Softmax, the graph for weights, MatMul")
        .limits("free sizes")];

struct FlexAttention {
    scale: f32,
    /// The type of scores and weights.
    precision: DType,
    sizes: Sizes,
}

fn read_flex_attention(call: &Call) -> Result<FlexAttention> {
    let precision = match call.optional_element_type("softmax_precision")? {
        Some(precision) => precision,
        None if call.dtype(0)? == DType::F64 => DType::F64,
        None => DType::F32,
    };
    let sizes = Sizes::of_heads(call)?;
    let Sizes { q_heads, kv_heads, .. } = sizes;
    let size = sizes.head.known().ok_or_else(unknown_heads)?;
    if kv_heads < 1 || q_heads % kv_heads != 0 {
        invalid!("{q_heads} heads of queries for {kv_heads} heads of keys");
    }
    let size: f32 = size.as_();
    let scale = call.optional_float("scale")?.unwrap_or(1.0 / size.sqrt());
    for name in ["score_mod", "prob_mod"] {
        if call.optional_body(name)?.is_some_and(|body| body.inputs.len() != 1 || body.outputs.len() != 1) {
            return Err(Error::invalid("the graph needs one input and one output")
                .at_part(format!("attribute {name}")));
        }
    }
    Ok(FlexAttention { scale, precision, sizes })
}

/// Returns the graph `name`, applied to a value.
fn modify<'x>(x: &'x Expand, name: &str, value: Expr<'x>) -> Result<Expr<'x>> {
    let Some(body) = x.optional_body(name)? else { return Ok(value) };
    let outputs = x.make.inline(body, &[value])?;
    let result = outputs.first().copied().ok_or_else(|| Error::invalid("a graph without an output"))?;
    x.make.require_broadcast(result, value);
    Ok(result)
}

fn expand_flex_attention<'x>(x: &'x Expand) -> Result<Expr<'x>> {
    let FlexAttention { scale, precision, sizes } = read_flex_attention(x)?;
    let dtype = x.dtype(0)?;
    let operands @ [q, k, v] = [0, 1, 2].map(|index| x.operand(index));
    if precision == DType::F32
        && ["score_mod", "prob_mod"].iter().all(|name| x.node().attributes.get(*name).is_none())
    {
        let plain = Standard { operands, mask: None, past: [None, None], has_present: false };
        return Ok(plain.attend(x, [("scale", scale.into())]).0);
    }
    let result = attend(&sizes, [q, k.transpose(&[0, 1, 3, 2]), v], |scores| {
        let scores = modify(x, "score_mod", (scores * scale).to_type(precision))?;
        let weights = modify(x, "prob_mod", scores.softmax(-1))?;
        Ok(if precision == dtype { weights } else { weights.cast(dtype) })
    })?;
    Ok(result)
}
