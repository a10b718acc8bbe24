//! Layers that interpolate or pool regions.

use super::shape::{Size, Sizes, Tops, one, unknown};
use super::{EXPRESSIONS, OLDEST, between, exactly, layer};
use crate::error::{At, Result, unsupported};

layer! {
    /// Samples at the coordinates in the second bottom.
    97 GridSample(exactly(2), exactly(1)) {
        params {
            /// 1 bilinear, 2 nearest, 3 bicubic.
            0 sample_type: i32 = 1,
            /// 1 zeros, 2 border, 3 reflection.
            1 padding_mode: i32 = 1,
            2 align_corner: i32 = 0,
            /// 1: the grid is `[c, h, w]`, with the coordinates along c.
            3 permute_fusion: i32 = 0,
        }
        tops { unknown }
    }

    /// Resizes height and width.
    50 Interp(between(1, 32), exactly(1)) [Gpu] {
        params {
            /// 1 nearest, 2 bilinear, 3 bicubic.
            0 resize_type: i32 = 0,
            1 height_scale: f32 = 1.0,
            2 width_scale: f32 = 1.0,
            3 output_height: i32 = 0,
            4 output_width: i32 = 0,
            /// 1: resize to the size of the second bottom.
            5 dynamic_target_size: i32 = 0,
            6 align_corner: i32 = 0,
            /// Width and height as expressions over the bottoms.
            9 size_expr: String = String::new(),
        }
        tops { Interp::top }
        since { |layer| if layer.size_expr.is_empty() { OLDEST } else { EXPRESSIONS } }
        also {
            fn reads_only_size(&self, index: usize) -> bool {
                index > 0
            }
        }
    }
}

impl Interp {
    fn top(&self, bottoms: &[Sizes], _: usize) -> Result<Tops> {
        if bottoms.len() != 1 || !self.size_expr.is_empty() || self.output_width == 0 {
            return Ok(None);
        }
        let (height, width) = (Size::from(self.output_height), Size::from(self.output_width));
        match *bottoms.at(0)?.as_slice() {
            [w] => one([w, height, width]),
            [h, _] => one([h, width]),
            [c, _, _] => one([c, height, width]),
            ref bottom => unsupported!("a bottom of {bottom:?}"),
        }
    }
}

layer! {
    /// Averages over the bins of regions.
    61 ROIAlign(exactly(2), exactly(1)) {
        params {
            0 pooled_width: i32 = 0,
            1 pooled_height: i32 = 0,
            2 spatial_scale: f32 = 1.0,
            3 sampling_ratio: i32 = 0,
            4 aligned: i32 = 0,
            5 version: i32 = 0,
        }
        tops { unknown }
    }

    /// Maxima over the bins of regions.
    28 ROIPooling(exactly(2), exactly(1)) {
        params {
            0 pooled_width: i32 = 0,
            1 pooled_height: i32 = 0,
            2 spatial_scale: f32 = 1.0,
        }
        tops { unknown }
    }
}
