//! Convolutions in one to three dimensions, whole and in groups.

use super::window::{convolve, window, windows};
use super::{between, exactly, layer, weight_len};

layer! {
    /// A convolution in one dimension over `[h, w]`; the weight is `[num_output, h, kernel_w]`.
    Convolution1D(between(1, 2), exactly(1)) {
        params {
            0 num_output: i32 = 0,
            1 kernel_w: i32 = 0,
            2 dilation_w: i32 = 1,
            3 stride_w: i32 = 1,
            /// Padding on the left, or a mode: -233 SAME_UPPER, -234 SAME_LOWER.
            4 pad_left: i32 = 0,
            9 activation_type: i32 = 0,
            10 activation_params: Vec<f32> = Vec::new(),
            18 pad_value: f32 = 0.0,
            /// 1: the weight is the second bottom.
            19 dynamic_weight: i32 = 0,
        }
        depends {
            15 pad_right: i32 = pad_left,
        }
        derived {
            5 bias_term = |layer| i32::from(layer.bias_data.is_some()),
            6 weight_data_size = |layer| weight_len(&layer.weight_data),
        }
        weights {
            Tagged weight_data,
            Raw bias_data,
        }
        tops { |l, bottoms, _| convolve(bottoms, l.num_output, &windows!(l, 1)) }
    }
}

layer! {
    /// A convolution in groups over `[h, w]`; the weight is `[num_output, h / group, kernel_w]`.
    ConvolutionDepthWise1D(between(1, 2), exactly(1)) {
        params {
            0 num_output: i32 = 0,
            1 kernel_w: i32 = 0,
            2 dilation_w: i32 = 1,
            3 stride_w: i32 = 1,
            /// Padding on the left, or a mode: -233 SAME_UPPER, -234 SAME_LOWER.
            4 pad_left: i32 = 0,
            7 group: i32 = 1,
            9 activation_type: i32 = 0,
            10 activation_params: Vec<f32> = Vec::new(),
            18 pad_value: f32 = 0.0,
            /// 1: the weight is the second bottom.
            19 dynamic_weight: i32 = 0,
        }
        depends {
            15 pad_right: i32 = pad_left,
        }
        derived {
            5 bias_term = |layer| i32::from(layer.bias_data.is_some()),
            6 weight_data_size = |layer| weight_len(&layer.weight_data),
        }
        weights {
            Tagged weight_data,
            Raw bias_data,
        }
        tops { |l, bottoms, _| convolve(bottoms, l.num_output, &windows!(l, 1)) }
    }
}

layer! {
    /// A convolution in two dimensions over `[c, h, w]`; the weight is `[num_output, c, kernel_h, kernel_w]`.
    Convolution(between(1, 2), exactly(1)) {
        params {
            0 num_output: i32 = 0,
            1 kernel_w: i32 = 0,
            2 dilation_w: i32 = 1,
            3 stride_w: i32 = 1,
            /// Padding on the left, or a mode: -233 SAME_UPPER, -234 SAME_LOWER.
            4 pad_left: i32 = 0,
            9 activation_type: i32 = 0,
            10 activation_params: Vec<f32> = Vec::new(),
            18 pad_value: f32 = 0.0,
            /// 1: the weight is the second bottom.
            19 dynamic_weight: i32 = 0,
            /// What the runtime leaves out for this layer: bit 6 is Winograd's transforms.
            31 featmask: i32 = 0,
        }
        depends {
            11 kernel_h: i32 = kernel_w,
            12 dilation_h: i32 = dilation_w,
            13 stride_h: i32 = stride_w,
            14 pad_top: i32 = pad_left,
            15 pad_right: i32 = pad_left,
            16 pad_bottom: i32 = pad_top,
        }
        derived {
            5 bias_term = |layer| i32::from(layer.bias_data.is_some()),
            6 weight_data_size = |layer| weight_len(&layer.weight_data),
            8 int8_scale_term = |layer| i32::from(layer.bottom_blob_int8_scales.is_some()),
        }
        weights {
            Tagged weight_data,
            Raw bias_data,
            Raw weight_data_int8_scales,
            Raw bottom_blob_int8_scales,
        }
        tops { |l, bottoms, _| convolve(bottoms, l.num_output, &windows!(l, 2)) }
    }
}

layer! {
    /// A convolution in groups; the weight is `[num_output, c / group, kernel_h, kernel_w]`.
    ConvolutionDepthWise(between(1, 2), exactly(1)) {
        params {
            0 num_output: i32 = 0,
            1 kernel_w: i32 = 0,
            2 dilation_w: i32 = 1,
            3 stride_w: i32 = 1,
            /// Padding on the left, or a mode: -233 SAME_UPPER, -234 SAME_LOWER.
            4 pad_left: i32 = 0,
            7 group: i32 = 1,
            9 activation_type: i32 = 0,
            10 activation_params: Vec<f32> = Vec::new(),
            18 pad_value: f32 = 0.0,
            /// 1: the weight is the second bottom.
            19 dynamic_weight: i32 = 0,
        }
        depends {
            11 kernel_h: i32 = kernel_w,
            12 dilation_h: i32 = dilation_w,
            13 stride_h: i32 = stride_w,
            14 pad_top: i32 = pad_left,
            15 pad_right: i32 = pad_left,
            16 pad_bottom: i32 = pad_top,
        }
        derived {
            5 bias_term = |layer| i32::from(layer.bias_data.is_some()),
            6 weight_data_size = |layer| weight_len(&layer.weight_data),
            8 int8_scale_term = |layer| i32::from(layer.bottom_blob_int8_scales.is_some()),
        }
        weights {
            Tagged weight_data,
            Raw bias_data,
            Raw weight_data_int8_scales,
            Raw bottom_blob_int8_scales,
        }
        tops { |l, bottoms, _| convolve(bottoms, l.num_output, &windows!(l, 2)) }
    }
}

layer! {
    /// A convolution in three dimensions over `[c, d, h, w]`; the weight is `[num_output, c, kernel_d, kernel_h, kernel_w]`.
    Convolution3D(exactly(1), exactly(1)) {
        params {
            0 num_output: i32 = 0,
            1 kernel_w: i32 = 0,
            2 dilation_w: i32 = 1,
            3 stride_w: i32 = 1,
            /// Padding on the left, or a mode: -233 SAME_UPPER, -234 SAME_LOWER.
            4 pad_left: i32 = 0,
            9 activation_type: i32 = 0,
            10 activation_params: Vec<f32> = Vec::new(),
            18 pad_value: f32 = 0.0,
        }
        depends {
            11 kernel_h: i32 = kernel_w,
            12 dilation_h: i32 = dilation_w,
            13 stride_h: i32 = stride_w,
            14 pad_top: i32 = pad_left,
            15 pad_right: i32 = pad_left,
            16 pad_bottom: i32 = pad_top,
            21 kernel_d: i32 = kernel_w,
            22 dilation_d: i32 = dilation_w,
            23 stride_d: i32 = stride_w,
            24 pad_front: i32 = pad_left,
            17 pad_behind: i32 = pad_front,
        }
        derived {
            5 bias_term = |layer| i32::from(layer.bias_data.is_some()),
            6 weight_data_size = |layer| weight_len(&layer.weight_data),
        }
        weights {
            Tagged weight_data,
            Raw bias_data,
        }
        tops { |l, bottoms, _| convolve(bottoms, l.num_output, &windows!(l, 3)) }
    }
}

layer! {
    /// A convolution in groups; the weight is `[num_output, c / group, kernel_d, kernel_h, kernel_w]`.
    ConvolutionDepthWise3D(exactly(1), exactly(1)) {
        params {
            0 num_output: i32 = 0,
            1 kernel_w: i32 = 0,
            2 dilation_w: i32 = 1,
            3 stride_w: i32 = 1,
            /// Padding on the left, or a mode: -233 SAME_UPPER, -234 SAME_LOWER.
            4 pad_left: i32 = 0,
            7 group: i32 = 1,
            9 activation_type: i32 = 0,
            10 activation_params: Vec<f32> = Vec::new(),
            18 pad_value: f32 = 0.0,
        }
        depends {
            11 kernel_h: i32 = kernel_w,
            12 dilation_h: i32 = dilation_w,
            13 stride_h: i32 = stride_w,
            14 pad_top: i32 = pad_left,
            15 pad_right: i32 = pad_left,
            16 pad_bottom: i32 = pad_top,
            21 kernel_d: i32 = kernel_w,
            22 dilation_d: i32 = dilation_w,
            23 stride_d: i32 = stride_w,
            24 pad_front: i32 = pad_left,
            17 pad_behind: i32 = pad_front,
        }
        derived {
            5 bias_term = |layer| i32::from(layer.bias_data.is_some()),
            6 weight_data_size = |layer| weight_len(&layer.weight_data),
        }
        weights {
            Tagged weight_data,
            Raw bias_data,
        }
        tops { |l, bottoms, _| convolve(bottoms, l.num_output, &windows!(l, 3)) }
    }
}

layer! {
    /// A convolution whose taps are moved by the second bottom, `[kernel_h * kernel_w * 2, h, w]` of pairs (y, x), and scaled by the
    /// third, `[kernel_h * kernel_w, h, w]`, where it is given.
    DeformableConv2D(between(2, 3), exactly(1)) {
        params {
            0 num_output: i32 = 0,
            1 kernel_w: i32 = 0,
            2 dilation_w: i32 = 1,
            3 stride_w: i32 = 1,
            /// Padding on the left, or a mode: -233 SAME_UPPER, -234 SAME_LOWER.
            4 pad_left: i32 = 0,
            9 activation_type: i32 = 0,
            10 activation_params: Vec<f32> = Vec::new(),
        }
        depends {
            11 kernel_h: i32 = kernel_w,
            12 dilation_h: i32 = dilation_w,
            13 stride_h: i32 = stride_w,
            14 pad_top: i32 = pad_left,
            15 pad_right: i32 = pad_left,
            16 pad_bottom: i32 = pad_top,
        }
        derived {
            5 bias_term = |layer| i32::from(layer.bias_data.is_some()),
            6 weight_data_size = |layer| weight_len(&layer.weight_data),
        }
        weights {
            Tagged weight_data,
            Raw bias_data,
        }
        tops { |l, bottoms, _| convolve(bottoms, l.num_output, &windows!(l, 2)) }
    }
}
