//! Pooling in one to three dimensions.

use super::window::{Window, pool};
use super::{exactly, layer};

/// Defines pooling over one to three inner axes: its windows, outermost first, and the params of the further
/// axes.
macro_rules! pooling {
    ( $(
        $(#[$doc:meta])*
        $index:literal $name:ident [ $( $trait:ident )* ] {
            windows { $( $kernel:ident $stride:ident $before:ident $after:ident $out:ident, )* }
            depends { $($depends:tt)* }
        }
    )+ ) => { layer! { $(
        $(#[$doc])*
        $index $name(exactly(1), exactly(1)) [ $( $trait )* ] {
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
            depends { $($depends)* }
            tops { |l, bottoms, _| {
                let windows = [ $( Window::undilated(l.$kernel, l.$stride, (l.$before, l.$after)), )* ];
                pool(bottoms, &windows, &[ $( l.$out, )* ], l.global_pooling, l.adaptive_pooling, l.pad_mode)
            } }
        }
    )+ } };
}

pooling! {
    /// Pooling over `[h, w]`.
    82 Pooling1D [] {
        windows {
            kernel_w stride_w pad_left pad_right out_w,
        }
        depends {
            14 pad_right: i32 = pad_left,
        }
    }

    /// Pooling over `[c, h, w]`.
    21 Pooling [Gpu] {
        windows {
            kernel_h stride_h pad_top pad_bottom out_h,
            kernel_w stride_w pad_left pad_right out_w,
        }
        depends {
            11 kernel_h: i32 = kernel_w,
            12 stride_h: i32 = stride_w,
            13 pad_top: i32 = pad_left,
            14 pad_right: i32 = pad_left,
            15 pad_bottom: i32 = pad_top,
            18 out_h: i32 = out_w,
        }
    }

    /// Pooling over `[c, d, h, w]`.
    86 Pooling3D [] {
        windows {
            kernel_d stride_d pad_front pad_behind out_d,
            kernel_h stride_h pad_top pad_bottom out_h,
            kernel_w stride_w pad_left pad_right out_w,
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
    }
}

/// Values of `Pooling::pooling_type`.
pub(crate) mod pooling_type {
    pub const MAX: i32 = 0;
    pub const AVERAGE: i32 = 1;
}

/// Values of `Pooling::pad_mode`.
pub(crate) mod pad_mode {
    /// The last window is counted if it begins within the padding.
    pub const FULL: i32 = 0;
    /// Exactly the padding.
    pub const VALID: i32 = 1;
    /// The size divided by the stride, odd padding after.
    pub const SAME_UPPER: i32 = 2;
    /// The size divided by the stride, odd padding before.
    pub const SAME_LOWER: i32 = 3;
}
