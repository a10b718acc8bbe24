//! Operators that read pictures between their elements.

use ndarray::{Array2, ArrayView1, Axis};
use num_traits::AsPrimitive;

use super::window::{Windows, biased};
use super::{rows, shaped, typed};
use crate::error::{Error, Result, unsupported};
use crate::op::Call;
use crate::tensor::Array;

/// The parameter of the cubic kernel.
const CUBIC: f64 = -0.75;

/// What is outside of the axes.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Padding {
    Zeros,
    Border,
    Reflection,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Mode {
    Nearest,
    Linear,
    Cubic,
}

/// Reflects a coordinate at both bounds until it is between them.
fn reflected(x: f64, low: f64, high: f64) -> f64 {
    let range = high - low;
    let outside = if x < low {
        low - x
    } else if x > high {
        x - high
    } else {
        return x;
    };
    if range <= 0.0 {
        return low;
    }
    let turns = (outside / range).trunc();
    let rest = outside - turns * range;
    let is_even = turns % 2.0 == 0.0;
    if (x < low) == is_even { low + rest } else { high - rest }
}

/// Returns the weights of the elements around a position on an axis, by their distance to the element before.
fn weights(mode: Mode, at: f64) -> Vec<(f64, f64)> {
    let first = at.floor();
    let t = at - first;
    match mode {
        Mode::Nearest => vec![(at.round_ties_even(), 1.0)],
        Mode::Linear => vec![(first, 1.0 - t), (first + 1.0, t)],
        Mode::Cubic => {
            let near = |d: f64| ((CUBIC + 2.0) * d - (CUBIC + 3.0)) * d * d + 1.0;
            let far = |d: f64| ((CUBIC * d - 5.0 * CUBIC) * d + 8.0 * CUBIC) * d - 4.0 * CUBIC;
            let all = [far(t + 1.0), near(t), near(1.0 - t), far(2.0 - t)];
            [-1.0, 0.0, 1.0, 2.0].into_iter().zip(all).map(|(step, weight)| (first + step, weight)).collect()
        }
    }
}

/// How coordinates become elements.
struct Sampler {
    mode: Mode,
    padding: Padding,
    aligned: bool,
}

impl Sampler {
    fn read(call: &Call) -> Result<Sampler> {
        let mode = match call.string_or("mode", "linear")? {
            "nearest" => Mode::Nearest,
            "linear" | "bilinear" => Mode::Linear,
            "cubic" | "bicubic" => Mode::Cubic,
            other => unsupported!("the mode {other}"),
        };
        let padding = match call.string_or("padding_mode", "zeros")? {
            "zeros" => Padding::Zeros,
            "border" => Padding::Border,
            "reflection" => Padding::Reflection,
            other => unsupported!("the padding mode {other}"),
        };
        Ok(Sampler { mode, padding, aligned: call.flag_or_false("align_corners")? })
    }

    /// Returns the bounds of an axis.
    fn bounds(&self, size: usize) -> [f64; 2] {
        let last: f64 = AsPrimitive::<f64>::as_(size) - 1.0;
        if self.aligned { [0.0, last] } else { [-0.5, last + 0.5] }
    }

    /// Returns the position on an axis of a coordinate between -1 and 1.
    fn position(&self, coordinate: f64, size: usize) -> f64 {
        let [low, high] = self.bounds(size);
        low + (coordinate + 1.0) / 2.0 * (high - low)
    }

    /// Returns the elements of an axis around a position, with their weights.
    fn along(&self, at: f64, size: usize) -> Vec<(Option<usize>, f64)> {
        let last: f64 = AsPrimitive::<f64>::as_(size) - 1.0;
        let [low, high] = self.bounds(size);
        let inside = |at: f64| match self.padding {
            Padding::Zeros => at,
            Padding::Border => at.clamp(0.0, last),
            Padding::Reflection => reflected(at, low, high),
        };
        let element = |at: f64| {
            let at = inside(at);
            (at > -1.0 && at <= last).then(|| at.trunc().as_())
        };
        weights(self.mode, at).into_iter().map(|(at, weight)| (element(at), weight)).collect()
    }
}

/// Returns the offsets in a plane around a point, with their weights.
fn around(axes: &[Vec<(Option<usize>, f64)>], sizes: &[usize]) -> Vec<(usize, f64)> {
    axes.iter().zip(sizes).fold(vec![(0, 1.0)], |all, (axis, size)| {
        let next = |(offset, weight): &(usize, f64)| {
            let (offset, weight) = (*offset, *weight);
            let inner = axis.iter().filter_map(|(at, part)| Some(((*at)?, *part)));
            inner.map(|(at, part)| (offset * size + at, weight * part)).collect::<Vec<_>>()
        };
        all.iter().flat_map(next).collect()
    })
}

fn sampled(plane: ArrayView1<f64>, around: &[(usize, f64)]) -> f64 {
    around.iter().filter_map(|(offset, weight)| Some(plane.get(*offset)? * weight)).sum()
}

pub(super) fn grid_sample(call: &Call) -> Result<Vec<Array>> {
    let sampler = Sampler::read(call)?;
    let (x, grid) = (call.array(0)?.to_f64()?, call.array(1)?.to_f64()?);
    let shape = x.shape().to_vec();
    let [batch, channels, sizes @ ..] = &*shape else { unsupported!("a picture without channels") };
    let tops = grid.shape().get(1..=sizes.len()).unwrap_or_default().to_vec();
    let count: usize = tops.iter().product();
    let (planes, grid) = (rows(x, batch * channels)?, rows(grid, batch * count)?);
    let mut list = Vec::new();
    for (picture, points) in
        planes.axis_chunks_iter(Axis(0), (*channels).max(1)).zip(grid.axis_chunks_iter(Axis(0), count.max(1)))
    {
        // The last axis comes first in the grid.
        let sample = |point: ArrayView1<f64>| {
            let axes = point
                .iter()
                .rev()
                .zip(sizes)
                .map(|(at, size)| sampler.along(sampler.position(*at, *size), *size));
            around(&axes.collect::<Vec<_>>(), sizes)
        };
        let samples: Vec<_> = points.rows().into_iter().map(sample).collect();
        for plane in picture.rows() {
            list.extend(samples.iter().map(|around| sampled(plane, around)));
        }
    }
    let shape = [*batch, *channels].into_iter().chain(tops).collect();
    Ok(vec![typed(call, shaped(shape, list)?)?])
}

/// A convolution of two axes whose windows have an offset for each of their elements, and a factor.
pub(super) fn deform_conv(call: &Call) -> Result<Vec<Array>> {
    let (x, w, offsets) = (call.array(0)?.to_f64()?, call.array(1)?.to_f64()?, call.array(2)?.to_f64()?);
    let mask = if call.has_input(4) { Some(call.array(4)?.to_f64()?) } else { None };
    let (&[batch, channels, height, width], &[outputs, group, kernel_h, kernel_w]) = (x.shape(), w.shape())
    else {
        unsupported!("axes other than two");
    };
    let &[_, _, top_h, top_w] = offsets.shape() else { unsupported!("offsets without axes") };
    let (taps, count) = (kernel_h * kernel_w, top_h * top_w);
    let offset_groups = usize::try_from(call.int_or("offset_group", 1)?)?.max(1);
    let groups = usize::try_from(call.int_or("group", 1)?)?.max(1);
    let windows = Windows::read(call, &[height, width], &[kernel_h, kernel_w])?;
    let starts = windows.starts([top_h, top_w])?;
    let planes = rows(x, batch * channels)?;
    let offsets = rows(offsets, batch * offset_groups * taps * 2)?;
    let mask = mask.map(|mask| rows(mask, batch * offset_groups * taps)).transpose()?;
    let kernels = rows(w, outputs)?;
    let sampler = Sampler { mode: Mode::Linear, padding: Padding::Zeros, aligned: true };
    let element = |channel: usize, tap: usize, window: usize| {
        let (image, channel) = (channel / channels, channel % channels);
        let part = image * offset_groups + channel / (channels / offset_groups).max(1);
        let row = part * taps + tap;
        let start = starts.get(window)?.get(tap)?;
        let at = |axis: usize| Some(start.get(axis)? + offsets.get((row * 2 + axis, window))?);
        let axes = [sampler.along(at(0)?, height), sampler.along(at(1)?, width)];
        let factor = mask.as_ref().map_or(Some(1.0), |mask| mask.get((row, window)).copied());
        Some(sampled(planes.row(image * channels + channel), &around(&axes, &[height, width])) * factor?)
    };
    let mut list = Vec::new();
    for image in 0..batch {
        for part in 0..groups {
            let first = image * channels + part * group;
            // A row for each element of the windows in each channel.
            let elements = (0..group * taps).flat_map(|row| (0..count).map(move |window| (row, window)));
            let columns = elements.map(|(row, window)| element(first + row / taps, row % taps, window));
            let columns: Option<Vec<f64>> = columns.collect();
            let columns = columns.ok_or_else(|| Error::invalid("offsets of another shape"))?;
            let columns = Array2::from_shape_vec((group * taps, count), columns);
            let columns = columns.map_err(|_| Error::internal("no columns"))?;
            let of_group = outputs / groups;
            let kernel = kernels.slice(ndarray::s![part * of_group..(part + 1) * of_group, ..]);
            list.extend(kernel.dot(&columns));
        }
    }
    let top = shaped(vec![batch, outputs, top_h, top_w], list)?;
    Ok(vec![typed(call, biased(call, 3, top)?)?])
}
