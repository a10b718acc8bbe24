//! Transposes of convolutions in one to three dimensions, whole and in groups.

use super::window::{transpose, window, windows};
use super::{between, exactly, layer, weight_len};

layer! {
    /// The transpose of a convolution over `[h, w]`; the weight is `[num_output, h, kernel_w]`.
    Deconvolution1D(between(1, 2), exactly(1)) {
        params {
            0 num_output: i32 = 0,
            1 kernel_w: i32 = 0,
            2 dilation_w: i32 = 1,
            3 stride_w: i32 = 1,
            4 pad_left: i32 = 0,
            9 activation_type: i32 = 0,
            10 activation_params: Vec<f32> = Vec::new(),
            18 output_pad_right: i32 = 0,
            /// 1: the weight is the second bottom.
            28 dynamic_weight: i32 = 0,
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
        tops { |l, bottoms, _| transpose(bottoms, l.num_output, &windows!(l, 1), &[l.output_pad_right]) }
    }
}

layer! {
    /// The same in groups; the weight is `[group, num_output / group, h / group, kernel_w]`.
    DeconvolutionDepthWise1D(between(1, 2), exactly(1)) {
        params {
            0 num_output: i32 = 0,
            1 kernel_w: i32 = 0,
            2 dilation_w: i32 = 1,
            3 stride_w: i32 = 1,
            4 pad_left: i32 = 0,
            7 group: i32 = 1,
            9 activation_type: i32 = 0,
            10 activation_params: Vec<f32> = Vec::new(),
            18 output_pad_right: i32 = 0,
            /// 1: the weight is the second bottom.
            28 dynamic_weight: i32 = 0,
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
        tops { |l, bottoms, _| transpose(bottoms, l.num_output, &windows!(l, 1), &[l.output_pad_right]) }
    }
}

layer! {
    /// The transpose of a convolution over `[c, h, w]`; the weight is `[num_output, c, kernel_h, kernel_w]`.
    Deconvolution(between(1, 2), exactly(1)) {
        params {
            0 num_output: i32 = 0,
            1 kernel_w: i32 = 0,
            2 dilation_w: i32 = 1,
            3 stride_w: i32 = 1,
            4 pad_left: i32 = 0,
            9 activation_type: i32 = 0,
            10 activation_params: Vec<f32> = Vec::new(),
            18 output_pad_right: i32 = 0,
            /// 1: the weight is the second bottom.
            28 dynamic_weight: i32 = 0,
        }
        depends {
            11 kernel_h: i32 = kernel_w,
            12 dilation_h: i32 = dilation_w,
            13 stride_h: i32 = stride_w,
            14 pad_top: i32 = pad_left,
            15 pad_right: i32 = pad_left,
            16 pad_bottom: i32 = pad_top,
            19 output_pad_bottom: i32 = output_pad_right,
        }
        derived {
            5 bias_term = |layer| i32::from(layer.bias_data.is_some()),
            6 weight_data_size = |layer| weight_len(&layer.weight_data),
        }
        weights {
            Tagged weight_data,
            Raw bias_data,
        }
        tops { |l, bottoms, _| transpose(bottoms, l.num_output, &windows!(l, 2), &[l.output_pad_bottom, l.output_pad_right]) }
    }
}

layer! {
    /// The same in groups; the weight is `[group, num_output / group, c / group, kernel_h, kernel_w]`.
    DeconvolutionDepthWise(between(1, 2), exactly(1)) {
        params {
            0 num_output: i32 = 0,
            1 kernel_w: i32 = 0,
            2 dilation_w: i32 = 1,
            3 stride_w: i32 = 1,
            4 pad_left: i32 = 0,
            7 group: i32 = 1,
            9 activation_type: i32 = 0,
            10 activation_params: Vec<f32> = Vec::new(),
            18 output_pad_right: i32 = 0,
            /// 1: the weight is the second bottom.
            28 dynamic_weight: i32 = 0,
        }
        depends {
            11 kernel_h: i32 = kernel_w,
            12 dilation_h: i32 = dilation_w,
            13 stride_h: i32 = stride_w,
            14 pad_top: i32 = pad_left,
            15 pad_right: i32 = pad_left,
            16 pad_bottom: i32 = pad_top,
            19 output_pad_bottom: i32 = output_pad_right,
        }
        derived {
            5 bias_term = |layer| i32::from(layer.bias_data.is_some()),
            6 weight_data_size = |layer| weight_len(&layer.weight_data),
        }
        weights {
            Tagged weight_data,
            Raw bias_data,
        }
        tops { |l, bottoms, _| transpose(bottoms, l.num_output, &windows!(l, 2), &[l.output_pad_bottom, l.output_pad_right]) }
    }
}

layer! {
    /// The transpose of a convolution over `[c, d, h, w]`; the weight is `[num_output, c, kernel_d, kernel_h, kernel_w]`.
    Deconvolution3D(exactly(1), exactly(1)) {
        params {
            0 num_output: i32 = 0,
            1 kernel_w: i32 = 0,
            2 dilation_w: i32 = 1,
            3 stride_w: i32 = 1,
            4 pad_left: i32 = 0,
            9 activation_type: i32 = 0,
            10 activation_params: Vec<f32> = Vec::new(),
            18 output_pad_right: i32 = 0,
        }
        depends {
            11 kernel_h: i32 = kernel_w,
            12 dilation_h: i32 = dilation_w,
            13 stride_h: i32 = stride_w,
            14 pad_top: i32 = pad_left,
            15 pad_right: i32 = pad_left,
            16 pad_bottom: i32 = pad_top,
            19 output_pad_bottom: i32 = output_pad_right,
            20 output_pad_behind: i32 = output_pad_right,
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
        tops { |l, bottoms, _| {
            let output_pads = [l.output_pad_behind, l.output_pad_bottom, l.output_pad_right];
            transpose(bottoms, l.num_output, &windows!(l, 3), &output_pads)
        } }
    }
}

layer! {
    /// The same in groups; the weight is `[group, num_output / group, c / group, kernel_d, kernel_h, kernel_w]`.
    DeconvolutionDepthWise3D(exactly(1), exactly(1)) {
        params {
            0 num_output: i32 = 0,
            1 kernel_w: i32 = 0,
            2 dilation_w: i32 = 1,
            3 stride_w: i32 = 1,
            4 pad_left: i32 = 0,
            7 group: i32 = 1,
            9 activation_type: i32 = 0,
            10 activation_params: Vec<f32> = Vec::new(),
            18 output_pad_right: i32 = 0,
        }
        depends {
            11 kernel_h: i32 = kernel_w,
            12 dilation_h: i32 = dilation_w,
            13 stride_h: i32 = stride_w,
            14 pad_top: i32 = pad_left,
            15 pad_right: i32 = pad_left,
            16 pad_bottom: i32 = pad_top,
            19 output_pad_bottom: i32 = output_pad_right,
            20 output_pad_behind: i32 = output_pad_right,
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
        tops { |l, bottoms, _| {
            let output_pads = [l.output_pad_behind, l.output_pad_bottom, l.output_pad_right];
            transpose(bottoms, l.num_output, &windows!(l, 3), &output_pads)
        } }
    }
}
