//! PlainAttention of ncnn's domain: `softmax(scale * q * transpose(k) + mask) * v` for each head, to which attentions are
//! expanded.
//!
//! The inputs are queries, `[batch, heads, queries, size]`, and keys and values, `[batch, key heads, keys, size]`; the
//! mask, which is broadcast to the scores. Fusions make one layer of it and what is around it; the rest is SDPA, or is
//! expanded after them.

use num_traits::AsPrimitive;

use super::parts::{Sizes, attend};
use crate::ncnn::layer::SDPA;
use crate::ops::prelude::*;

pub(in crate::ops) const OPS: &[Row] =
    &[Row::of(OWN_DOMAIN, "PlainAttention", Access::Any, infer_plain)
        .expand(expand_plain)
        .lower(lower_plain)
        .multiply_adds(|call| sizes(call).ok()?.multiply_adds())
        .lowers_to("SDPA for runtimes that have it; Mul, MatMul, Add, Softmax, MatMul")];

/// The indices of the inputs.
mod input {
    pub const Q: usize = 0;
    pub const K: usize = 1;
    pub const V: usize = 2;
    pub const MASK: usize = 3;
}

fn sizes(call: &Call) -> Result<Sizes> {
    let shapes = [call.shape(input::Q)?, call.shape(input::K)?, call.shape(input::V)?];
    let ([batch, q_heads, queries, head], [_, kv_heads, keys, _], [_, _, _, v_head]) = shapes.into() else {
        invalid!("operands without four axes");
    };
    let (Some(q_heads), Some(kv_heads)) = (q_heads.known(), kv_heads.known()) else {
        unsupported!("the number of heads is known only at run time");
    };
    Ok(Sizes {
        merged: false,
        batch: batch.clone(),
        q_heads,
        kv_heads,
        queries: queries.clone(),
        keys: keys.clone(),
        past: Dim::Known(0),
        head: head.clone(),
        v_head: v_head.clone(),
    })
}

fn infer_plain(call: &Call) -> Result<Vec<Fact>> {
    let Sizes { batch, q_heads, queries, v_head, .. } = sizes(call)?;
    Ok(vec![Fact::new(call.dtype(input::Q)?, vec![batch, Dim::Known(q_heads), queries, v_head])])
}

/// Returns whether SDPA computes the same: no mask, one batch, and a scale that is not its default.
fn is_layer(call: &Call, release: u32) -> Result<bool> {
    let scale = call.float("scale")?;
    let is_one = call.shape(input::Q)?.first().is_some_and(|batch| batch.is(1));
    Ok(SDPA::default().since() <= release
        && is_one
        && !call.has_input(input::MASK)
        && scale.is_finite()
        && scale != 0.0)
}

fn expand_plain(x: &Expand) -> Result<bool> {
    if !x.expands_attention() || is_layer(x, x.release())? {
        return Ok(false);
    }
    let [q, k, v] = [input::Q, input::K, input::V].map(|index| x.operand(index));
    let operands = [q * x.float("scale")?, k.transpose(&[0, 1, 3, 2]), v];
    let zeroes_nan = x.flag("zeroes_nan")?;
    let y = attend(&sizes(x)?, operands, |scores| {
        let weights = scores.add_optional(x.optional(input::MASK)).softmax(-1);
        Ok(if zeroes_nan { weights.is_nan().select(0.0, weights) } else { weights })
    })?;
    x.output(0, y);
    Ok(true)
}

fn lower_plain(lower: &mut Lower) -> Result<()> {
    let mut bottoms = Vec::new();
    for index in [input::Q, input::K, input::V] {
        let form = lower.shape(index)?.get(1..).unwrap_or_default().to_vec();
        bottoms.push(lower.blob_as(index, &form)?);
    }
    let form = lower.output_shape(0)?.get(1..).unwrap_or_default().to_vec();
    let size: f32 = lower.shape(input::Q)?.last().and_then(Dim::known).unwrap_or(1).as_();
    // 0 is the layer's default.
    let scale = Some(lower.float("scale")?).filter(|scale| *scale != 1.0 / size.sqrt()).unwrap_or(0.0);
    let y = lower.emit(SDPA { scale, ..SDPA::default() }, &bottoms, &form)?;
    lower.set(0, y)
}
