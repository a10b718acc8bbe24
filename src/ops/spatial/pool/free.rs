//! Windows over free sizes.
//!
//! Where the layers have the windows of ONNX for every size, they are emitted. A dilated window is the
//! maximum or the sum of slices, of which each begins a dilation after the one before. Averages that do not
//! count all of a window are quotients of the averages of the elements and of ones.

use num_traits::AsPrimitive;

use super::lower::one_channel;
use super::windows::Windows;
use super::{Kind, Pool, split_shape};
use crate::ncnn::layer::pad_mode::{FULL, SAME_LOWER, SAME_UPPER, VALID};
use crate::ncnn::layer::pooling_type::{AVERAGE, MAX};
use crate::ops::prelude::*;
use crate::ops::spatial::window::{Pads, Window, WindowAxis};
use crate::tensor::{Border, Span};

/// The most elements of a dilated window: each is a slice.
const MAX_SLICES: i64 = 4096;

/// Returns windows over free sizes.
pub(super) fn pool_free<'l>(lower: &'l Lower, pool: &Pool, x: Nd<'l>, top: &[Dim]) -> Result<Nd<'l>> {
    let (_, _, spatial) = split_shape(lower.shape(0)?)?;
    let ones = || lower.all(1.0, one_channel(&x.shape()));
    let window = &pool.window;
    let (pooling_type, count_include_pad) = pool.kind.pooling();
    // ncnn's averages include the padding that the layer computes.
    let averages = matches!(pool.kind, Kind::Average { .. });
    let excludes_padding = averages && !count_include_pad;
    let without_padding = window.in_ceil_mode().filter(|_| excludes_padding);
    let window = without_padding.as_ref().unwrap_or(window);
    let is_dilated = window.dilations.iter().any(|n| *n != 1);
    if matches!(window.pads, Pads::Same { .. }) && window.spans(spatial).is_err() {
        if window.may_pad_negatively(spatial)? {
            unsupported!("auto_pad with a stride larger than the window over a size known only at run time");
        }
        let padded = Padded { window, pooling_type, spatial: top.get(1..).unwrap_or_default() };
        if !excludes_padding {
            return padded.windows(x, count_include_pad);
        }
        return Ok(padded.windows(x, true)? / padded.windows(ones(), true)?);
    }
    let mut spans = window.spans(spatial)?;
    let ceil = window.ceil && matches!(window.pads, Pads::Explicit(_));
    let counts_beyond = ceil && averages && count_include_pad;
    let is_cut = ceil && window.drops_windows(spatial)?;
    if !is_dilated && !counts_beyond && !is_cut {
        let pad_mode = if ceil { FULL } else { VALID };
        let x = if pad_mode == FULL { fit_to_full_padding(lower, x, &mut spans, top)? } else { x };
        let windows = Windows { spans, pooling_type, pad_mode, count_include_pad };
        return Ok(x.layer(windows.layer()?, top));
    }
    let is_bare = !ceil && spans.iter().all(|span| (span.begin, span.end) == (0, 0));
    let divides = averages && (counts_beyond || is_dilated && !count_include_pad && !is_bare);
    let covered = Covered { ceil, spans: &spans, pooling_type };
    // ncnn leaves padding out of averages, where it pads.
    let mut y = covered.windows(x, count_include_pad, (0.0, 0.0))?;
    if divides {
        let counted = if count_include_pad { 1.0 } else { 0.0 };
        let counts = covered.windows(ones(), true, (counted, 0.0))?;
        // A dilated window may have no element: the average is 0.
        let least: f32 = window.area()?.as_();
        y = y / counts.compute(|counts| counts.maximum(0.5 / least));
    }
    // Windows in the padding after an axis.
    (1..top.len()).try_fold(y, |y, axis| Ok(y.first(axis, top.at(axis)?)))
}

/// Windows with an automatic padding that the layer computes.
struct Padded<'a> {
    window: &'a Window,
    pooling_type: i32,
    /// The sizes of the result, without the channels.
    spatial: &'a [Dim],
}

impl Padded<'_> {
    fn windows<'l>(&self, x: Nd<'l>, count_include_pad: bool) -> Result<Nd<'l>> {
        let window = self.window;
        let spans = (0..window.rank()).map(|axis| window.span(axis, 0, 0)).collect::<Result<Vec<_>>>()?;
        let upper = window.pads == Pads::Same { upper: true };
        let turns = !upper && pads_depth_unevenly(window, x);
        let pad_mode = if upper || turns { SAME_UPPER } else { SAME_LOWER };
        let windows = Windows { spans, pooling_type: self.pooling_type, pad_mode, count_include_pad };
        let top: Vec<Dim> = std::iter::once(x.size(0)).chain(self.spatial.iter().cloned()).collect();
        // Padding before an axis is that after the reversed one.
        let axes = if turns { 1..top.len() } else { 0..0 };
        let x = axes.clone().fold(x, |x, axis| x.reverse(axis));
        let y = x.layer(windows.layer()?, top);
        Ok(axes.fold(y, |y, axis| y.reverse(axis)))
    }
}

/// Returns whether automatic padding of three axes, more of it before an axis, may be odd for the depth: the
/// layer adds the odd element after it.
fn pads_depth_unevenly(window: &Window, x: Nd) -> bool {
    window.rank() == 3 && !window.padding(0, &x.size(1)).is_ok_and(|(begin, end)| begin == end)
}

/// Windows with an explicit padding, and windows of `ceil_mode` that end beyond it.
struct Covered<'a> {
    /// Whether there are such further windows.
    ceil: bool,
    spans: &'a [WindowAxis],
    pooling_type: i32,
}

impl Covered<'_> {
    /// Returns the windows. The `border` is the number in the explicit padding, and beyond it, except for
    /// maxima.
    fn windows<'l>(&self, x: Nd<'l>, count_include_pad: bool, border: (f32, f32)) -> Result<Nd<'l>> {
        let is_max = self.pooling_type == MAX;
        let (within, beyond) = if is_max { (f32::MIN, f32::MIN) } else { border };
        let is_dilated = self.spans.iter().any(|span| span.dilation != 1);
        let mut x = x;
        let mut spans = self.spans.to_vec();
        // The number beyond it surrounds the padding of all axes.
        if is_dilated || within != beyond {
            let pads =
                spans.iter().zip(1..).map(|(span, axis)| (axis, [span.begin, span.end].map(Dim::from)));
            x = x.pad(&pads.collect::<Vec<_>>(), Border::Constant(within));
            spans.iter_mut().for_each(|span| (span.begin, span.end) = (0, 0));
        }
        let after = |span: &WindowAxis| if self.ceil { span.stride - 1 } else { 0 };
        if is_dilated {
            let pads = spans.iter().zip(1..).map(|(span, axis)| (axis, [Dim::ZERO, after(span).into()]));
            x = x.pad(&pads.collect::<Vec<_>>(), Border::Constant(beyond));
            return spans.iter().zip(1..).try_fold(x, |x, (span, axis)| self.dilated(x, axis, span));
        }
        let mut top = x.shape().to_vec();
        for (span, axis) in spans.iter_mut().zip(1..) {
            span.end += after(span);
            top.put(axis, steps(&(x.size(axis) + (span.begin + span.end - span.kernel)), span.stride));
        }
        let pooling_type = self.pooling_type;
        let windows = Windows { spans, pooling_type, pad_mode: VALID, count_include_pad };
        Ok(x.layer(windows.layer()?, top))
    }

    /// Returns dilated windows along an axis that is padded.
    fn dilated<'l>(&self, x: Nd<'l>, axis: usize, span: &WindowAxis) -> Result<Nd<'l>> {
        let (kernel, dilation) = (i64::from(span.kernel), i64::from(span.dilation));
        if kernel > MAX_SLICES {
            return Err(Error::limit(format!(
                "dilated windows of {kernel} elements over an axis of free size (at most {MAX_SLICES})"
            )));
        }
        let starts = x.size(axis) - (kernel - 1) * dilation;
        let elements = (0..kernel).map(|element| x.slice(axis, element * dilation, &starts));
        let combine = |a: Nd<'l>, b| if self.pooling_type == MAX { a.maximum(b) } else { a + b };
        let found = elements.reduce(combine).ok_or_else(|| Error::internal("a window has no elements"))?;
        let count = steps(&(starts - 1), span.stride);
        let found = found.take(axis, &Span { start: Dim::ZERO, step: span.stride.into(), count });
        if self.pooling_type != AVERAGE {
            return Ok(found);
        }
        let share: f32 = f64::from(span.kernel).recip().as_();
        Ok(found * share)
    }
}

/// Returns the number of positions up to `last`, every `stride`.
fn steps(last: &Dim, stride: i32) -> Dim {
    last.floor_div(stride) + 1
}

/// Returns `x` so that the layer, in its mode FULL, has the windows of `ceil_mode`. A window that is longer
/// than an axis with its padding gives the layer one window too many: an axis of known size gets more
/// padding, and a free size is required not to be that short. Elements that no window reads are cropped from
/// axes of known sizes on which the layer would start one more window than ONNX, in its padding.
fn fit_to_full_padding<'l>(
    lower: &Lower,
    mut x: Nd<'l>,
    spans: &mut [WindowAxis],
    top: &[Dim],
) -> Result<Nd<'l>> {
    for (span, axis) in spans.iter_mut().zip(1..) {
        let [kernel, stride, begin, end] = [span.kernel, span.stride, span.begin, span.end].map(i64::from);
        let (Some(size), Some(count)) = (x.size(axis).known(), top.at(axis)?.known()) else {
            lower.require(SizeCondition::at_least(&x.size(axis), kernel - begin - end))?;
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
            unsupported!("ceil_mode over an axis of size {size} with a size known only at run time");
        }
        span.end = 0;
        x = x.first(axis, read);
    }
    Ok(x)
}
