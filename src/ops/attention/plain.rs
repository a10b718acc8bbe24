//! PlainAttention of ncnn's domain: `softmax(scale * q * transpose(k) + mask) * v` by heads. Attentions are
//! expanded to it.
//!
//! The inputs are queries, `[batch, heads, queries, size]`, and keys and values, `[batch, key heads, keys,
//! size]`; the mask, which is broadcast to the scores. Fusions make one layer of it and its neighbours;
//! the rest is SDPA, or is expanded after them.

use num_traits::AsPrimitive;

use super::parts::{HIDDEN, Sizes, attend};
use crate::ncnn::layer::SDPA;
use crate::ops::prelude::*;

pub(in crate::ops) const OPS: &[Row] = &[
    Row::of(NCNN_DOMAIN, "PlainAttention", Access::Any, infer_plain)
        .expand(expand_plain)
        .lower(lower_plain)
        .multiply_adds(|call| Sizes::of_heads(call).ok()?.multiply_adds())
        .lowers_to("SDPA for runtimes that have it; Mul, MatMul, Add, Softmax, MatMul"),
    // A mask in which minus infinity needs no care.
    Row::of(NCNN_DOMAIN, "WithoutInfinity", Access::View, infer_same)
        .range(|_, _| Range { least: f64::from(HIDDEN), most: f64::INFINITY })
        .lower(|lower| lower.give(0, lower.input(0))),
];

/// The indices of the inputs.
mod input {
    pub const Q: usize = 0;
    pub const K: usize = 1;
    pub const V: usize = 2;
    pub const MASK: usize = 3;
}

fn infer_plain(call: &Call) -> Result<Vec<Fact>> {
    let Sizes { batch, q_heads, queries, keys, v_head, .. } = Sizes::of_heads(call)?;
    call.check_broadcasts(input::MASK, &shape![&batch, q_heads, &queries, keys])?;
    Ok(vec![Fact::new(call.dtype(input::Q)?, vec![batch, Dim::Known(q_heads), queries, v_head])])
}

/// Returns whether SDPA computes the same: one batch, a scale that is not its default, and a mask with an
/// element for each query and key, which leaves each query a key or is finite.
fn is_layer(call: &Call, release: u32) -> Result<bool> {
    let scale = call.float("scale")?;
    let Sizes { batch, q_heads, queries, keys, .. } = Sizes::of_heads(call)?;
    let fits = match call.has_input(input::MASK).then(|| call.shape(input::MASK)).transpose()? {
        None => true,
        Some([outer @ .., rows, columns]) => {
            let outer = Dim::product(outer);
            *rows == queries && *columns == keys && (outer.is(1) || outer.is(q_heads))
        }
        Some(_) => false,
    };
    let is_new = SDPA::default().since() <= release;
    // Releases before 20261020 divide the mask by the scale. Constants leave each query a key.
    let is_computed = call.has_input(input::MASK) && call.constant(input::MASK).is_none();
    let stays_finite = call.range(input::MASK).least >= f64::from(f32::MIN) * f64::from(scale.abs().min(1.0));
    let is_usual = (1e-6..1e6).contains(&scale.abs()) && (!is_computed || stays_finite);
    Ok(is_new && batch.is(1) && fits && is_usual && !call.flag("zeroes_nan")?)
}

fn expand_plain(x: &Expand) -> Result<bool> {
    if !x.expands_attention() || is_layer(x, x.release())? {
        return Ok(false);
    }
    let [q, k, v] = [input::Q, input::K, input::V].map(|index| x.operand(index));
    let operands = [q * x.float("scale")?, k.transpose(&[0, 1, 3, 2]), v];
    let zeroes_nan = x.flag("zeroes_nan")?;
    let y = attend(&Sizes::of_heads(x)?, operands, |scores| {
        let weights = scores.add_optional(x.optional(input::MASK)).softmax(-1);
        Ok(if zeroes_nan { weights.is_nan().select(0.0, weights) } else { weights })
    })?;
    x.output(0, y);
    Ok(true)
}

fn lower_plain(lower: &Lower) -> Result<()> {
    let bottoms = operands(lower, [input::Q, input::K, input::V], input::MASK);
    let attn_mask = i32::from(lower.has_input(input::MASK));
    let shape = lower.output_shape(0)?.get(1..).unwrap_or_default();
    let size: f32 = lower.shape(input::Q)?.last().and_then(Dim::known).unwrap_or(1).as_();
    // 0 is the layer's default.
    let scale = Some(lower.float("scale")?).filter(|scale| *scale != 1.0 / size.sqrt()).unwrap_or(0.0);
    lower.give(0, lower.layer(SDPA { attn_mask, scale, kv_cache: 0 }, &bottoms, shape))
}

/// Returns queries, keys and values without their batch, and the mask, if there is one.
pub(super) fn operands<'l>(lower: &'l Lower, heads: [usize; 3], mask_index: usize) -> Vec<Nd<'l>> {
    let heads = heads.into_iter().map(|index| {
        let x = lower.input(index);
        x.reshape(x.shape().get(1..).unwrap_or_default())
    });
    heads.chain(lower.has_input(mask_index).then(|| mask(lower.input(mask_index)))).collect()
}

/// Returns the mask of a layer: an element for each query and key, for each head if they differ.
pub(super) fn mask(x: Nd) -> Nd {
    let shape = x.shape();
    let (outer, scores) = shape.split_at(shape.len().saturating_sub(2));
    let heads = Some(Dim::product(outer)).filter(|heads| !heads.is(1));
    x.reshape(heads.into_iter().chain(scores.iter().cloned()).collect::<Shape>())
}
