//! ncnn's pooling layers for windows with and without dilation.

use crate::ncnn::Layer;
use crate::ncnn::layer::pad_mode::VALID;
use crate::ncnn::layer::pooling_type::MAX;
use crate::ncnn::layer::{Pooling, Pooling1D, Pooling3D};
use crate::ops::prelude::*;
use crate::ops::spatial::window::WindowAxis;
use crate::tensor::Border;

/// A pooling layer without dilation over all axes but the outermost.
pub(super) struct Windows {
    pub spans: Vec<WindowAxis>,
    pub pooling_type: i32,
    pub pad_mode: i32,
    pub count_include_pad: bool,
}

impl Windows {
    /// Returns the layer for the number of axes.
    pub fn layer(&self) -> Result<Layer> {
        let (pooling_type, pad_mode) = (self.pooling_type, self.pad_mode);
        let avgpool_count_include_pad = i32::from(self.count_include_pad);
        Ok(match self.spans.as_slice() {
            [w] => Pooling1D {
                pooling_type,
                pad_mode,
                avgpool_count_include_pad,
                kernel_w: w.kernel,
                stride_w: w.stride,
                pad_left: w.begin,
                pad_right: w.end,
                ..Pooling1D::default()
            }
            .into(),
            [h, w] => Pooling {
                pooling_type,
                pad_mode,
                avgpool_count_include_pad,
                kernel_w: w.kernel,
                kernel_h: h.kernel,
                stride_w: w.stride,
                stride_h: h.stride,
                pad_left: w.begin,
                pad_right: w.end,
                pad_top: h.begin,
                pad_bottom: h.end,
                ..Pooling::default()
            }
            .into(),
            [d, h, w] => Pooling3D {
                pooling_type,
                pad_mode,
                avgpool_count_include_pad,
                kernel_w: w.kernel,
                kernel_h: h.kernel,
                kernel_d: d.kernel,
                stride_w: w.stride,
                stride_h: h.stride,
                stride_d: d.stride,
                pad_left: w.begin,
                pad_right: w.end,
                pad_top: h.begin,
                pad_bottom: h.end,
                pad_front: d.begin,
                pad_behind: d.end,
                ..Pooling3D::default()
            }
            .into(),
            spans => unsupported!("a pooling over {} spatial axes", spans.len()),
        })
    }
}

/// Returns a pooling with dilation axis by axis: maxima of maxima, or means of means.
pub(super) fn pool_dilated<'l>(
    x: Nd<'l>,
    spans: &[WindowAxis],
    top: &[Dim],
    pooling_type: i32,
) -> Result<Nd<'l>> {
    spans.iter().zip(1..).try_fold(x, |x, (span, axis)| {
        let mut shape = x.shape().to_vec();
        let [outer, inner] = Dim::around(&shape, axis);
        let count = top.at(axis)?.known().unwrap_or(0);
        let rows = x.reshape([outer, x.size(axis), inner]).isolated();
        shape.put(axis, Dim::Known(count));
        Ok(pool_axis(rows, *span, count, pooling_type)?.reshape(shape))
    })
}

/// Returns `count` dilated windows along the middle of three axes.
fn pool_axis(x: Nd, span: WindowAxis, count: i64, pooling_type: i32) -> Result<Nd> {
    let (x, span) = sampled(x, span)?;
    let [kernel, stride, dilation, begin] =
        [span.kernel, span.stride, span.dilation, span.begin].map(i64::from);
    let (outer, size, inner) = (x.size(0), x.size(1).known().unwrap_or(0), x.size(2));
    let with_rows = |rows: i64| shape![&outer, rows, &inner];
    // The rows at which windows start, and the rows they cover, rounded up to a multiple of the dilation.
    let starts = (count - 1) * stride + 1;
    let rows = (starts + (kernel - 1) * dilation).max(size + begin);
    let steps = (rows + dilation - 1) / dilation;
    let rows = steps * dilation;
    let border = Border::Constant(if pooling_type == MAX { f32::MIN } else { 0.0 });
    let x = x.pad(&[(1, [begin, rows - size - begin].map(Dim::Known))], border);
    if dilation == 1 {
        return Ok(x.layer(along_rows(span.kernel, span.stride, pooling_type)?, with_rows(count)));
    }
    let x = x.reshape([outer.clone(), Dim::Known(steps), &inner * dilation]);
    let steps = steps - kernel + 1;
    let top = [outer.clone(), Dim::Known(steps), &inner * dilation];
    let x = x.layer(along_rows(span.kernel, 1, pooling_type)?, top);
    let x = x.reshape(with_rows(steps * dilation)).isolated().first(1, starts);
    if stride == 1 {
        return Ok(x);
    }
    Ok(x.layer(along_rows(1, span.stride, pooling_type)?, with_rows(count)))
}

/// Returns a pooling along the middle of three axes.
fn along_rows(kernel: i32, stride: i32, pooling_type: i32) -> Result<Layer> {
    let spans = vec![WindowAxis { kernel, stride, ..WindowAxis::ONE }, WindowAxis::ONE];
    Windows { spans, pooling_type, pad_mode: VALID, count_include_pad: true }.layer()
}

/// Returns the elements along the middle of three axes that windows read, and these windows: with a stride
/// and a dilation that share a divisor, these are every so many elements, over which the windows have smaller
/// steps.
fn sampled(x: Nd, span: WindowAxis) -> Result<(Nd, WindowAxis)> {
    let [stride, dilation] = [span.stride, span.dilation].map(|step| Dim::Known(i64::from(step)));
    let step = i32::try_from(stride.common_factor(&dilation))?;
    let begin = (span.begin + step - 1) / step;
    let (first, size) = (i64::from(begin * step - span.begin), x.size(1).known().unwrap_or(0));
    if step == 1 || first >= size {
        return Ok((x, span));
    }
    let rest = size - first;
    let rows = (rest - 1) / i64::from(step) + 1;
    let every = along_rows(1, step, MAX)?;
    let x = x.slice(1, first, rest).layer(every, [x.size(0), Dim::Known(rows), x.size(2)]);
    let (stride, dilation) = (span.stride / step, span.dilation / step);
    Ok((x, WindowAxis { stride, dilation, begin, ..span }))
}
