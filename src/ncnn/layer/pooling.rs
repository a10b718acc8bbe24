//! Pooling in one to three dimensions.

use super::window::{Window, pool};
use super::{exactly, layer};

layer! {
    /// Pooling over `[h, w]`.
    82 Pooling1D(exactly(1), exactly(1)) {
        params {
            /// 0 maximum, 1 average.
            0 pooling_type: i32 = 0,
            1 kernel_w: i32 = 0,
            2 stride_w: i32 = 1,
            3 pad_left: i32 = 0,
            4 global_pooling: i32 = 0,
            /// 0 full, 1 valid, 2 SAME_UPPER, 3 SAME_LOWER.
            5 pad_mode: i32 = 0,
            6 avgpool_count_include_pad: i32 = 0,
            7 adaptive_pooling: i32 = 0,
            8 out_w: i32 = 0,
        }
        depends {
            14 pad_right: i32 = pad_left,
        }
        tops { |l, bottoms, _| {
            let windows = [Window::undilated(l.kernel_w, l.stride_w, (l.pad_left, l.pad_right))];
            pool(bottoms, &windows, &[l.out_w], l.global_pooling, l.adaptive_pooling, l.pad_mode)
        } }
    }

    /// Pooling over `[c, h, w]`.
    21 Pooling(exactly(1), exactly(1)) [Gpu] {
        params {
            /// 0 maximum, 1 average.
            0 pooling_type: i32 = 0,
            1 kernel_w: i32 = 0,
            2 stride_w: i32 = 1,
            3 pad_left: i32 = 0,
            4 global_pooling: i32 = 0,
            /// 0 full, 1 valid, 2 SAME_UPPER, 3 SAME_LOWER.
            5 pad_mode: i32 = 0,
            6 avgpool_count_include_pad: i32 = 0,
            7 adaptive_pooling: i32 = 0,
            8 out_w: i32 = 0,
        }
        depends {
            11 kernel_h: i32 = kernel_w,
            12 stride_h: i32 = stride_w,
            13 pad_top: i32 = pad_left,
            14 pad_right: i32 = pad_left,
            15 pad_bottom: i32 = pad_top,
            18 out_h: i32 = out_w,
        }
        tops { |l, bottoms, _| {
            let windows = [
                Window::undilated(l.kernel_h, l.stride_h, (l.pad_top, l.pad_bottom)),
                Window::undilated(l.kernel_w, l.stride_w, (l.pad_left, l.pad_right)),
            ];
            pool(bottoms, &windows, &[l.out_h, l.out_w], l.global_pooling, l.adaptive_pooling, l.pad_mode)
        } }
    }

    /// Pooling over `[c, d, h, w]`.
    86 Pooling3D(exactly(1), exactly(1)) {
        params {
            /// 0 maximum, 1 average.
            0 pooling_type: i32 = 0,
            1 kernel_w: i32 = 0,
            2 stride_w: i32 = 1,
            3 pad_left: i32 = 0,
            4 global_pooling: i32 = 0,
            /// 0 full, 1 valid, 2 SAME_UPPER, 3 SAME_LOWER.
            5 pad_mode: i32 = 0,
            6 avgpool_count_include_pad: i32 = 0,
            7 adaptive_pooling: i32 = 0,
            8 out_w: i32 = 0,
        }
        depends {
            11 kernel_h: i32 = kernel_w,
            12 stride_h: i32 = stride_w,
            13 pad_top: i32 = pad_left,
            14 pad_right: i32 = pad_left,
            15 pad_bottom: i32 = pad_top,
            18 out_h: i32 = out_w,
            21 kernel_d: i32 = kernel_w,
            22 stride_d: i32 = stride_w,
            23 pad_front: i32 = pad_left,
            16 pad_behind: i32 = pad_front,
            28 out_d: i32 = out_w,
        }
        tops { |l, bottoms, _| {
            let windows = [
                Window::undilated(l.kernel_d, l.stride_d, (l.pad_front, l.pad_behind)),
                Window::undilated(l.kernel_h, l.stride_h, (l.pad_top, l.pad_bottom)),
                Window::undilated(l.kernel_w, l.stride_w, (l.pad_left, l.pad_right)),
            ];
            let out = [l.out_d, l.out_h, l.out_w];
            pool(bottoms, &windows, &out, l.global_pooling, l.adaptive_pooling, l.pad_mode)
        } }
    }
}
