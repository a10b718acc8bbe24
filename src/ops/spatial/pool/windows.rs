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

/// Emits a pooling with dilation axis by axis: maxima of maxima, or means of means.
pub(super) fn pool_dilated(
    lower: &Lower,
    x: BlobId,
    spans: &[WindowAxis],
    form: &[Dim],
    pooling_type: i32,
) -> Result<BlobId> {
    let mut sizes = lower.form(x);
    let mut x = x;
    for (i, span) in spans.iter().enumerate() {
        let axis = i + 1;
        let [outer, inner] = Dim::around(&sizes, axis);
        let count = form.at(axis)?.known().unwrap_or(0);
        let size = sizes.at(axis)?.known().unwrap_or(0);
        x = lower.reshape(x, &shape![outer, size, inner])?;
        x = pool_axis(lower, x, *span, size, count, pooling_type)?;
        sizes.put(axis, Dim::Known(count));
    }
    lower.reshape(x, form)
}

/// Emits dilated windows along the middle of three axes, from `size` to `count` elements.
fn pool_axis(
    lower: &Lower,
    x: BlobId,
    span: WindowAxis,
    size: i64,
    count: i64,
    pooling_type: i32,
) -> Result<BlobId> {
    let (x, span, size) = sampled(lower, x, span, size)?;
    let (kernel, stride, dilation) =
        (i64::from(span.kernel), i64::from(span.stride), i64::from(span.dilation));
    let form = lower.form(x);
    let (outer, inner) = (form.at(0)?.clone(), form.at(2)?.clone());
    let with_rows = |rows: i64| shape![&outer, rows, &inner];
    let begin = i64::from(span.begin);
    // The rows at which windows start, and those that they cover, rounded up to a multiple of the dilation.
    let starts = (count - 1) * stride + 1;
    let rows = (starts + (kernel - 1) * dilation).max(size + begin);
    let steps = (rows + dilation - 1) / dilation;
    let rows = steps * dilation;
    let border = Border::Constant(if pooling_type == MAX { f32::MIN } else { 0.0 });
    let mut x = lower.padded(x, 1, begin, rows - size - begin, border)?;
    let windows = |kernel, stride| Windows {
        spans: vec![WindowAxis { kernel, stride, ..WindowAxis::ONE }, WindowAxis::ONE],
        pooling_type,
        pad_mode: VALID,
        count_include_pad: true,
    };
    if dilation == 1 {
        return lower.emit(windows(span.kernel, span.stride).layer()?, &[x], &with_rows(count));
    }
    x = lower.reshape(x, &shape![&outer, steps, &inner * dilation])?;
    let steps = steps - kernel + 1;
    let top = [outer.clone(), Dim::Known(steps), &inner * dilation];
    x = lower.emit(windows(span.kernel, 1).layer()?, &[x], &top)?;
    x = lower.reshape(x, &with_rows(steps * dilation))?;
    x = lower.first(x, 1, &Dim::Known(starts))?;
    if stride == 1 {
        return Ok(x);
    }
    lower.emit(windows(1, span.stride).layer()?, &[x], &with_rows(count))
}

/// Returns the elements along the middle of three axes that windows read: with a stride and a dilation that share a
/// divisor, these are every so many elements, over which the windows have smaller steps. Also returns these windows, and
/// the number of elements.
fn sampled(lower: &Lower, x: BlobId, span: WindowAxis, size: i64) -> Result<(BlobId, WindowAxis, i64)> {
    let [stride, dilation] = [span.stride, span.dilation].map(|step| Dim::Known(i64::from(step)));
    let step = i32::try_from(stride.common_factor(&dilation))?;
    let begin = (span.begin + step - 1) / step;
    let first = i64::from(begin * step - span.begin);
    if step == 1 || first >= size {
        return Ok((x, span, size));
    }
    let rest = size - first;
    let rows = (rest - 1) / i64::from(step) + 1;
    let x = lower.cut(x, 1, first, rest)?;
    let x = lower.stride(x, 1, &Dim::ZERO, step.into(), &Dim::Known(rows))?;
    let (stride, dilation) = (span.stride / step, span.dilation / step);
    Ok((x, WindowAxis { stride, dilation, begin, ..span }, rows))
}
