//! Attention and related layers.

use num_traits::AsPrimitive;

use super::shape::unknown;
use super::{OLDEST, between, exactly, layer, weight_len};

layer! {
    /// Multi-head attention with its four linear maps. Bottoms: q, then k and v if they differ, then the mask
    /// if `attn_mask` is 1. The weights of the maps are `[embed_dim, inputs]`, that of the last one
    /// `[inputs of q, embed_dim]`.
    MultiHeadAttention(between(1, 4), exactly(1)) {
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
            6 scale: f32 = 1.0,
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
        tops { unknown }
        since { |layer| if layer.has_usual_scale() { OLDEST } else { 20240820 } }
    }
}

impl MultiHeadAttention {
    /// Returns whether the scale is the one of releases that do not read it (`multiheadattention.cpp`).
    fn has_usual_scale(&self) -> bool {
        let heads = self.embed_dim.checked_div(self.num_heads).unwrap_or(0);
        let width: f32 = heads.as_();
        self.scale == 1.0 / width.sqrt()
    }
}

layer! {
    /// `x * cos + rotated x * sin`, over `[c, h, w]` with `cos` and `sin` of half the width.
    RotaryEmbed(exactly(3), exactly(1)) {
        params {
            /// 1: pairs are adjacent, else half the width apart.
            0 interleaved: i32 = 0,
        }
        tops { unknown }
        since { |_| 20260113 }
    }

    /// Scaled dot product attention. Bottoms: q, k, v, then the mask if `attn_mask` is 1.
    SDPA(between(3, 6), between(1, 3)) {
        params {
            5 attn_mask: i32 = 0,
            /// 0: 1 divided by the square root of the width.
            6 scale: f32 = 0.0,
            7 kv_cache: i32 = 0,
        }
        tops { unknown }
        since { |_| 20260113 }
    }
}
