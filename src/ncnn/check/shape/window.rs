//! Layers that move a window over the inner axes: convolutions, their transposes, pooling.

use super::Sizes;
use crate::error::{Result, unsupported};
use crate::ncnn::Layer;

/// A window along one axis.
#[derive(Clone, Copy)]
struct Window {
    kernel: i32,
    dilation: i32,
    stride: i32,
    pads: (i32, i32),
}

/// Paddings that stand for a rule.
const SAME_UPPER: i32 = -233;
const SAME_LOWER: i32 = -234;

/// The output size of an axis that adaptive pooling leaves alone.
const AS_IT_IS: i64 = -233;

macro_rules! windows {
    ($l:ident 1) => { [window!($l kernel_w dilation_w stride_w pad_left pad_right)] };
    ($l:ident 2) => {
        [
            window!($l kernel_h dilation_h stride_h pad_top pad_bottom),
            window!($l kernel_w dilation_w stride_w pad_left pad_right),
        ]
    };
    ($l:ident 3) => {
        [
            window!($l kernel_d dilation_d stride_d pad_front pad_behind),
            window!($l kernel_h dilation_h stride_h pad_top pad_bottom),
            window!($l kernel_w dilation_w stride_w pad_left pad_right),
        ]
    };
}

macro_rules! window {
    ($l:ident $kernel:ident $dilation:ident $stride:ident $before:ident $after:ident) => {
        Window {
            kernel: $l.$kernel,
            dilation: $l.$dilation,
            stride: $l.$stride,
            pads: ($l.$before, $l.$after),
        }
    };
}

macro_rules! pool {
    ($l:ident $kernel:ident $stride:ident $before:ident $after:ident $out:ident) => {
        (
            Window { kernel: $l.$kernel, dilation: 1, stride: $l.$stride, pads: ($l.$before, $l.$after) },
            i64::from($l.$out),
        )
    };
}

/// The sizes of the top of such a layer; `None` for others.
pub(super) fn top_sizes(layer: &Layer, bottoms: &[Sizes]) -> Result<Option<Sizes>> {
    let Some(bottom) = bottoms.first() else { return Ok(None) };
    let sizes = match layer {
        Layer::Convolution1D(l) => convolve(bottom, l.num_output, &windows!(l 1))?,
        Layer::ConvolutionDepthWise1D(l) => convolve(bottom, l.num_output, &windows!(l 1))?,
        // A vector under a kernel of 1 is taken by InnerProduct, with a complaint.
        Layer::Convolution(l) => convolve(bottom, l.num_output, &windows!(l 2))?,
        Layer::ConvolutionDepthWise(l) => convolve(bottom, l.num_output, &windows!(l 2))?,
        Layer::DeformableConv2D(l) => convolve(bottom, l.num_output, &windows!(l 2))?,
        Layer::Convolution3D(l) => convolve(bottom, l.num_output, &windows!(l 3))?,
        Layer::ConvolutionDepthWise3D(l) => convolve(bottom, l.num_output, &windows!(l 3))?,
        Layer::Deconvolution1D(l) => transpose(bottom, l.num_output, &windows!(l 1), &[l.output_pad_right])?,
        Layer::DeconvolutionDepthWise1D(l) => {
            transpose(bottom, l.num_output, &windows!(l 1), &[l.output_pad_right])?
        }
        Layer::Deconvolution(l) => {
            transpose(bottom, l.num_output, &windows!(l 2), &[l.output_pad_bottom, l.output_pad_right])?
        }
        Layer::DeconvolutionDepthWise(l) => {
            transpose(bottom, l.num_output, &windows!(l 2), &[l.output_pad_bottom, l.output_pad_right])?
        }
        Layer::Deconvolution3D(l) => {
            let more = [l.output_pad_behind, l.output_pad_bottom, l.output_pad_right];
            transpose(bottom, l.num_output, &windows!(l 3), &more)?
        }
        Layer::DeconvolutionDepthWise3D(l) => {
            let more = [l.output_pad_behind, l.output_pad_bottom, l.output_pad_right];
            transpose(bottom, l.num_output, &windows!(l 3), &more)?
        }
        Layer::Pooling1D(l) => {
            let windows = [pool!(l kernel_w stride_w pad_left pad_right out_w)];
            pool(bottom, &windows, l.global_pooling, l.adaptive_pooling, l.pad_mode)?
        }
        Layer::Pooling(l) => {
            let windows = [
                pool!(l kernel_h stride_h pad_top pad_bottom out_h),
                pool!(l kernel_w stride_w pad_left pad_right out_w),
            ];
            pool(bottom, &windows, l.global_pooling, l.adaptive_pooling, l.pad_mode)?
        }
        Layer::Pooling3D(l) => {
            let windows = [
                pool!(l kernel_d stride_d pad_front pad_behind out_d),
                pool!(l kernel_h stride_h pad_top pad_bottom out_h),
                pool!(l kernel_w stride_w pad_left pad_right out_w),
            ];
            pool(bottom, &windows, l.global_pooling, l.adaptive_pooling, l.pad_mode)?
        }
        _ => return Ok(None),
    };
    Ok(Some(sizes))
}

/// The outermost size, and each of the others with its window.
fn zip<'a, W>(bottom: &'a [i64], windows: &'a [W]) -> Result<(i64, impl Iterator<Item = (i64, &'a W)>)> {
    match bottom {
        [outermost, inner @ ..] if inner.len() == windows.len() => {
            Ok((*outermost, inner.iter().copied().zip(windows)))
        }
        _ => unsupported!("a bottom of {bottom:?} under {} axes of a window", windows.len()),
    }
}

impl Window {
    /// What the kernel reaches over.
    fn extent(&self) -> Result<i64> {
        if self.kernel < 1 || self.dilation < 1 || self.stride < 1 {
            unsupported!("a kernel of {}, dilation {}, stride {}", self.kernel, self.dilation, self.stride);
        }
        Ok(i64::from(self.dilation) * (i64::from(self.kernel) - 1) + 1)
    }

    /// How often the window fits.
    fn steps(&self, padded: i64) -> Result<i64> {
        let room = padded - self.extent()?;
        if room < 0 {
            unsupported!("a window of {} over {padded}", self.extent()?);
        }
        Ok(room / i64::from(self.stride) + 1)
    }

    fn padding(&self) -> i64 {
        i64::from(self.pads.0.max(0)) + i64::from(self.pads.1.max(0))
    }
}

fn convolve(bottom: &[i64], num_output: i32, windows: &[Window]) -> Result<Sizes> {
    let mut sizes = vec![i64::from(num_output)];
    let same = |rule: i32| windows.iter().all(|window| window.pads == (rule, rule));
    let same = same(SAME_UPPER) || same(SAME_LOWER);
    for (size, window) in zip(bottom, windows)?.1 {
        if same {
            window.extent()?;
            sizes.push((size - 1) / i64::from(window.stride) + 1);
        } else {
            sizes.push(window.steps(size + window.padding())?);
        }
    }
    Ok(sizes)
}

fn transpose(bottom: &[i64], num_output: i32, windows: &[Window], output_pads: &[i32]) -> Result<Sizes> {
    let mut sizes = vec![i64::from(num_output)];
    for ((size, window), output_pad) in zip(bottom, windows)?.1.zip(output_pads) {
        let whole = (size - 1) * i64::from(window.stride) + window.extent()? + i64::from(*output_pad);
        sizes.push(whole - window.padding());
    }
    Ok(sizes)
}

fn pool(
    bottom: &[i64],
    windows: &[(Window, i64)],
    global: i32,
    adaptive: i32,
    pad_mode: i32,
) -> Result<Sizes> {
    let (outermost, inner) = zip(bottom, windows)?;
    let mut sizes = vec![outermost];
    if global != 0 {
        return Ok(sizes);
    }
    for (size, (window, out)) in inner {
        if adaptive != 0 {
            // Pooling and Pooling3D leave an axis as it is for -233.
            sizes.push(if *out == AS_IT_IS && windows.len() > 1 { size } else { *out });
            continue;
        }
        let stride = i64::from(window.stride);
        let padded = size + window.padding();
        sizes.push(match pad_mode {
            // The tail is padded until the last window fits.
            0 => {
                window.steps(padded)?;
                window.steps(padded + stride - 1)?
            }
            1 => window.steps(padded)?,
            2 | 3 => (size - 1) / stride.max(1) + 1,
            other => unsupported!("pad_mode {other}"),
        });
    }
    Ok(sizes)
}
