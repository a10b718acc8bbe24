//! FlexAttention: attention whose scores and weights pass through graphs of the model.
//!
//! Spec: <https://onnx.ai/onnx/operators/onnx_aionnxpreview_FlexAttention.html>.

use num_traits::AsPrimitive;

use crate::error::{Error, Result, invalid, unsupported};
use crate::op::{Access, Call, Fact, element_count};
use crate::ops::Row;
use crate::pass::builder::Expr;
use crate::pass::expand::Expand;
use crate::tensor::{DType, Dim};

pub(in crate::ops) const OPS: &[Row] =
    &[Row::of("ai.onnx.preview", "FlexAttention", Access::Any, infer_flex_attention)
        .expand(expand_flex_attention)
        .multiply_adds(multiply_adds)
        .lowers_to("MatMul, the graph for scores, Softmax, the graph for weights, MatMul")
        .limits("free sizes")];

/// Each key has a product with each query, and its value one with each weight.
fn multiply_adds(call: &Call) -> Option<u64> {
    let each = element_count(call.shape(0).ok()?)?.saturating_add(element_count(call.output_shape(0).ok()?)?);
    Some(each.saturating_mul(element_count(call.shape(1).ok()?.get(2..3)?)?))
}

struct FlexAttention {
    scale: f32,
    /// The type of scores and weights.
    precision: DType,
    /// The numbers of heads of the queries, and of keys and values.
    heads: [i64; 2],
}

fn read_flex_attention(call: &Call) -> Result<FlexAttention> {
    let precision = match call.given_int("softmax_precision")? {
        Some(code) => i32::try_from(code).ok().and_then(DType::from_onnx).ok_or_else(|| {
            Error::invalid(format!("unknown element type {code}")).at_part("attribute softmax_precision")
        })?,
        None if call.dtype(0)? == DType::F64 => DType::F64,
        None => DType::F32,
    };
    let ([_, queries, _, size], [_, keys, _, _]) = (call.shape(0)?, call.shape(1)?) else {
        invalid!("queries and keys need four axes: batch, heads, length and size");
    };
    let (Some(queries), Some(keys), Some(size)) = (queries.known(), keys.known(), size.known()) else {
        unsupported!("the number or size of the heads is known only at run time");
    };
    if keys < 1 || queries % keys != 0 {
        invalid!("{queries} heads of queries for {keys} heads of keys");
    }
    let size: f32 = size.as_();
    let scale = call.given_float("scale")?.unwrap_or(1.0 / size.sqrt());
    for name in ["score_mod", "prob_mod"] {
        if call.given_body(name)?.is_some_and(|body| body.inputs.len() != 1 || body.outputs.len() != 1) {
            return Err(Error::invalid("the graph needs one input and one output")
                .at_part(format!("attribute {name}")));
        }
    }
    Ok(FlexAttention { scale, precision, heads: [queries, keys] })
}

fn infer_flex_attention(call: &Call) -> Result<Vec<Fact>> {
    let mut shape = call.shape(0)?.to_vec();
    if let (Some(size), Some(last)) = (shape.last_mut(), call.shape(2)?.last()) {
        last.clone_into(size);
    }
    Ok(vec![Fact::new(call.dtype(0)?, shape)])
}

/// Returns the graph `name`, applied to a value.
fn modify<'x>(x: &'x Expand, name: &str, value: Expr<'x>) -> Result<Expr<'x>> {
    let Some(body) = x.given_body(name)? else { return Ok(value) };
    let outputs = x.make.inline(body, &[value])?;
    outputs.first().copied().ok_or_else(|| Error::invalid("a graph without an output"))
}

fn expand_flex_attention(x: &Expand) -> Result<bool> {
    let FlexAttention { scale, precision, heads: [queries, keys] } = read_flex_attention(x)?;
    let size = |dim: Option<&Dim>| dim.and_then(Dim::known);
    let (length, width) = (size(x.shape(0)?.get(2)), size(x.shape(1)?.get(2)));
    let dtype = x.dtype(0)?;
    let [mut q, k, v] = [0, 1, 2].map(|index| x.operand(index));
    let shared = queries != keys;
    // Heads of queries that share a head of keys are adjacent: they are rows of one matrix.
    if shared {
        let (Some(_), Some(_)) = (length, width) else { unsupported!("free lengths") };
        q = q.reshape(&[0, keys, -1, size(x.shape(0)?.last()).unwrap_or(-1)]);
    }
    let mut scores = q.matmul(k.transpose(&[0, 1, 3, 2]));
    if shared {
        scores = scores.reshape(&[0, queries, length.unwrap_or(-1), width.unwrap_or(-1)]);
    }
    scores = modify(x, "score_mod", (scores * scale).to_type(precision))?;
    let mut weights = modify(x, "prob_mod", scores.softmax(-1))?;
    if precision != dtype {
        weights = weights.cast(dtype);
    }
    if shared {
        weights = weights.reshape(&[0, keys, -1, width.unwrap_or(-1)]);
    }
    let mut result = weights.matmul(v);
    if shared {
        let size = size(x.shape(2)?.last()).unwrap_or(-1);
        result = result.reshape(&[0, queries, length.unwrap_or(-1), size]);
    }
    x.output(0, result);
    Ok(true)
}
