//! Convolutions in one to three dimensions, also in groups.

use super::window::{convolve, windowed};
use super::{between, exactly};
use crate::tensor::Tensor;

/// Returns 1 for int8 sums that become float32, 101 for those that become int8 again.
fn int8_scale_term(bottom: &Option<Tensor>, top: &Option<Tensor>) -> i32 {
    i32::from(bottom.is_some()) + if top.is_some() { 100 } else { 0 }
}

windowed! {
    /// A convolution in one dimension over `[h, w]`; the weight is `[num_output, h, kernel_w]`.
    Convolution1D(between(1, 2), 1) {
        params {
            18 pad_value: f32 = 0.0,
            /// 1: the weight is the second bottom.
            19 dynamic_weight: i32 = 0,
        }
        tops { |l, bottoms, _| convolve(bottoms, l.num_output, &l.windows()) }
    }

    /// A convolution in two dimensions over `[c, h, w]`; the weight is `[num_output, c, kernel_h, kernel_w]`.
    Convolution(between(1, 2), 2) {
        params {
            18 pad_value: f32 = 0.0,
            /// 1: the weight is the second bottom.
            19 dynamic_weight: i32 = 0,
            /// Features that the runtime does not use for this layer; bit 6 is Winograd convolution.
            31 featmask: i32 = 0,
        }
        derived {
            8 int8_scale_term = |layer| int8_scale_term(&layer.bottom_blob_int8_scales, &layer.top_blob_int8_scales),
        }
        weights {
            Raw weight_data_int8_scales,
            Raw bottom_blob_int8_scales,
            Raw top_blob_int8_scales,
        }
        tops { |l, bottoms, _| convolve(bottoms, l.num_output, &l.windows()) }
    }

    /// A convolution in groups; the weight is `[num_output, c / group, kernel_h, kernel_w]`.
    ConvolutionDepthWise(between(1, 2), 2) {
        params {
            7 group: i32 = 1,
            18 pad_value: f32 = 0.0,
            /// 1: the weight is the second bottom.
            19 dynamic_weight: i32 = 0,
        }
        derived {
            8 int8_scale_term = |layer| int8_scale_term(&layer.bottom_blob_int8_scales, &layer.top_blob_int8_scales),
        }
        weights {
            Raw weight_data_int8_scales,
            Raw bottom_blob_int8_scales,
            Raw top_blob_int8_scales,
        }
        tops { |l, bottoms, _| convolve(bottoms, l.num_output, &l.windows()) }
    }

    /// A convolution in three dimensions over `[c, d, h, w]`; the weight is
    /// `[num_output, c, kernel_d, kernel_h, kernel_w]`.
    Convolution3D(exactly(1), 3) {
        params {
            18 pad_value: f32 = 0.0,
        }
        tops { |l, bottoms, _| convolve(bottoms, l.num_output, &l.windows()) }
    }

    /// A convolution in groups; the weight is `[num_output, c / group, kernel_d, kernel_h, kernel_w]`.
    ConvolutionDepthWise3D(exactly(1), 3) {
        params {
            7 group: i32 = 1,
            18 pad_value: f32 = 0.0,
        }
        tops { |l, bottoms, _| convolve(bottoms, l.num_output, &l.windows()) }
    }

    /// A convolution with an offset of each tap, and optionally a factor of each tap. The second bottom
    /// `[kernel_h * kernel_w * 2, h, w]` has the offsets as pairs (y, x), the third one
    /// `[kernel_h * kernel_w, h, w]` the factors.
    DeformableConv2D(between(2, 3), 2) {
        tops { |l, bottoms, _| convolve(bottoms, l.num_output, &l.windows()) }
    }
}
