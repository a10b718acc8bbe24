//! Transposed convolutions in one to three dimensions, also in groups.

use super::weight::convolution;
use super::window::transpose;
use super::windowed::windowed;
use super::{between, exactly};

windowed! {
    /// A transposed convolution over `[h, w]`; the weight is `[num_output, h, kernel_w]`.
    88 Deconvolution1D(between(1, 2), 1) [Scalar] {
        params {
            18 output_pad_right: i32 = 0,
            /// 1: the weight is the second bottom.
            28 dynamic_weight: i32 = 0,
        }
        reads { |l, bottom| convolution(bottom, (l.num_output, 1), &l.windows(), &l.bias_data, l.dynamic_weight) }
        tops { |l, bottoms, _| transpose(bottoms, l.num_output, &l.windows(), &[l.output_pad_right]) }
        work { |l, work| work.transposed(&l.weight_data) }
    }

    /// A transposed convolution over `[c, h, w]`; the weight is `[num_output, c, kernel_h, kernel_w]`.
    8 Deconvolution(between(1, 2), 2) [Gpu] {
        params {
            18 output_pad_right: i32 = 0,
            /// 1: the weight is the second bottom.
            28 dynamic_weight: i32 = 0,
        }
        depends {
            19 output_pad_bottom: i32 = output_pad_right,
        }
        reads { |l, bottom| convolution(bottom, (l.num_output, 1), &l.windows(), &l.bias_data, l.dynamic_weight) }
        tops { |l, bottoms, _| {
            let output_pads = [l.output_pad_bottom, l.output_pad_right];
            transpose(bottoms, l.num_output, &l.windows(), &output_pads)
        } }
        work { |l, work| work.transposed(&l.weight_data) }
    }

    /// A transposed convolution in groups; the weight is
    /// `[group, num_output / group, c / group, kernel_h, kernel_w]`.
    51 DeconvolutionDepthWise(between(1, 2), 2) [Gpu] {
        params {
            7 group: i32 = 1,
            18 output_pad_right: i32 = 0,
            /// 1: the weight is the second bottom.
            28 dynamic_weight: i32 = 0,
        }
        depends {
            19 output_pad_bottom: i32 = output_pad_right,
        }
        reads { |l, bottom| convolution(bottom, (l.num_output, l.group), &l.windows(), &l.bias_data, l.dynamic_weight) }
        tops { |l, bottoms, _| {
            let output_pads = [l.output_pad_bottom, l.output_pad_right];
            transpose(bottoms, l.num_output, &l.windows(), &output_pads)
        } }
        work { |l, work| work.transposed(&l.weight_data) }
        also {
            fn depthwise_outputs(&self) -> Option<i32> {
                Some(self.num_output)
            }
        }
    }

    /// A transposed convolution over `[c, d, h, w]`; the weight is
    /// `[num_output, c, kernel_d, kernel_h, kernel_w]`.
    90 Deconvolution3D(exactly(1), 3) [Scalar] {
        params {
            18 output_pad_right: i32 = 0,
        }
        depends {
            19 output_pad_bottom: i32 = output_pad_right,
            20 output_pad_behind: i32 = output_pad_right,
        }
        reads { |l, bottom| convolution(bottom, (l.num_output, 1), &l.windows(), &l.bias_data, 0) }
        tops { |l, bottoms, _| {
            let output_pads = [l.output_pad_behind, l.output_pad_bottom, l.output_pad_right];
            transpose(bottoms, l.num_output, &l.windows(), &output_pads)
        } }
        work { |l, work| work.transposed(&l.weight_data) }
    }

    /// A transposed convolution in groups; the weight is
    /// `[group, num_output / group, c / group, kernel_d, kernel_h, kernel_w]`.
    91 DeconvolutionDepthWise3D(exactly(1), 3) [Scalar] {
        params {
            7 group: i32 = 1,
            18 output_pad_right: i32 = 0,
        }
        depends {
            19 output_pad_bottom: i32 = output_pad_right,
            20 output_pad_behind: i32 = output_pad_right,
        }
        reads { |l, bottom| convolution(bottom, (l.num_output, l.group), &l.windows(), &l.bias_data, 0) }
        tops { |l, bottoms, _| {
            let output_pads = [l.output_pad_behind, l.output_pad_bottom, l.output_pad_right];
            transpose(bottoms, l.num_output, &l.windows(), &output_pads)
        } }
        work { |l, work| work.transposed(&l.weight_data) }
        also {
            fn depthwise_outputs(&self) -> Option<i32> {
                Some(self.num_output)
            }
        }
    }
}
