//! SDPA, the layer for attention in newer releases of ncnn.

use super::{AttentionAttributes, Sizes, input, read_attention, read_sizes};
use crate::ncnn::layer::SDPA;
use crate::ops::prelude::*;

/// Returns whether SDPA computes the same: no states, no mask, no bound or output of the scores, one batch,
/// and float32.
pub(super) fn is_plain(call: &Call, attention: &AttentionAttributes, sizes: &Sizes) -> Result<bool> {
    let node = call.node();
    let more =
        node.inputs.iter().skip(input::ATTN_MASK).chain(node.outputs.iter().skip(1)).any(Option::is_some);
    let masked = attention.is_causal || attention.left_window.is_some() || attention.right_window.is_some();
    // The layer's default scale, 0, is the reciprocal root of the size of a head.
    let scaled = attention.scale.is_none_or(|scale| scale != 0.0 && scale.is_finite());
    let mut singles = sizes.batch.is(1);
    for index in [input::Q, input::K, input::V] {
        singles &= call.dtype(index)? == DType::F32;
    }
    Ok(!more && !masked && singles && scaled && attention.softcap <= 0.0)
}

/// Returns the layer for these attributes.
pub(super) fn sdpa(attention: &AttentionAttributes) -> SDPA {
    SDPA { scale: attention.scale.unwrap_or(0.0), ..SDPA::default() }
}

/// Lowers operands with an axis of heads.
pub(super) fn lower_attention(lower: &mut Lower) -> Result<()> {
    let attention = read_attention(lower)?;
    let sizes = read_sizes(lower, &attention)?;
    let heads = [sizes.q_heads, sizes.kv_heads, sizes.kv_heads].map(Dim::Known);
    let rows = [sizes.queries.clone(), sizes.keys.clone(), sizes.keys.clone()];
    let columns = [sizes.head.clone(), sizes.head.clone(), sizes.v_head.clone()];
    let mut bottoms = Vec::new();
    for (index, ((heads, rows), columns)) in heads.into_iter().zip(rows).zip(columns).enumerate() {
        bottoms.push(lower.blob_as(index, &[heads, rows, columns])?);
    }
    let form = [Dim::Known(sizes.q_heads), sizes.queries, sizes.v_head];
    let y = lower.emit(sdpa(&attention), &bottoms, &form)?;
    lower.set(0, y)
}
