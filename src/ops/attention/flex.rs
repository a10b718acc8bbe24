//! FlexAttention: attention whose scores and weights go through bodies of the model.

use super::scores::{attend_grouped, scores_of, to_single};
use super::{Sizes, check_heads, input};
use crate::error::{At, Error, Result, invalid};
use crate::graph::{Attribute, Graph};
use crate::ops::{Attributes, Call, Fact};
use crate::pass::expand::{Expand, Operand};
use crate::tensor::{DType, Dim, display_shape};

struct FlexAttributes<'a> {
    score_mod: Option<&'a Graph>,
    prob_mod: Option<&'a Graph>,
    scale: Option<f32>,
}

fn read_flex<'a>(attributes: &Attributes<'a>) -> Result<FlexAttributes<'a>> {
    Ok(FlexAttributes {
        score_mod: attributes.body("score_mod")?,
        prob_mod: attributes.body("prob_mod")?,
        scale: attributes.float("scale")?,
    })
}

fn read_flex_sizes(call: &Call) -> Result<Sizes> {
    let [q, k, v] = [call.shape(input::Q)?, call.shape(input::K)?, call.shape(input::V)?];
    let ([batch, q_heads, queries, head], [_, kv_heads, keys, _], [_, _, _, v_head]) = (q, k, v) else {
        invalid!("operands of {}, {} and {}", display_shape(q), display_shape(k), display_shape(v));
    };
    let known =
        |heads: &Dim| heads.known().ok_or_else(|| Error::unsupported("a number of heads that is not fixed"));
    check_heads(Sizes {
        merged: false,
        batch: batch.clone(),
        q_heads: known(q_heads)?,
        kv_heads: known(kv_heads)?,
        queries: queries.clone(),
        keys: keys.clone(),
        past: Dim::Known(0),
        head: head.clone(),
        v_head: v_head.clone(),
    })
}

pub(super) fn infer_flex(call: &Call) -> Result<Vec<Fact>> {
    read_flex(call)?;
    let sizes = read_flex_sizes(call)?;
    let y = vec![sizes.batch, Dim::Known(sizes.q_heads), sizes.queries, sizes.v_head];
    Ok(vec![Fact::new(call.dtype(input::Q)?, y)])
}

pub(super) fn expand_flex(expand: &mut Expand) -> Result<bool> {
    let flex = read_flex(expand)?;
    let sizes = read_flex_sizes(expand)?;
    let mut operands = Vec::with_capacity(3);
    for index in [input::Q, input::K, input::V] {
        let x = expand.operand(index)?;
        operands.push(to_single(expand, x)?);
    }
    let scores = scores_of(expand, &sizes, *operands.at(0)?, *operands.at(1)?, flex.scale)?;
    let scores = through(expand, flex.score_mod, scores)?;
    let weights = expand.op("Softmax", &[scores], &[("axis", Attribute::Int(-1))])?;
    let weights = through(expand, flex.prob_mod, weights)?;
    let y = attend_grouped(expand, &sizes, weights, *operands.at(2)?)?;
    let to = Attribute::Int(i64::from(expand.dtype(input::Q)?.to_onnx()));
    let y = expand.op("Cast", &[y], &[("to", to)])?;
    expand.output(0, y)?;
    Ok(true)
}

/// What a body makes of `x`, in the type that it declares.
fn through(expand: &mut Expand, body: Option<&Graph>, x: Operand) -> Result<Operand> {
    let Some(body) = body else { return Ok(x) };
    let wanted = body.inputs.first().and_then(|id| body.value(*id).dtype).unwrap_or(DType::F32);
    let x = expand.op("Cast", &[x], &[("to", Attribute::Int(i64::from(wanted.to_onnx())))])?;
    let made = expand.inline(body, &[x])?;
    to_single(expand, *made.at(0)?)
}
