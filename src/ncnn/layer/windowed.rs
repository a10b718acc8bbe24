//! The macro that defines the layers of windows over one to three inner axes.

/// Defines convolutions (`convolve`), their transposes (`transpose`), and layers whose tops are columns or
/// images of windows (`columns`), from what they add to the shared params and weights.
///
/// - `group` is the param of the number of groups.
/// - `dynamic` is the param that makes the weight the second bottom.
/// - `out` are the params of the paddings of the tops, one for each axis, the outermost first.
/// - `int8` is the param of the number of scales of a weight of int8, and the scales of weight, bottom and
///   top.
macro_rules! windowed {
    (@1 $($rest:tt)*) => {
        windowed! { [(kernel_w dilation_w stride_w pad_left pad_right)] { 15 pad_right: i32 = pad_left, } $($rest)* }
    };
    (@2 $($rest:tt)*) => {
        windowed! {
            [
                (kernel_h dilation_h stride_h pad_top pad_bottom)
                (kernel_w dilation_w stride_w pad_left pad_right)
            ] {
                11 kernel_h: i32 = kernel_w,
                12 dilation_h: i32 = dilation_w,
                13 stride_h: i32 = stride_w,
                14 pad_top: i32 = pad_left,
                15 pad_right: i32 = pad_left,
                16 pad_bottom: i32 = pad_top,
            }
            $($rest)*
        }
    };
    (@3 $($rest:tt)*) => {
        windowed! {
            [
                (kernel_d dilation_d stride_d pad_front pad_behind)
                (kernel_h dilation_h stride_h pad_top pad_bottom)
                (kernel_w dilation_w stride_w pad_left pad_right)
            ] {
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
            $($rest)*
        }
    };
    (
        $windows:tt { $($axes:tt)* } $(#[$doc:meta])*
        $index:literal $name:ident($bottoms:expr) [ $( $trait:ident )* ] columns {
            params { $($params:tt)* }
            $( depends { $($depends:tt)* } )?
        }
    ) => {
        $crate::ncnn::layer::layer! {
            $(#[$doc])*
            $index $name($bottoms, $crate::ncnn::layer::exactly(1)) [ $( $trait )* ] {
                params {
                    1 kernel_w: i32 = 0,
                    2 dilation_w: i32 = 1,
                    3 stride_w: i32 = 1,
                    4 pad_left: i32 = 0,
                    $($params)*
                }
                depends { $($axes)* $($($depends)*)? }
                tops { $crate::ncnn::layer::shape::unknown }
            }
        }
    };
    (
        [ $( ($kernel:ident $dilation:ident $stride:ident $before:ident $after:ident) )* ] { $($axes:tt)* }
        $(#[$doc:meta])*
        $index:literal $name:ident($bottoms:expr) [ $( $trait:ident )* ] $kind:ident {
            $( group { $group_id:literal $group:ident } )?
            $( dynamic { $dynamic_id:literal $dynamic:ident } )?
            $( out { $($out:ident)* } )?
            $( int8 { $scales:ident $of_weight:ident $of_bottom:ident $of_top:ident } )?
            $( params { $($params:tt)* } )?
            $( depends { $($depends:tt)* } )?
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
                    $( $group_id $group: i32 = 1, )?
                    9 activation_type: i32 = 0,
                    10 activation_params: Vec<f32> = Vec::new(),
                    $($($params)*)?
                    $(
                        /// 1: the weight is the second bottom.
                        $dynamic_id $dynamic: i32 = 0,
                    )?
                }
                depends { $($axes)* $($($depends)*)? }
                derived {
                    5 bias_term = |layer| i32::from(layer.bias_data.is_some()),
                    6 weight_data_size = |layer| $crate::ncnn::layer::weight_len(&layer.weight_data),
                    $(
                        // 1 for int8 sums that become float32, 101 for those that become int8 again.
                        8 int8_scale_term = |layer| {
                            i32::from(layer.$of_bottom.is_some()) + 100 * i32::from(layer.$of_top.is_some())
                        },
                    )?
                }
                weights {
                    Tagged weight_data,
                    Raw bias_data,
                    $( Raw $of_weight, Raw $of_bottom, Raw $of_top, )?
                }
                reads { |l, bottom| {
                    let channels = (l.num_output, None::<i32> $( .or(Some(l.$group)) )?);
                    let dynamic = 0 $( + l.$dynamic )?;
                    let reads = weight::convolution(bottom, channels, &l.windows(), &l.bias_data, dynamic)?;
                    $( let reads = [reads, weight::int8_scales(&l.$of_weight, &l.$of_top, l.$scales)].concat(); )?
                    Ok(reads)
                } }
                tops { |l, bottoms, _| window::$kind(bottoms, l.num_output, &l.windows(), &[$( $( l.$out, )* )?]) }
                work { |l, work| work.$kind(&l.weight_data) }
                also {
                    $(
                        fn depthwise_outputs(&self) -> Option<i32> {
                            (self.$group > 0).then_some(self.num_output)
                        }
                    )?

                    $(
                        fn bytes(&self) -> (bool, bool) {
                            (self.$of_weight.is_some(), self.$of_top.is_some())
                        }

                        fn int8_weights(&self) -> &'static [&'static str] {
                            weight::names_if_present(&self.$of_weight, &["weight_data"])
                        }
                    )?

                    $( $($also)* )?
                }
            }
        }

        impl $name {
            /// Returns the windows along the inner axes, outermost first.
            pub(crate) fn windows(&self) -> Vec<window::Window> {
                vec![ $( window::Window {
                    kernel: self.$kernel,
                    dilation: self.$dilation,
                    stride: self.$stride,
                    pads: (self.$before, self.$after),
                }, )* ]
            }
        }
    };
    ( $( $(#[$doc:meta])* $index:literal $name:ident($bottoms:expr, $axes:tt) $traits:tt $kind:ident $table:tt )+ ) => {
        $( windowed! { @$axes $(#[$doc])* $index $name($bottoms) $traits $kind $table } )+
    };
}
pub(super) use windowed;
