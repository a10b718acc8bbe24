//! Convolutions and their transposes in one to three dimensions, also in groups.

use super::windowed::windowed;
use super::{between, exactly, weight, window};

windowed! {
    /// A convolution in one dimension over `[h, w]`; the weight is `[num_output, h, kernel_w]`.
    81 Convolution1D(between(1, 2), 1) [Gpu] convolve {
        dynamic { 19 dynamic_weight }
        params { 18 pad_value: f32 = 0.0, }
    }

    /// A convolution in groups; the weight is `[num_output, h / group, kernel_w]`.
    83 ConvolutionDepthWise1D(between(1, 2), 1) [Scalar] convolve {
        group { 7 group }
        dynamic { 19 dynamic_weight }
        params { 18 pad_value: f32 = 0.0, }
    }

    /// A convolution in two dimensions over `[c, h, w]`; the weight is `[num_output, c, kernel_h, kernel_w]`.
    6 Convolution(between(1, 2), 2) [Gpu] convolve {
        dynamic { 19 dynamic_weight }
        int8 { num_output weight_data_int8_scales bottom_blob_int8_scales top_blob_int8_scales }
        params {
            18 pad_value: f32 = 0.0,
            /// Features that the runtime does not use for this layer; bit 6 is Winograd convolution.
            31 featmask: i32 = 0,
        }
        also {
            fn convolves(&self) -> Option<(Vec<window::Window>, i32, i32)> {
                Some((self.windows(), 1, self.num_output))
            }
        }
    }

    /// A convolution in groups; the weight is `[num_output, c / group, kernel_h, kernel_w]`.
    42 ConvolutionDepthWise(between(1, 2), 2) [Gpu] convolve {
        group { 7 group }
        dynamic { 19 dynamic_weight }
        int8 { group weight_data_int8_scales bottom_blob_int8_scales top_blob_int8_scales }
        params { 18 pad_value: f32 = 0.0, }
        also {
            fn convolves(&self) -> Option<(Vec<window::Window>, i32, i32)> {
                Some((self.windows(), self.group.max(1), self.num_output))
            }
        }
    }

    /// A convolution in three dimensions over `[c, d, h, w]`; the weight is
    /// `[num_output, c, kernel_d, kernel_h, kernel_w]`.
    84 Convolution3D(exactly(1), 3) [Scalar] convolve {
        params { 18 pad_value: f32 = 0.0, }
    }

    /// A convolution in groups; the weight is `[num_output, c / group, kernel_d, kernel_h, kernel_w]`.
    85 ConvolutionDepthWise3D(exactly(1), 3) [Scalar] convolve {
        group { 7 group }
        params { 18 pad_value: f32 = 0.0, }
    }

    /// A convolution with an offset of each tap, and optionally a factor of each tap. The second bottom
    /// `[kernel_h * kernel_w * 2, h, w]` has the offsets as pairs (y, x), the third one
    /// `[kernel_h * kernel_w, h, w]` the factors.
    93 DeformableConv2D(between(2, 3), 2) [] convolve {}
}

windowed! {
    /// A transposed convolution over `[h, w]`; the weight is `[num_output, h, kernel_w]`.
    88 Deconvolution1D(between(1, 2), 1) [Scalar] transpose {
        dynamic { 28 dynamic_weight }
        out { output_pad_right }
        params { 18 output_pad_right: i32 = 0, }
    }

    /// A transposed convolution in groups; the weight is `[group, num_output / group, h / group, kernel_w]`.
    89 DeconvolutionDepthWise1D(between(1, 2), 1) [Scalar] transpose {
        group { 7 group }
        dynamic { 28 dynamic_weight }
        out { output_pad_right }
        params { 18 output_pad_right: i32 = 0, }
    }

    /// A transposed convolution over `[c, h, w]`; the weight is `[num_output, c, kernel_h, kernel_w]`.
    8 Deconvolution(between(1, 2), 2) [Gpu] transpose {
        dynamic { 28 dynamic_weight }
        out { output_pad_bottom output_pad_right }
        params { 18 output_pad_right: i32 = 0, }
        depends { 19 output_pad_bottom: i32 = output_pad_right, }
    }

    /// A transposed convolution in groups; the weight is
    /// `[group, num_output / group, c / group, kernel_h, kernel_w]`.
    51 DeconvolutionDepthWise(between(1, 2), 2) [Gpu] transpose {
        group { 7 group }
        dynamic { 28 dynamic_weight }
        out { output_pad_bottom output_pad_right }
        params { 18 output_pad_right: i32 = 0, }
        depends { 19 output_pad_bottom: i32 = output_pad_right, }
    }

    /// A transposed convolution over `[c, d, h, w]`; the weight is
    /// `[num_output, c, kernel_d, kernel_h, kernel_w]`.
    90 Deconvolution3D(exactly(1), 3) [Scalar] transpose {
        out { output_pad_behind output_pad_bottom output_pad_right }
        params { 18 output_pad_right: i32 = 0, }
        depends {
            19 output_pad_bottom: i32 = output_pad_right,
            20 output_pad_behind: i32 = output_pad_right,
        }
    }

    /// A transposed convolution in groups; the weight is
    /// `[group, num_output / group, c / group, kernel_d, kernel_h, kernel_w]`.
    91 DeconvolutionDepthWise3D(exactly(1), 3) [Scalar] transpose {
        group { 7 group }
        out { output_pad_behind output_pad_bottom output_pad_right }
        params { 18 output_pad_right: i32 = 0, }
        depends {
            19 output_pad_bottom: i32 = output_pad_right,
            20 output_pad_behind: i32 = output_pad_right,
        }
    }
}
