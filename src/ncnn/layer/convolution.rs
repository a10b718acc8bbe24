//! Convolutions and their transposes, in one to three dimensions.

use super::{exactly, layer, weight_len};

layer! {
    /// A convolution in two dimensions over `[c, h, w]`; the weight is `[num_output, c, kernel_h, kernel_w]`.
    Convolution(exactly(1), exactly(1)) {
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
        }
        derived {
            5 bias_term = |layer| i32::from(layer.bias_data.is_some()),
            6 weight_data_size = |layer| weight_len(&layer.weight_data),
        }
        weights {
            Tagged weight_data,
            Raw bias_data,
        }
    }
}

layer! {
    /// A convolution in groups; the weight is `[num_output, c / group, kernel_h, kernel_w]`.
    ConvolutionDepthWise(exactly(1), exactly(1)) {
        params {
            0 num_output: i32 = 0,
            1 kernel_w: i32 = 0,
            2 dilation_w: i32 = 1,
            3 stride_w: i32 = 1,
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
        }
        derived {
            5 bias_term = |layer| i32::from(layer.bias_data.is_some()),
            6 weight_data_size = |layer| weight_len(&layer.weight_data),
        }
        weights {
            Tagged weight_data,
            Raw bias_data,
        }
    }
}
