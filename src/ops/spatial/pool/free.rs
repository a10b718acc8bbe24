//! Windows over free sizes.
//!
//! Where the layers have the windows of ONNX for every size, they are emitted. A dilated window is the maximum or the
//! sum of slices, of which each begins a dilation after the one before. Averages that do not count all of a window
//! are quotients of the averages of the elements and of ones.

use num_traits::AsPrimitive;

use super::lower::output_form;
use super::windows::Windows;
use super::{Kind, Pool};
use crate::ncnn::layer::Crop;
use crate::ncnn::layer::pad_mode::{FULL, SAME_LOWER, SAME_UPPER, VALID};
use crate::ncnn::layer::pooling_type::{AVERAGE, MAX};
use crate::ops::prelude::*;
use crate::ops::spatial::window::{Pads, Window, WindowAxis};
use crate::tensor::Border;

/// Emits windows over free sizes.
pub(super) fn pool_free(lower: &Lower, pool: &Pool, x: BlobId, spatial: &[Dim]) -> Result<BlobId> {
    let window = &pool.window;
    let (pooling_type, count_include_pad) = pool.kind.pooling();
    // ncnn's averages include the padding that the layer computes.
    let averages = matches!(pool.kind, Kind::Average { .. });
    let excludes_padding = averages && !count_include_pad;
    let without_padding = window.in_ceil_mode().filter(|_| excludes_padding);
    let window = without_padding.as_ref().unwrap_or(window);
    let form = output_form(lower, x)?;
    let is_dilated = window.dilations.iter().any(|n| *n != 1);
    if matches!(window.pads, Pads::Same { .. }) && window.spans(spatial).is_err() {
        if window.may_pad_negatively(spatial)? {
            unsupported!("auto_pad with a stride larger than the window over a size known only at run time");
        }
        let padded = Padded { window, pooling_type, form };
        if !excludes_padding {
            return padded.windows(lower, x, spatial, count_include_pad);
        }
        let sums = padded.windows(lower, x, spatial, true)?;
        let ones = lower.ones(&ones_form(spatial))?;
        let counts = padded.windows(lower, ones, spatial, true)?;
        return lower.compute(sums / counts);
    }
    let mut spans = window.spans(spatial)?;
    let ceil = window.ceil && matches!(window.pads, Pads::Explicit(_));
    let counts_beyond = ceil && averages && count_include_pad;
    let is_cut = ceil && window.drops_windows(spatial)?;
    if !is_dilated && !counts_beyond && !is_cut {
        let pad_mode = if ceil { FULL } else { VALID };
        let x = if pad_mode == FULL { fit_to_full_padding(lower, x, &mut spans, &form)? } else { x };
        let windows = Windows { spans, pooling_type, pad_mode, count_include_pad };
        return lower.emit(windows.layer()?, &[x], &form);
    }
    let is_bare = !ceil && spans.iter().all(|span| (span.begin, span.end) == (0, 0));
    let divides = averages && (counts_beyond || is_dilated && !count_include_pad && !is_bare);
    let covered = Covered { ceil, given: &spans, pooling_type };
    // ncnn leaves padding out of averages, where it pads.
    let y = covered.windows(lower, x, count_include_pad, (0.0, 0.0))?;
    let y = if divides {
        let ones = lower.ones(&ones_form(spatial))?;
        let counted = if count_include_pad { 1.0 } else { 0.0 };
        let counts = covered.windows(lower, ones, true, (counted, 0.0))?;
        // A dilated window may have no element: the average is 0.
        let least: f32 = window.area()?.as_();
        lower.compute(y / counts.larger(0.5 / least))?
    } else {
        y
    };
    // Windows in the padding after an axis.
    (1..form.len()).try_fold(y, |y, axis| lower.first(y, axis, form.at(axis)?))
}

/// Returns the form of ones in place of the elements of one channel.
fn ones_form(spatial: &[Dim]) -> Vec<Dim> {
    std::iter::once(Dim::ONE).chain(spatial.iter().cloned()).collect()
}

/// Windows with an automatic padding that the layer computes.
struct Padded<'a> {
    window: &'a Window,
    pooling_type: i32,
    /// The form of the result.
    form: Vec<Dim>,
}

impl Padded<'_> {
    fn windows(&self, lower: &Lower, x: BlobId, spatial: &[Dim], count_include_pad: bool) -> Result<BlobId> {
        let window = self.window;
        let mut form = self.form.clone();
        form.put(0, lower.form(x).at(0)?.clone());
        let spans = (0..window.rank()).map(|axis| window.span(axis, 0, 0)).collect::<Result<Vec<_>>>()?;
        let upper = window.pads == Pads::Same { upper: true };
        let turns = !upper && pads_depth_unevenly(window, spatial)?;
        let pad_mode = if upper || turns { SAME_UPPER } else { SAME_LOWER };
        let windows = Windows { spans, pooling_type: self.pooling_type, pad_mode, count_include_pad };
        // Padding before an axis is that after the reversed one.
        let axes = if turns { 1..form.len() } else { 0..0 };
        let x = axes.clone().try_fold(x, |x, axis| lower.reverse(x, axis))?;
        let y = lower.emit(windows.layer()?, &[x], &form)?;
        axes.into_iter().try_fold(y, |y, axis| lower.reverse(y, axis))
    }
}

/// Returns whether automatic padding of three axes, more of it before an axis, may be odd for the depth: the layer
/// adds the odd element after it.
fn pads_depth_unevenly(window: &Window, spatial: &[Dim]) -> Result<bool> {
    let is_even = || Ok::<_, Error>(window.padding(0, spatial.at(0)?).is_ok_and(|(begin, end)| begin == end));
    Ok(window.rank() == 3 && !is_even()?)
}

/// Windows with a given padding, and those of `ceil_mode` that end beyond it.
struct Covered<'a> {
    /// Whether there are such further windows.
    ceil: bool,
    given: &'a [WindowAxis],
    pooling_type: i32,
}

impl Covered<'_> {
    /// Emits the windows. The `border` is what stands in the given padding, and beyond it, unless they are maxima.
    fn windows(
        &self,
        lower: &Lower,
        x: BlobId,
        count_include_pad: bool,
        border: (f32, f32),
    ) -> Result<BlobId> {
        let is_max = self.pooling_type == MAX;
        let (given, beyond) = if is_max { (f32::MIN, f32::MIN) } else { border };
        let is_dilated = self.given.iter().any(|span| span.dilation != 1);
        let mut x = x;
        let mut spans = self.given.to_vec();
        // What is beyond lies around the padding of all axes.
        for (axis, span) in spans.iter_mut().enumerate().filter(|_| is_dilated || given != beyond) {
            x = lower.padded(x, axis + 1, span.begin.into(), span.end.into(), Border::Constant(given))?;
            (span.begin, span.end) = (0, 0);
        }
        for (axis, span) in spans.iter_mut().enumerate() {
            let after = if self.ceil { span.stride - 1 } else { 0 };
            if is_dilated {
                x = lower.padded(x, axis + 1, 0, after.into(), Border::Constant(beyond))?;
            } else {
                span.end += after;
            }
        }
        if is_dilated {
            return spans
                .iter()
                .enumerate()
                .try_fold(x, |x, (axis, span)| self.dilated(lower, x, axis + 1, span));
        }
        let mut form = lower.form(x);
        for (axis, span) in spans.iter().enumerate() {
            let padded = form.at(axis + 1)? + Dim::from(i64::from(span.begin + span.end - span.kernel));
            form.put(axis + 1, steps(&padded, span.stride));
        }
        let pooling_type = self.pooling_type;
        let windows = Windows { spans, pooling_type, pad_mode: VALID, count_include_pad };
        lower.emit(windows.layer()?, &[x], &form)
    }

    /// Emits dilated windows along an axis of a blob that is padded.
    fn dilated(&self, lower: &Lower, x: BlobId, axis: usize, span: &WindowAxis) -> Result<BlobId> {
        let (kernel, dilation) = (i64::from(span.kernel), i64::from(span.dilation));
        let reach = (kernel - 1) * dilation;
        let starts = lower.form(x).at(axis)? - reach;
        let mut found: Option<BlobId> = None;
        for element in 0..kernel {
            let start = element * dilation;
            let end = (start < reach).then_some(start - reach);
            let part = if reach > 0 { lower.crop(x, axis, start, end, &starts)? } else { x };
            found = Some(match found {
                None => part,
                Some(found) if self.pooling_type == MAX => lower.compute(found.larger(part))?,
                Some(found) => lower.compute(found + part)?,
            });
        }
        let mut found = found.ok_or_else(|| Error::internal("a window has no elements"))?;
        if span.stride > 1 {
            let count = steps(&(starts - 1), span.stride);
            found = lower.stride(found, axis, &Dim::ZERO, span.stride.into(), &count)?;
        }
        if self.pooling_type == AVERAGE {
            let share: f32 = f64::from(span.kernel).recip().as_();
            found = lower.compute(found * share)?;
        }
        Ok(found)
    }
}

/// Returns the number of positions up to `last`, every `stride`.
fn steps(last: &Dim, stride: i32) -> Dim {
    last.floor_div(stride) + 1
}

/// Emits `x` so that the layer, in its mode FULL, has the windows of `ceil_mode`. A window that is longer than an
/// axis with its padding gives the layer one window too many: an axis of known size gets more padding, and a free
/// size is required not to be that short. Elements that no window reads are cropped from axes of known sizes on
/// which the layer would start one more window than ONNX, in its padding.
fn fit_to_full_padding(lower: &Lower, x: BlobId, spans: &mut [WindowAxis], result: &[Dim]) -> Result<BlobId> {
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
