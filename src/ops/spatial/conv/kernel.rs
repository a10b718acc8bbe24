//! The ncnn layer of a convolution: one of ten, chosen by direction, number of axes and groups.

use crate::ncnn::Layer;
use crate::ncnn::layer::{
    Convolution, Convolution1D, Convolution3D, ConvolutionDepthWise, ConvolutionDepthWise3D, Deconvolution,
    Deconvolution1D, Deconvolution3D, DeconvolutionDepthWise, DeconvolutionDepthWise3D,
};
use crate::ops::prelude::*;
use crate::ops::spatial::window::WindowAxis;

/// The params and weights that the layers share.
#[derive(Clone)]
pub(super) struct Kernel {
    pub num_output: i32,
    pub group: i32,
    /// The window along each spatial axis, outermost first.
    pub spans: Vec<WindowAxis>,
    /// The elements that a transposed convolution adds after each spatial axis.
    pub output_pads: Option<Vec<i32>>,
    /// The weight; `None` if the layer reads it from a bottom.
    pub weight: Option<Tensor>,
    pub bias: Option<Tensor>,
}

/// Builds a layer from shared params, params of the window along one to three axes, and further fields.
macro_rules! windowed {
    ($kernel:ident, $layer:ident { $($field:ident),* }, $w:ident $(, $h:ident $(, $d:ident)?)?) => {
        Layer::from($layer {
            num_output: $kernel.num_output,
            kernel_w: $w.kernel,
            stride_w: $w.stride,
            dilation_w: $w.dilation,
            pad_left: $w.begin,
            pad_right: $w.end,
            $(
                kernel_h: $h.kernel,
                stride_h: $h.stride,
                dilation_h: $h.dilation,
                pad_top: $h.begin,
                pad_bottom: $h.end,
                $(
                    kernel_d: $d.kernel,
                    stride_d: $d.stride,
                    dilation_d: $d.dilation,
                    pad_front: $d.begin,
                    pad_behind: $d.end,
                )?
            )?
            $($field,)*
            weight_data: $kernel.weight,
            bias_data: $kernel.bias,
            ..$layer::default()
        })
    };
}

impl Kernel {
    /// Returns the layer of a convolution.
    pub fn convolution(self) -> Result<Layer> {
        let Kernel { group, .. } = self;
        let dynamic_weight = i32::from(self.weight.is_none());
        Ok(match (self.spans.as_slice(), group) {
            ([w], 1) => windowed!(self, Convolution1D { dynamic_weight }, w),
            ([h, w], 1) => windowed!(self, Convolution { dynamic_weight }, w, h),
            ([h, w], _) => windowed!(self, ConvolutionDepthWise { group, dynamic_weight }, w, h),
            ([d, h, w], 1) => windowed!(self, Convolution3D {}, w, h, d),
            ([d, h, w], _) => windowed!(self, ConvolutionDepthWise3D { group }, w, h, d),
            (spans, _) => unsupported!("a convolution over {} spatial axes", spans.len()),
        })
    }

    /// Returns the layer of a transposed convolution.
    pub fn deconvolution(self) -> Result<Layer> {
        let Kernel { group, .. } = self;
        let dynamic_weight = i32::from(self.weight.is_none());
        let pads = self.output_pads.unwrap_or_else(|| vec![0; self.spans.len()]);
        Ok(match (self.spans.as_slice(), pads.as_slice(), group) {
            ([w], &[output_pad_right], 1) => {
                windowed!(self, Deconvolution1D { output_pad_right, dynamic_weight }, w)
            }
            ([h, w], &[output_pad_bottom, output_pad_right], 1) => {
                windowed!(self, Deconvolution { output_pad_right, output_pad_bottom, dynamic_weight }, w, h)
            }
            ([h, w], &[output_pad_bottom, output_pad_right], _) => windowed!(
                self,
                DeconvolutionDepthWise { group, output_pad_right, output_pad_bottom, dynamic_weight },
                w,
                h
            ),
            ([d, h, w], &[output_pad_behind, output_pad_bottom, output_pad_right], 1) => windowed!(
                self,
                Deconvolution3D { output_pad_right, output_pad_bottom, output_pad_behind },
                w,
                h,
                d
            ),
            ([d, h, w], &[output_pad_behind, output_pad_bottom, output_pad_right], _) => windowed!(
                self,
                DeconvolutionDepthWise3D { group, output_pad_right, output_pad_bottom, output_pad_behind },
                w,
                h,
                d
            ),
            (spans, ..) => unsupported!("a transposed convolution over {} spatial axes", spans.len()),
        })
    }
}
