//! Lowering of poolings to ncnn's layers.

use num_traits::AsPrimitive;

use super::free::pool_free;
use super::lp::{power, root};
use super::windows::{Windows, pool_dilated};
use super::{Kind, Pool, read_windows, split_shape};
use crate::ncnn::layer::pad_mode::VALID;
use crate::ncnn::layer::pooling_type::{AVERAGE, MAX};
use crate::ncnn::layer::{Pooling, Pooling1D};
use crate::ops::prelude::*;
use crate::ops::spatial::batch_as_channels;
use crate::ops::spatial::window::WindowAxis;

impl Kind {
    /// Returns `pooling_type`, and whether the layer counts padding.
    pub(super) fn pooling(self) -> (i32, bool) {
        match self {
            Kind::Max => (MAX, false),
            Kind::Lp { .. } => (AVERAGE, true),
            Kind::Average { count_include_pad } => (AVERAGE, count_include_pad),
        }
    }
}

pub(super) fn lower_pool(lower: &Lower, kind: Kind) -> Result<()> {
    let pool = Pool { kind, window: read_windows(lower)? };
    let (_, _, spatial) = split_shape(lower.shape(0)?)?;
    let merged = batch_as_channels(lower.shape(0)?);
    if merged.len() > 4 {
        unsupported!("a pooling over {} spatial axes", spatial.len());
    }
    let x = lower.input(0).reshape(merged);
    let x = if let Kind::Lp { p } = pool.kind { power(x, p)? } else { x };
    let top = batch_as_channels(lower.output_shape(0)?);
    let sizes: Option<Vec<i64>> = Dim::known_sizes(spatial);
    let y = match sizes {
        Some(sizes) => pool_fixed(lower, &pool, x, &sizes, &top)?,
        None => pool_free(lower, &pool, x, &top)?,
    };
    let Kind::Lp { p } = pool.kind else { return lower.give(0, y) };
    let area: f32 = pool.window.area()?.as_();
    lower.give(0, root(y * area, p))
}

/// Returns windows over known sizes. All padding is explicit, including the padding of a last window beyond
/// the end.
fn pool_fixed<'l>(lower: &'l Lower, pool: &Pool, x: Nd<'l>, sizes: &[i64], top: &[Dim]) -> Result<Nd<'l>> {
    let (_, _, spatial) = split_shape(lower.shape(0)?)?;
    let explicit = pool.window.spans(spatial)?;
    let mut spans = explicit.clone();
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
        let count = top.at(i + 1)?.known().ok_or_else(|| Error::invalid("an output size is not known"))?;
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
        pool_dilated(x, &spans, top, pooling_type)?.isolated()
    } else {
        let windows = Windows { spans: spans.clone(), pooling_type, pad_mode: VALID, count_include_pad };
        x.layer(windows.layer()?, top)
    };
    // With count_include_pad, the layers divide by the whole window; ONNX does not count elements beyond the
    // explicit padding.
    let Kind::Average { count_include_pad } = pool.kind else { return Ok(y) };
    if !dilated && (!count_include_pad || spans == explicit) {
        return Ok(y);
    }
    let Some(scales) = average_scales(&explicit, &counts, count_include_pad) else { return Ok(y) };
    let scales = lower.tensor(Tensor::from_f32(scales.shape(), scales.iter().copied().collect()));
    Ok(y * scales.reshape(one_channel(top)))
}

/// Returns the shape of a single channel of a shape whose first axis has the channels.
pub(super) fn one_channel(shape: &[Dim]) -> Vec<Dim> {
    std::iter::once(Dim::ONE).chain(shape.iter().skip(1).cloned()).collect()
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

pub(super) fn lower_global(lower: &Lower, pooling_type: i32) -> Result<()> {
    let (batch, channels, spatial) = split_shape(lower.shape(0)?)?;
    let (x, channels) = (lower.input(0), batch * channels);
    let y = if let [height, width] = spatial {
        let layer = Pooling { pooling_type, global_pooling: 1, ..Pooling::default() };
        x.reshape(shape![&channels, height, width]).layer(layer, [channels])
    } else {
        let layer = Pooling1D { pooling_type, global_pooling: 1, ..Pooling1D::default() };
        x.reshape([channels.clone(), Dim::product(spatial)]).layer(layer, [channels])
    };
    lower.give(0, y)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn averages_count_only_explicit_padding() {
        let span = WindowAxis { kernel: 3, stride: 2, dilation: 1, begin: 0, end: 1 };
        // Windows 0..3, 2..5, 4..7 over 5 elements and one of padding.
        let scales =
            |include| average_scales(&[span], &[(3, 5)], include).map(|s| s.iter().copied().collect());
        assert_eq!(scales(true), Some(vec![1.0, 1.0, 1.5]));
        assert_eq!(scales(false), Some(vec![1.0, 1.0, 3.0]));
        assert_eq!(average_scales(&[span], &[(2, 5)], true), None);
    }
}
