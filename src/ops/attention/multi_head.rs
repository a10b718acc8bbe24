//! MultiHeadAttention of ncnn's domain: attention with its four linear maps, as ncnn's layer computes it.
//!
//! The inputs are queries, keys and values; weight, `[outputs, inputs]`, and bias of their maps and of the
//! last one, all constants; the mask that is added to the scores. Scores are divided by the root of the size
//! of a head. All axes but the last are positions; there is no batch.

use super::plain::mask;
use crate::ncnn::layer::MultiHeadAttention;
use crate::ops::prelude::*;

pub(in crate::ops) const OPS: &[Row] =
    &[Row::of(NCNN_DOMAIN, "MultiHeadAttention", Access::Any, infer_multi_head)
        .lower(lower_multi_head)
        .lowers_to("MultiHeadAttention")];

/// The indices of the inputs.
mod input {
    pub const Q: usize = 0;
    pub const K: usize = 1;
    pub const V: usize = 2;
    /// Weight and bias in turn, of queries, keys, values and the last map.
    pub const WEIGHTS: usize = 3;
    pub const OUT_WEIGHT: usize = 9;
    pub const MASK: usize = 11;
}

fn read_heads(call: &Call) -> Result<i64> {
    let heads = call.int("num_heads")?;
    if heads < 1 {
        invalid!("{heads} heads");
    }
    Ok(heads)
}

fn infer_multi_head(call: &Call) -> Result<Vec<Fact>> {
    let mut shape = call.shape(input::Q)?.to_vec();
    if let (Some(last), Some(outputs)) = (shape.last_mut(), call.shape(input::OUT_WEIGHT)?.first()) {
        *last = outputs.clone();
    }
    Ok(vec![Fact::new(call.dtype(input::Q)?, shape)])
}

/// Returns the rows of an input: one for each index of all axes but the last.
fn rows(x: Nd) -> Nd {
    x.flatten(x.shape().len().saturating_sub(1))
}

fn lower_multi_head(lower: &Lower) -> Result<()> {
    let heads = i32::try_from(read_heads(lower)?)?;
    let ids = [input::Q, input::K, input::V].map(|index| lower.node().input(index));
    // For an omitted bottom the layer reads the one before.
    let bottom_count = match ids {
        [q, k, v] if q == k && k == v => 1,
        [_, k, v] if k == v => 2,
        _ => 3,
    };
    let mut bottoms: Vec<Nd> = (0..bottom_count).map(|index| rows(lower.input(index))).collect();
    let shape = bottoms.at(0)?.shape();
    let attn_mask = i32::from(lower.has_input(input::MASK));
    if attn_mask == 1 {
        bottoms.push(mask(lower.input(input::MASK)));
    }
    let size = |index: usize, axis: usize| -> Result<i32> {
        let size = lower.shape(index)?.at(axis)?.known();
        Ok(i32::try_from(size.ok_or_else(|| Error::internal("the sizes of the weight are unknown"))?)?)
    };
    let weight = |index: usize| lower.required_constant(input::WEIGHTS + index).cloned().map(Some);
    let embed_dim = size(input::WEIGHTS, 0)?;
    let width = embed_dim.checked_div(heads).unwrap_or(1);
    let layer = MultiHeadAttention {
        embed_dim,
        num_heads: heads,
        kdim: size(input::WEIGHTS + 2, 1)?,
        vdim: size(input::WEIGHTS + 4, 1)?,
        attn_mask,
        scale: 1.0 / num_traits::AsPrimitive::<f32>::as_(width).sqrt(),
        q_weight_data: weight(0)?,
        q_bias_data: weight(1)?,
        k_weight_data: weight(2)?,
        k_bias_data: weight(3)?,
        v_weight_data: weight(4)?,
        v_bias_data: weight(5)?,
        out_weight_data: weight(6)?,
        out_bias_data: weight(7)?,
    };
    lower.give(0, lower.layer(layer, &bottoms, shape))
}
