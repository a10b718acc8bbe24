//! Attention and related layers.

use num_traits::AsPrimitive;

use super::shape::unknown;
use super::weight::{Reads, innermost, product};
use super::work::{self, Work, elements};
use super::{OLDEST, between, exactly, layer, weight_len};
use crate::error::invalid;
use crate::tensor::Dim;

layer! {
    /// Multi-head attention with its four linear maps. Bottoms: q, then k and v if they differ, then the mask
    /// if `attn_mask` is 1. The weights of the maps are `[embed_dim, inputs]`, that of the last one
    /// `[inputs of q, embed_dim]`.
    79 MultiHeadAttention(between(1, 4), exactly(1)) [Gpu OnRequest] {
        params {
            0 embed_dim: i32 = 0,
            1 num_heads: i32 = 1,
            5 attn_mask: i32 = 0,
        }
        depends {
            3 kdim: i32 = embed_dim,
            4 vdim: i32 = embed_dim,
        }
        always {
            /// The factor of the scores.
            6 scale: f32 = 1.0 => MultiHeadAttention::usual_scale,
        }
        derived {
            2 weight_data_size = |layer| weight_len(&layer.q_weight_data),
        }
        weights {
            Tagged q_weight_data,
            Raw q_bias_data,
            Tagged k_weight_data,
            Raw k_bias_data,
            Tagged v_weight_data,
            Raw v_bias_data,
            Tagged out_weight_data,
            Raw out_bias_data,
        }
        reads { MultiHeadAttention::reads }
        tops { unknown }
        work { MultiHeadAttention::work }
        since { |layer| if layer.has_usual_scale() { OLDEST } else { 20240820 } }
    }
}

impl MultiHeadAttention {
    fn reads(&self, bottom: &[Dim]) -> Reads {
        if self.num_heads < 1 || self.embed_dim % self.num_heads != 0 {
            invalid!("{} elements in {} heads", self.embed_dim, self.num_heads);
        }
        let (qdim, embed) = (innermost(bottom), Some(i64::from(self.embed_dim)));
        let from_q = qdim.map(|qdim| qdim.saturating_mul(i64::from(self.embed_dim)));
        Ok(vec![
            ("q_weight_data", from_q),
            ("q_bias_data", embed),
            ("k_weight_data", Some(product(&[self.embed_dim, self.kdim])?)),
            ("k_bias_data", embed),
            ("v_weight_data", Some(product(&[self.embed_dim, self.vdim])?)),
            ("v_bias_data", embed),
            ("out_weight_data", from_q),
            ("out_bias_data", qdim),
        ])
    }

    fn work(&self, work: &Work) -> Option<u64> {
        let data = work.bottoms.len().checked_sub(usize::from(self.attn_mask != 0))?;
        let (queries, keys) = (work.rows(0)?, work.rows(usize::from(data > 1))?);
        let of = |a, b| work::weight_len(a).checked_add(work::weight_len(b));
        let maps = queries.checked_mul(of(&self.q_weight_data, &self.out_weight_data)?)?;
        let others = keys.checked_mul(of(&self.k_weight_data, &self.v_weight_data)?)?;
        let width = u64::try_from(self.embed_dim).ok()?;
        let scores = queries.checked_mul(keys)?.checked_mul(width)?.checked_mul(2)?;
        maps.checked_add(others)?.checked_add(scores)
    }

    /// Returns the scale of releases that do not read it, and of files without it (`multiheadattention.cpp`).
    fn usual_scale(&self) -> f32 {
        let heads = self.embed_dim.checked_div(self.num_heads).unwrap_or(0);
        let width: f32 = heads.as_();
        1.0 / width.sqrt()
    }

    /// Returns whether the scale is that of releases that do not read it.
    fn has_usual_scale(&self) -> bool {
        self.scale == self.usual_scale()
    }
}

layer! {
    /// `x * cos + rotated x * sin`, over `[c, h, w]` with `cos` and `sin` of half the width.
    109 RotaryEmbed(exactly(3), exactly(1)) [Gpu] {
        params {
            /// 1: pairs are adjacent, else with a distance of half the width.
            0 interleaved: i32 = 0,
        }
        tops { unknown }
        since { |_| 20260113 }
    }

    /// Scaled dot product attention. Bottoms: q, k, v, then the mask if `attn_mask` is 1.
    108 SDPA(between(3, 6), between(1, 3)) [Gpu OnRequest] {
        params {
            5 attn_mask: i32 = 0,
            /// 0: 1 divided by the square root of the width.
            6 scale: f32 = 0.0,
            7 kv_cache: i32 = 0,
        }
        tops { unknown }
        work { |_, work| work.rows(1)?.checked_mul(elements(work.bottom(0)?).checked_add(elements(work.top()?))?) }
        since { |_| 20260113 }
        also {
            fn accepts_empty(&self, index: usize) -> bool {
                // The caches, which follow the other bottoms.
                self.kv_cache != 0 && index >= if self.attn_mask != 0 { 4 } else { 3 }
            }

            fn computes_cache(&self, index: usize) -> bool {
                self.kv_cache != 0 && index > 0
            }
        }
    }
}
