//! The macro that defines convolutions and their transposes.

/// Defines a convolution or its transpose over one to three inner axes from the params and weights that it
/// adds to the shared ones.
macro_rules! windowed {
    ( $(#[$doc:meta])* $index:literal $name:ident($bottoms:expr, 1) [ $( $trait:ident )* ] $table:tt ) => {
        windowed! {
            $(#[$doc])* $index $name($bottoms, [ $( $trait )* ], [(kernel_w dilation_w stride_w pad_left pad_right)], {
                15 pad_right: i32 = pad_left,
            }) $table
        }
    };
    ( $(#[$doc:meta])* $index:literal $name:ident($bottoms:expr, 2) [ $( $trait:ident )* ] $table:tt ) => {
        windowed! {
            $(#[$doc])* $index $name($bottoms, [ $( $trait )* ], [
                (kernel_h dilation_h stride_h pad_top pad_bottom)
                (kernel_w dilation_w stride_w pad_left pad_right)
            ], {
                11 kernel_h: i32 = kernel_w,
                12 dilation_h: i32 = dilation_w,
                13 stride_h: i32 = stride_w,
                14 pad_top: i32 = pad_left,
                15 pad_right: i32 = pad_left,
                16 pad_bottom: i32 = pad_top,
            }) $table
        }
    };
    ( $(#[$doc:meta])* $index:literal $name:ident($bottoms:expr, 3) [ $( $trait:ident )* ] $table:tt ) => {
        windowed! {
            $(#[$doc])* $index $name($bottoms, [ $( $trait )* ], [
                (kernel_d dilation_d stride_d pad_front pad_behind)
                (kernel_h dilation_h stride_h pad_top pad_bottom)
                (kernel_w dilation_w stride_w pad_left pad_right)
            ], {
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
            }) $table
        }
    };
    (
        $(#[$doc:meta])*
        $index:literal $name:ident(
            $bottoms:expr,
            [ $( $trait:ident )* ],
            [ $( ($kernel:ident $dilation:ident $stride:ident $before:ident $after:ident) )* ],
            { $($axes:tt)* }
        ) {
            $( params { $($params:tt)* } )?
            $( depends { $($depends:tt)* } )?
            $( derived { $($derived:tt)* } )?
            $( weights { $($weights:tt)* } )?
            reads { $reads:expr }
            tops { $tops:expr }
            work { $work:expr }
            $( also { $($also:tt)* } )?
        }
    ) => {
        $crate::ncnn::layer::layer! {
            $(#[$doc])*
            $index $name($bottoms, $crate::ncnn::layer::exactly(1)) [ $( $trait )* ] {
                params {
                    0 num_output: i32 = 0,
                    1 kernel_w: i32 = 0,
                    2 dilation_w: i32 = 1,
                    3 stride_w: i32 = 1,
                    /// Padding on the left; of a convolution also a mode: -233 SAME_UPPER, -234 SAME_LOWER.
                    4 pad_left: i32 = 0,
                    9 activation_type: i32 = 0,
                    10 activation_params: Vec<f32> = Vec::new(),
                    $($($params)*)?
                }
                depends { $($axes)* $($($depends)*)? }
                derived {
                    5 bias_term = |layer| i32::from(layer.bias_data.is_some()),
                    6 weight_data_size = |layer| $crate::ncnn::layer::weight_len(&layer.weight_data),
                    $($($derived)*)?
                }
                weights {
                    Tagged weight_data,
                    Raw bias_data,
                    $($($weights)*)?
                }
                reads { $reads }
                tops { $tops }
                work { $work }
                $( also { $($also)* } )?
            }
        }

        impl $name {
            /// Returns the windows along the inner axes, outermost first.
            pub(crate) fn windows(&self) -> Vec<$crate::ncnn::layer::window::Window> {
                vec![ $( $crate::ncnn::layer::window::Window {
                    kernel: self.$kernel,
                    dilation: self.$dilation,
                    stride: self.$stride,
                    pads: (self.$before, self.$after),
                }, )* ]
            }
        }
    };
    ( $( $(#[$doc:meta])* $index:literal $name:ident($bottoms:expr, $axes:tt) $traits:tt $table:tt )+ ) => {
        $( windowed! { $(#[$doc])* $index $name($bottoms, $axes) $traits $table } )+
    };
}
pub(super) use windowed;
