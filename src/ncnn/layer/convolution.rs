//! Convolutions in one to three dimensions, also in groups.

use super::weight::{convolution, given, int8_scales};
use super::window::{Window, convolve};
use super::windowed::windowed;
use super::{between, exactly};
use crate::tensor::Tensor;

/// Returns 1 for int8 sums that become float32, 101 for those that become int8 again.
fn int8_scale_term(bottom: &Option<Tensor>, top: &Option<Tensor>) -> i32 {
    i32::from(bottom.is_some()) + if top.is_some() { 100 } else { 0 }
}

windowed! {
    /// A convolution in one dimension over `[h, w]`; the weight is `[num_output, h, kernel_w]`.
    81 Convolution1D(between(1, 2), 1) [Gpu] {
        params {
            18 pad_value: f32 = 0.0,
            /// 1: the weight is the second bottom.
            19 dynamic_weight: i32 = 0,
        }
        reads { |l, bottom| convolution(bottom, (l.num_output, 1), &l.windows(), &l.bias_data, l.dynamic_weight) }
        tops { |l, bottoms, _| convolve(bottoms, l.num_output, &l.windows()) }
        work { |l, work| work.convolution(&l.weight_data) }
    }

    /// A convolution in two dimensions over `[c, h, w]`; the weight is `[num_output, c, kernel_h, kernel_w]`.
    6 Convolution(between(1, 2), 2) [Gpu] {
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
        reads { |l, bottom| {
            let mut reads = convolution(bottom, (l.num_output, 1), &l.windows(), &l.bias_data, l.dynamic_weight)?;
            reads.extend(int8_scales(&l.weight_data_int8_scales, &l.top_blob_int8_scales, l.num_output));
            Ok(reads)
        } }
        tops { |l, bottoms, _| convolve(bottoms, l.num_output, &l.windows()) }
        work { |l, work| work.convolution(&l.weight_data) }
        also {
            fn convolves(&self) -> Option<(Vec<Window>, i32, i32)> {
                Some((self.windows(), 1, self.num_output))
            }

            fn bytes(&self) -> (bool, bool) {
                (self.weight_data_int8_scales.is_some(), self.top_blob_int8_scales.is_some())
            }

            fn int8_weights(&self) -> &'static [&'static str] {
                given(&self.weight_data_int8_scales, &["weight_data"])
            }
        }
    }

    /// A convolution in groups; the weight is `[num_output, c / group, kernel_h, kernel_w]`.
    42 ConvolutionDepthWise(between(1, 2), 2) [Gpu] {
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
        reads { |l, bottom| {
            let mut reads = convolution(bottom, (l.num_output, l.group), &l.windows(), &l.bias_data, l.dynamic_weight)?;
            reads.extend(int8_scales(&l.weight_data_int8_scales, &l.top_blob_int8_scales, l.group));
            Ok(reads)
        } }
        tops { |l, bottoms, _| convolve(bottoms, l.num_output, &l.windows()) }
        work { |l, work| work.convolution(&l.weight_data) }
        also {
            fn convolves(&self) -> Option<(Vec<Window>, i32, i32)> {
                Some((self.windows(), self.group.max(1), self.num_output))
            }

            fn bytes(&self) -> (bool, bool) {
                (self.weight_data_int8_scales.is_some(), self.top_blob_int8_scales.is_some())
            }

            fn int8_weights(&self) -> &'static [&'static str] {
                given(&self.weight_data_int8_scales, &["weight_data"])
            }

            fn depthwise_outputs(&self) -> Option<i32> {
                Some(self.num_output)
            }
        }
    }

    /// A convolution in three dimensions over `[c, d, h, w]`; the weight is
    /// `[num_output, c, kernel_d, kernel_h, kernel_w]`.
    84 Convolution3D(exactly(1), 3) [Scalar] {
        params {
            18 pad_value: f32 = 0.0,
        }
        reads { |l, bottom| convolution(bottom, (l.num_output, 1), &l.windows(), &l.bias_data, 0) }
        tops { |l, bottoms, _| convolve(bottoms, l.num_output, &l.windows()) }
        work { |l, work| work.convolution(&l.weight_data) }
    }

    /// A convolution in groups; the weight is `[num_output, c / group, kernel_d, kernel_h, kernel_w]`.
    85 ConvolutionDepthWise3D(exactly(1), 3) [Scalar] {
        params {
            7 group: i32 = 1,
            18 pad_value: f32 = 0.0,
        }
        reads { |l, bottom| convolution(bottom, (l.num_output, l.group), &l.windows(), &l.bias_data, 0) }
        tops { |l, bottoms, _| convolve(bottoms, l.num_output, &l.windows()) }
        work { |l, work| work.convolution(&l.weight_data) }
        also {
            fn depthwise_outputs(&self) -> Option<i32> {
                Some(self.num_output)
            }
        }
    }

    /// A convolution with an offset of each tap, and optionally a factor of each tap. The second bottom
    /// `[kernel_h * kernel_w * 2, h, w]` has the offsets as pairs (y, x), the third one
    /// `[kernel_h * kernel_w, h, w]` the factors.
    93 DeformableConv2D(between(2, 3), 2) [] {
        reads { |l, bottom| convolution(bottom, (l.num_output, 1), &l.windows(), &l.bias_data, 0) }
        tops { |l, bottoms, _| convolve(bottoms, l.num_output, &l.windows()) }
        work { |l, work| work.convolution(&l.weight_data) }
    }
}
