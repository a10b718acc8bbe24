//! Lowering of poolings to ncnn's layers.

use num_traits::AsPrimitive;

use super::lp::{power, root};
use super::windows::{Windows, pool_dilated};
use super::{Kind, Pool, read_windows, split_shape};
use crate::ncnn::Layer;
use crate::ncnn::layer::pad_mode::{FULL, SAME_LOWER, SAME_UPPER, VALID};
use crate::ncnn::layer::pooling_type::{AVERAGE, MAX};
use crate::ncnn::layer::{Crop, Pooling, Pooling1D};
use crate::ops::prelude::*;
use crate::ops::spatial::window::{Pads, Window, WindowAxis};

impl Kind {
    /// Returns `pooling_type`, and whether the layer counts padding.
    fn pooling(self) -> (i32, bool) {
        match self {
            Kind::Max => (MAX, false),
            Kind::Lp { .. } => (AVERAGE, true),
            Kind::Average { count_include_pad } => (AVERAGE, count_include_pad),
        }
    }
}

pub(super) fn lower_pool(lower: &mut Lower, kind: Kind) -> Result<()> {
    let pool = Pool { kind, window: read_windows(lower)? };
    let x = merged_input(lower)?;
    let x = if let Kind::Lp { p } = pool.kind { power(lower, x, p)? } else { x };
    let (_, _, spatial) = split_shape(lower.shape(0)?)?;
    let sizes: Option<Vec<i64>> = spatial.iter().map(Dim::known).collect();
    let mut y = match sizes {
        Some(sizes) => pool_fixed(lower, &pool, x, &sizes)?,
        None => pool_free(lower, &pool, x, spatial)?,
    };
    if let Kind::Lp { p } = pool.kind {
        let area: f32 = pool.window.area()?.as_();
        y = lower.compute(y * area)?;
        y = root(lower, y, p)?;
    }
    lower.set(0, y)
}

/// Returns input 0 with the batch merged into the channels.
fn merged_input(lower: &mut Lower) -> Result<BlobId> {
    let (batch, channels, spatial) = split_shape(lower.shape(0)?)?;
    let form: Vec<Dim> = std::iter::once(batch.mul(channels)?).chain(spatial.iter().cloned()).collect();
    if form.len() > 4 {
        unsupported!("a pooling over {} spatial axes", spatial.len());
    }
    lower.blob_as(0, &form)
}

/// Returns the form of the output: the channels of `x`, and the spatial sizes.
fn output_form(lower: &Lower, x: BlobId) -> Result<Vec<Dim>> {
    let spatial = lower.output_shape(0)?.iter().skip(2).cloned();
    Ok(lower.form(x).into_iter().take(1).chain(spatial).collect())
}

/// Emits windows over free sizes, if the padding does not depend on them.
fn pool_free(lower: &mut Lower, pool: &Pool, x: BlobId, spatial: &[Dim]) -> Result<BlobId> {
    let window = &pool.window;
    let free = |what: &str| Err(Error::unsupported(format!("{what} over a size known only at run time")));
    if window.dilations.iter().any(|n| *n != 1) {
        return free("a dilated pooling");
    }
    let (pooling_type, count_include_pad) = pool.kind.pooling();
    // ncnn's averages include the padding that the layer computes.
    let averages = matches!(pool.kind, Kind::Average { .. });
    let excludes_padding = averages && !count_include_pad;
    let without_padding = window.in_ceil_mode().filter(|_| excludes_padding);
    let window = without_padding.as_ref().unwrap_or(window);
    let mut spans = Vec::with_capacity(window.rank());
    let pad_mode = match window.pads {
        Pads::Same { .. } if window.may_pad_negatively(spatial)? => {
            return free("auto_pad with a stride larger than the window");
        }
        Pads::Same { .. } if window.spans(spatial).is_ok() => VALID,
        Pads::Same { .. } if excludes_padding => {
            return free("an average that excludes automatic padding");
        }
        Pads::Same { upper: false } if pads_depth_unevenly(window, spatial)? => {
            return free("an automatic padding before the depth that may be larger than the one after it");
        }
        Pads::Same { upper } => {
            for axis in 0..window.rank() {
                spans.push(window.span(axis, 0, 0)?);
            }
            if upper { SAME_UPPER } else { SAME_LOWER }
        }
        Pads::Explicit(_) if window.ceil && averages && count_include_pad => {
            return free("an average in ceil_mode with count_include_pad");
        }
        Pads::Explicit(_) if window.ceil => FULL,
        Pads::Explicit(_) => VALID,
    };
    if spans.is_empty() {
        spans = window.spans(spatial)?;
    }
    let form = output_form(lower, x)?;
    let x = if pad_mode == FULL { fit_to_full_padding(lower, x, &mut spans, &form)? } else { x };
    let windows = Windows { spans, pooling_type, pad_mode, count_include_pad };
    lower.emit(windows.layer()?, &[x], &form)
}

/// Returns whether automatic padding of three axes, more of it before an axis, may be odd for the depth: the layer
/// adds the odd element after it.
fn pads_depth_unevenly(window: &Window, spatial: &[Dim]) -> Result<bool> {
    let is_even = || Ok::<_, Error>(window.padding(0, spatial.at(0)?).is_ok_and(|(begin, end)| begin == end));
    Ok(window.rank() == 3 && !is_even()?)
}

/// Emits `x` so that the layer, in its mode FULL, has the windows of `ceil_mode`. A window that is longer than an
/// axis with its padding gives the layer one window too many: an axis of known size gets more padding, and a free
/// size is required not to be that short. Elements that no window reads are cropped from axes of known sizes on
/// which the layer would start one more window than ONNX, in its padding.
fn fit_to_full_padding(
    lower: &mut Lower,
    x: BlobId,
    spans: &mut [WindowAxis],
    result: &[Dim],
) -> Result<BlobId> {
    let mut form = lower.form(x);
    let mut crop = Crop::default();
    for (i, span) in spans.iter_mut().enumerate() {
        let axis = i + 1;
        let [kernel, stride, begin, end] = [span.kernel, span.stride, span.begin, span.end].map(i64::from);
        let (Some(size), Some(count)) = (form.at(axis)?.known(), result.at(axis)?.known()) else {
            lower.require(SizeCondition::at_least(form.at(axis)?, kernel - begin - end))?;
            continue;
        };
        if size + begin + end < kernel {
            span.end = i32::try_from(kernel - size - begin)?;
            continue;
        }
        if (size + begin + end - kernel + stride - 1) / stride + 1 == count {
            continue;
        }
        let read = (count - 1) * stride + kernel - begin;
        if !(1..=size).contains(&read) {
            unsupported!("ceil_mode over an axis of size {size} beside a size known only at run time");
        }
        span.end = 0;
        if read == size {
            continue;
        }
        crop.starts.push(0);
        crop.ends.push(i32::try_from(read)?);
        crop.axes.push(i32::try_from(axis)?);
        form.put(axis, Dim::from(read));
    }
    if crop.axes.is_empty() { Ok(x) } else { lower.emit(crop, &[x], &form) }
}

/// Emits windows over known sizes. All padding is explicit, including that of a last window beyond the end.
fn pool_fixed(lower: &mut Lower, pool: &Pool, x: BlobId, sizes: &[i64]) -> Result<BlobId> {
    let form = output_form(lower, x)?;
    let (_, _, spatial) = split_shape(lower.shape(0)?)?;
    let given = pool.window.spans(spatial)?;
    let mut spans = given.clone();
    let mut counts = Vec::with_capacity(spans.len());
    for (i, (span, size)) in spans.iter_mut().zip(sizes).enumerate() {
        let extent = i32::try_from(pool.window.extent(i)?)?;
        if pool.window.skips_ends(i, &Dim::Known(*size))? {
            unsupported!(
                "auto_pad with a stride larger than the window: onnxruntime and the specification disagree"
            );
        }
        if span.begin >= extent || span.end >= extent {
            unsupported!(
                "a pooling with a padding of {} and {} around windows of {extent}",
                span.begin,
                span.end
            );
        }
        let count = form.at(i + 1)?.known().ok_or_else(|| Error::invalid("an output size is not known"))?;
        let count = i32::try_from(count)?;
        let size = i32::try_from(*size)?;
        let reach = (i64::from(count) - 1) * i64::from(span.stride) + i64::from(extent);
        if reach > limits::EXPANDED_AXIS {
            return Err(Error::limit(format!("windows over an axis of {reach} elements with padding")));
        }
        span.end = span.end.max(i32::try_from(reach)? - size - span.begin);
        counts.push((count, size));
    }
    let (pooling_type, count_include_pad) = pool.kind.pooling();
    let dilated = spans.iter().any(|span| span.dilation != 1);
    let y = if dilated {
        pool_dilated(lower, x, &spans, &form, pooling_type)?
    } else {
        let windows = Windows { spans: spans.clone(), pooling_type, pad_mode: VALID, count_include_pad };
        lower.emit(windows.layer()?, &[x], &form)?
    };
    // With count_include_pad, the layers divide by the whole window; ONNX does not count elements beyond the
    // given padding.
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
    lower.compute(y * map)
}

/// Returns the number of elements over the number of counted elements of each window, `None` if 1 for all.
fn average_scales(
    spans: &[WindowAxis],
    counts: &[(i32, i32)],
    count_include_pad: bool,
) -> Option<ndarray::ArrayD<f32>> {
    let axis_scales = |(span, (count, size)): (&WindowAxis, &(i32, i32))| -> Vec<f32> {
        let (low, high) = if count_include_pad { (-span.begin, size + span.end) } else { (0, *size) };
        let scale = |i: i32| {
            let elements = (0..span.kernel).map(|k| i * span.stride - span.begin + k * span.dilation);
            let counted: f32 = elements.filter(|at| (low..high).contains(at)).count().as_();
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

/// Returns input 0 with the batch merged into the channels, in two axes for Pooling1D or three for Pooling.
fn global_input(lower: &mut Lower) -> Result<BlobId> {
    let (batch, channels, spatial) = split_shape(lower.shape(0)?)?;
    let mut form = vec![batch.mul(channels)?];
    match spatial {
        [h, w] => form.extend([h.clone(), w.clone()]),
        _ => form.push(Dim::product(spatial)?),
    }
    lower.blob_as(0, &form)
}

pub(super) fn lower_global(lower: &mut Lower, pooling_type: i32) -> Result<()> {
    let x = global_input(lower)?;
    let form = lower.form(x);
    let layer: Layer = if form.len() == 2 {
        Pooling1D { pooling_type, global_pooling: 1, ..Pooling1D::default() }.into()
    } else {
        Pooling { pooling_type, global_pooling: 1, ..Pooling::default() }.into()
    };
    let y = lower.emit(layer, &[x], &[form.at(0)?.clone()])?;
    lower.set(0, y)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn averages_count_only_the_given_padding() {
        let span = WindowAxis { kernel: 3, stride: 2, dilation: 1, begin: 0, end: 1 };
        // Windows 0..3, 2..5, 4..7 over 5 elements and one of padding.
        let scales =
            |include| average_scales(&[span], &[(3, 5)], include).map(|s| s.iter().copied().collect());
        assert_eq!(scales(true), Some(vec![1.0, 1.0, 1.5]));
        assert_eq!(scales(false), Some(vec![1.0, 1.0, 3.0]));
        assert_eq!(average_scales(&[span], &[(2, 5)], true), None);
    }
}
