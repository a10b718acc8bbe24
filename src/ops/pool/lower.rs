//! Poolings in ncnn's layers.

use num_traits::AsPrimitive;

use super::{Kind, Pool, read_p, read_pool, split_shape};
use crate::error::{At, Error, Result, unsupported};
use crate::lower::Lower;
use crate::ncnn::layer::{Crop, Padding, Pooling, Pooling1D, Pooling3D, binary_op, reduction_op, unary_op};
use crate::ncnn::{BlobId, Layer};
use crate::ops::window::{Pads, Span};
use crate::tensor::{Dim, Tensor};

/// `Pooling::pooling_type`.
const MAX: i32 = 0;
/// `Pooling::pooling_type`.
const AVERAGE: i32 = 1;

/// `Pooling::pad_mode`: the last window is counted where it begins within the padding given.
const FULL: i32 = 0;
/// `Pooling::pad_mode`: as much padding as is given.
const VALID: i32 = 1;
/// `Pooling::pad_mode`: the size divided by the stride, odd padding behind.
const SAME_UPPER: i32 = 2;
/// `Pooling::pad_mode`: the size divided by the stride, odd padding in front.
const SAME_LOWER: i32 = 3;

/// Largest power that is a product of so many factors.
const MAX_P: i64 = 8;
/// The least number whose root is taken: the logarithm of 0 is not finite, and the root of this is nothing beside any other element.
const LEAST_POWER: f32 = 1e-37;

/// A layer of windows without dilation, over the axes behind the outermost.
struct Windows {
    spans: Vec<Span>,
    pooling_type: i32,
    pad_mode: i32,
    count_include_pad: bool,
}

impl Windows {
    fn layer(&self) -> Result<Layer> {
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
            spans => unsupported!("a pooling over {} axes", spans.len()),
        })
    }
}

pub(super) fn lower_pool(lower: &mut Lower) -> Result<()> {
    let pool = read_pool(lower)?;
    refuse_indices(lower)?;
    let x = merged_input(lower)?;
    let x = match pool.kind {
        Kind::Lp { p } => power(lower, x, p)?,
        _ => x,
    };
    let (_, _, spatial) = split_shape(lower)?;
    let sizes: Option<Vec<i64>> = spatial.iter().map(Dim::known).collect();
    let mut y = match sizes {
        Some(sizes) => pool_fixed(lower, &pool, x, &sizes)?,
        None => pool_free(lower, &pool, x, spatial)?,
    };
    if let Kind::Lp { p } = pool.kind {
        let area: f32 = pool.window.area()?.as_();
        y = lower.binary_scalar(binary_op::MUL, y, area)?;
        y = root(lower, y, p)?;
    }
    lower.set(0, y)
}

fn refuse_indices(lower: &Lower) -> Result<()> {
    let indices = lower.node().outputs.get(1).copied().flatten();
    if indices.is_some_and(|id| lower.graph().use_counts().contains_key(&id)) {
        return Err(
            Error::unsupported("the places of the maxima cannot be computed in ncnn").at_part("output 1")
        );
    }
    Ok(())
}

/// Input 0 with the batch merged into the channels.
fn merged_input(lower: &mut Lower) -> Result<BlobId> {
    let (batch, channels, spatial) = split_shape(lower)?;
    let form: Vec<Dim> = std::iter::once(batch.mul(channels)?).chain(spatial.iter().cloned()).collect();
    if form.len() > 4 {
        unsupported!("a pooling over {} axes", spatial.len());
    }
    lower.blob_as(0, &form)
}

/// The form of the result: channels, and the sizes of the output.
fn output_form(lower: &Lower, x: BlobId) -> Result<Vec<Dim>> {
    let spatial = lower.output_shape(0)?.iter().skip(2).cloned();
    Ok(lower.form(x).into_iter().take(1).chain(spatial).collect())
}

/// Windows over sizes that are not fixed: the padding must not depend on them.
fn pool_free(lower: &mut Lower, pool: &Pool, x: BlobId, spatial: &[Dim]) -> Result<BlobId> {
    let window = &pool.window;
    let free = |what: &str| {
        Err(Error::unsupported(format!("{what} over a size that is not fixed"))
            .help("give sizes with --input-shape"))
    };
    if window.dilations.iter().any(|n| *n != 1) {
        return free("a dilated pooling");
    }
    // Padding that ncnn computes counts as elements in its averages.
    let (pooling_type, count_include_pad) = match pool.kind {
        Kind::Max => (MAX, false),
        Kind::Lp { .. } => (AVERAGE, true),
        Kind::Average { count_include_pad } => (AVERAGE, count_include_pad),
    };
    let averages = matches!(pool.kind, Kind::Average { .. });
    let mut spans = Vec::with_capacity(window.rank());
    let pad_mode = match window.pads {
        Pads::Same { .. } if window.spans(spatial).is_ok() => VALID,
        // Where the stride is larger than the window, SAME needs no padding on some axis, and ncnn computes a negative one.
        Pads::Same { .. } if window.kernel.iter().zip(&window.strides).any(|(k, s)| s > k) => {
            return free("auto_pad with strides larger than the window");
        }
        Pads::Same { .. } if averages && !count_include_pad => {
            return free("an average that leaves out automatic padding");
        }
        Pads::Same { upper } => {
            for (kernel, stride) in window.kernel.iter().zip(&window.strides) {
                spans.push(Span {
                    kernel: i32::try_from(*kernel)?,
                    stride: i32::try_from(*stride)?,
                    ..Span::ONE
                });
            }
            if upper { SAME_UPPER } else { SAME_LOWER }
        }
        Pads::Explicit(_) if window.ceil && averages && count_include_pad => {
            return free("an average in ceil_mode that counts the padding");
        }
        Pads::Explicit(_) if window.ceil => FULL,
        Pads::Explicit(_) => VALID,
    };
    if spans.is_empty() {
        spans = window.spans(spatial)?;
    }
    let form = output_form(lower, x)?;
    let windows = Windows { spans, pooling_type, pad_mode, count_include_pad };
    lower.emit(windows.layer()?, &[x], &form)
}

/// Windows over fixed sizes: all padding is explicit, what the last window needs beyond it too.
fn pool_fixed(lower: &mut Lower, pool: &Pool, x: BlobId, sizes: &[i64]) -> Result<BlobId> {
    let form = output_form(lower, x)?;
    let (_, _, spatial) = split_shape(lower)?;
    let given = pool.window.spans(spatial)?;
    let mut spans = given.clone();
    let mut counts = Vec::with_capacity(spans.len());
    for (i, (span, size)) in spans.iter_mut().zip(sizes).enumerate() {
        let extent = i32::try_from(pool.window.extent(i)?)?;
        if pool.window.leaves_out(i, &Dim::Known(*size))? {
            unsupported!(
                "auto_pad with strides beyond the window, where onnxruntime and the specification disagree"
            );
        }
        if span.begin >= extent || span.end >= extent {
            unsupported!(
                "a pooling with a padding of {} and {} around windows of {extent}",
                span.begin,
                span.end
            );
        }
        let count = form.at(i + 1)?.known().ok_or_else(|| Error::invalid("a size is not known"))?;
        let count = i32::try_from(count)?;
        let size = i32::try_from(*size)?;
        let last = (count - 1) * span.stride + extent - size - span.begin;
        span.end = span.end.max(last);
        counts.push((count, size));
    }
    let (pooling_type, count_include_pad) = match pool.kind {
        Kind::Max => (MAX, false),
        Kind::Lp { .. } => (AVERAGE, true),
        Kind::Average { count_include_pad } => (AVERAGE, count_include_pad),
    };
    let dilated = spans.iter().any(|span| span.dilation != 1);
    let y = if dilated {
        pool_dilated(lower, x, &spans, &form, pooling_type)?
    } else {
        let windows = Windows { spans: spans.clone(), pooling_type, pad_mode: VALID, count_include_pad };
        lower.emit(windows.layer()?, &[x], &form)?
    };
    // The layers above divide by all elements of a window where they count padding; ONNX does not count what lies beyond the padding
    // given.
    let Kind::Average { count_include_pad } = pool.kind else { return Ok(y) };
    if !dilated && (!count_include_pad || spans == given) {
        return Ok(y);
    }
    let scales = average_scales(&given, &counts, count_include_pad);
    let Some(scales) = scales else { return Ok(y) };
    let map_form: Vec<Dim> = std::iter::once(Dim::Known(1)).chain(form.iter().skip(1).cloned()).collect();
    let shape: Vec<usize> = scales.shape().to_vec();
    let map = Tensor::from_f32(&shape, scales.iter().copied().collect())?;
    let map = lower.memory_data(&map, &map_form)?;
    lower.binary(binary_op::MUL, y, map)
}

/// For each window, the number of its elements over the number of those that count; none where that is 1 everywhere.
fn average_scales(
    spans: &[Span],
    counts: &[(i32, i32)],
    count_include_pad: bool,
) -> Option<ndarray::ArrayD<f32>> {
    let axis_scales = |(span, (count, size)): (&Span, &(i32, i32))| -> Vec<f32> {
        let (low, high) = if count_include_pad { (-span.begin, size + span.end) } else { (0, *size) };
        let scale = |i: i32| {
            let places = (0..span.kernel).map(|k| i * span.stride - span.begin + k * span.dilation);
            let counted: f32 = places.filter(|place| (low..high).contains(place)).count().as_();
            let kernel: f32 = span.kernel.as_();
            kernel / counted.max(1.0)
        };
        (0..*count).map(scale).collect()
    };
    let axes: Vec<Vec<f32>> = spans.iter().zip(counts).map(axis_scales).collect();
    if axes.iter().flatten().all(|scale| (scale - 1.0).abs() < f32::EPSILON) {
        return None;
    }
    let shape: Vec<usize> = axes.iter().map(Vec::len).collect();
    Some(ndarray::ArrayD::from_shape_fn(shape, |index| {
        let index = ndarray::Dimension::slice(&index);
        axes.iter().zip(index).filter_map(|(axis, i)| axis.get(*i)).product()
    }))
}

/// Windows with dilation, axis by axis: maxima of maxima, and means of means.
fn pool_dilated(
    lower: &mut Lower,
    x: BlobId,
    spans: &[Span],
    form: &[Dim],
    pooling_type: i32,
) -> Result<BlobId> {
    let mut sizes = lower.form(x);
    let mut x = x;
    for (i, span) in spans.iter().enumerate() {
        let axis = i + 1;
        let outer = Dim::product(sizes.iter().take(axis))?;
        let inner = Dim::product(sizes.iter().skip(axis + 1))?;
        let count = form.at(axis)?.known().unwrap_or(0);
        let size = sizes.at(axis)?.known().unwrap_or(0);
        x = lower.reshape(x, &[outer, Dim::Known(size), inner])?;
        x = pool_axis(lower, x, *span, size, count, pooling_type)?;
        if let Some(slot) = sizes.get_mut(axis) {
            *slot = Dim::Known(count);
        }
    }
    lower.reshape(x, form)
}

/// Dilated windows along the middle of three axes, of `size` elements, for a result of `count`.
fn pool_axis(
    lower: &mut Lower,
    mut x: BlobId,
    span: Span,
    size: i64,
    count: i64,
    pooling_type: i32,
) -> Result<BlobId> {
    let (kernel, stride, dilation) =
        (i64::from(span.kernel), i64::from(span.stride), i64::from(span.dilation));
    let form = lower.form(x);
    let (outer, inner) = (form.at(0)?.clone(), form.at(2)?.clone());
    let with_rows = |rows: i64| vec![outer.clone(), Dim::Known(rows), inner.clone()];
    let begin = i64::from(span.begin);
    // Rows from which windows begin, and rows that they reach, up to whole steps of the dilation.
    let starts = (count - 1) * stride + 1;
    let rows = (starts + (kernel - 1) * dilation).max(size + begin);
    let steps = (rows + dilation - 1) / dilation;
    let rows = steps * dilation;
    if rows != size {
        let value = if pooling_type == MAX { f32::MIN } else { 0.0 };
        let padding = Padding {
            top: span.begin,
            bottom: i32::try_from(rows - size - begin)?,
            value,
            ..Padding::default()
        };
        x = lower.emit(padding, &[x], &with_rows(rows))?;
    }
    let windows = |kernel, stride| Windows {
        spans: vec![Span { kernel, stride, ..Span::ONE }, Span::ONE],
        pooling_type,
        pad_mode: VALID,
        count_include_pad: true,
    };
    x = lower.reshape(x, &[outer.clone(), Dim::Known(steps), inner.mul(&Dim::Known(dilation))?])?;
    let steps = steps - kernel + 1;
    let top = [outer.clone(), Dim::Known(steps), inner.mul(&Dim::Known(dilation))?];
    x = lower.emit(windows(span.kernel, 1).layer()?, &[x], &top)?;
    x = lower.reshape(x, &with_rows(steps * dilation))?;
    if steps * dilation != starts {
        let crop =
            Crop { starts: vec![0], ends: vec![i32::try_from(starts)?], axes: vec![1], ..Crop::default() };
        x = lower.emit(crop, &[x], &with_rows(starts))?;
    }
    if stride == 1 {
        return Ok(x);
    }
    lower.emit(windows(1, span.stride).layer()?, &[x], &with_rows(count))
}

/// `|x|^p`.
fn power(lower: &mut Lower, x: BlobId, p: i64) -> Result<BlobId> {
    if p > MAX_P {
        unsupported!("the exponent {p}");
    }
    if p % 2 == 0 {
        let square = lower.unary(unary_op::SQUARE, x)?;
        return repeated(lower, square, p / 2);
    }
    let magnitude = lower.unary(unary_op::ABS, x)?;
    repeated(lower, magnitude, p)
}

fn repeated(lower: &mut Lower, x: BlobId, n: i64) -> Result<BlobId> {
    let mut y = x;
    for _ in 1..n {
        y = lower.binary(binary_op::MUL, y, x)?;
    }
    Ok(y)
}

/// `x^(1/p)` of what is not negative.
fn root(lower: &mut Lower, x: BlobId, p: i64) -> Result<BlobId> {
    match p {
        1 => Ok(x),
        2 => lower.unary(unary_op::SQRT, x),
        _ => {
            let p: f32 = p.as_();
            let x = lower.binary_scalar(binary_op::MAX, x, LEAST_POWER)?;
            lower.binary_scalar(binary_op::POW, x, 1.0 / p)
        }
    }
}

/// Two axes for Pooling1D, three for Pooling, with the batch merged into the channels.
fn global_input(lower: &mut Lower) -> Result<BlobId> {
    let (batch, channels, spatial) = split_shape(lower)?;
    let mut form = vec![batch.mul(channels)?];
    match spatial {
        [h, w] => form.extend([h.clone(), w.clone()]),
        _ => form.push(Dim::product(spatial)?),
    }
    lower.blob_as(0, &form)
}

pub(super) fn lower_global(lower: &mut Lower) -> Result<()> {
    let x = global_input(lower)?;
    let pooling_type = if lower.op_type() == "GlobalMaxPool" { MAX } else { AVERAGE };
    let form = lower.form(x);
    let layer: Layer = if form.len() == 2 {
        Pooling1D { pooling_type, global_pooling: 1, ..Pooling1D::default() }.into()
    } else {
        Pooling { pooling_type, global_pooling: 1, ..Pooling::default() }.into()
    };
    let y = lower.emit(layer, &[x], &[form.at(0)?.clone()])?;
    lower.set(0, y)
}

pub(super) fn lower_global_lp(lower: &mut Lower) -> Result<()> {
    let p = read_p(lower)?;
    let (batch, channels, spatial) = split_shape(lower)?;
    let form = [batch.mul(channels)?, Dim::product(spatial)?];
    let x = lower.blob_as(0, &form)?;
    let x = power(lower, x, p)?;
    let sum = lower.reduce(reduction_op::SUM, x, &[1])?;
    let y = root(lower, sum, p)?;
    lower.set(0, y)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn averages_count_the_padding_given_and_no_more() {
        let span = Span { kernel: 3, stride: 2, dilation: 1, begin: 0, end: 1 };
        // Windows 0..3, 2..5, 4..7 over 5 elements and one of padding.
        let scales =
            |include| average_scales(&[span], &[(3, 5)], include).map(|s| s.iter().copied().collect());
        assert_eq!(scales(true), Some(vec![1.0, 1.0, 1.5]));
        assert_eq!(scales(false), Some(vec![1.0, 1.0, 3.0]));
        assert_eq!(average_scales(&[span], &[(2, 5)], true), None);
    }
}
