//! Pools over one to three axes, and the columns of windows.

use std::ops::Range;

use ndarray::{Axis, Zip};
use num_traits::AsPrimitive;

use super::Mat;
use super::array::{bottom, shaped, size};
use super::convolution::window::{
    SAME_LOWER, SAME_UPPER, Window, axis_len, filled, inner, narrow, pad, paddings, plain_paddings,
    positions, taps, unpad,
};
use crate::error::{Result, invalid, unsupported};
use crate::ncnn::Layer;

/// The elements of one window along an axis.
pub(super) struct Span {
    /// The indices of its elements in the bottom.
    pub elements: Range<usize>,
    /// Whether the window has elements of the padding.
    pub padded: bool,
    /// The number of elements that an average counts.
    pub count: usize,
}

/// What is computed of the elements of a window.
#[derive(Clone, Copy)]
pub(super) enum Pool {
    Maximum,
    Average,
}

/// The params that pools have; `windows` and `out` are along each axis.
struct Params {
    pooling_type: i32,
    global_pooling: i32,
    pad_mode: i32,
    avgpool_count_include_pad: i32,
    adaptive_pooling: i32,
    /// Kernel, stride, and the padding before and after.
    windows: Vec<[i32; 4]>,
    out: Vec<i32>,
}

macro_rules! pool {
    ($layer:expr, $( $kernel:ident $stride:ident $before:ident $after:ident $out:ident, )*) => {
        Params {
            pooling_type: $layer.pooling_type,
            global_pooling: $layer.global_pooling,
            pad_mode: $layer.pad_mode,
            avgpool_count_include_pad: $layer.avgpool_count_include_pad,
            adaptive_pooling: $layer.adaptive_pooling,
            windows: vec![ $( [$layer.$kernel, $layer.$stride, $layer.$before, $layer.$after], )* ],
            out: vec![ $( $layer.$out, )* ],
        }
    };
}

macro_rules! windows {
    ($l:expr) => {
        [
            Window::new([$l.kernel_h, $l.dilation_h, $l.stride_h], ($l.pad_top, $l.pad_bottom))?,
            Window::new([$l.kernel_w, $l.dilation_w, $l.stride_w], ($l.pad_left, $l.pad_right))?,
        ]
    };
}

/// Computes a pool or the columns of windows.
pub(super) fn compute(layer: &Layer, bottoms: &[&Mat]) -> Result<Mat> {
    let bottom = bottom(bottoms, 0)?;
    match layer {
        Layer::Pooling1D(l) => pool(&pool!(l, kernel_w stride_w pad_left pad_right out_w,), bottom),
        Layer::Pooling(l) => {
            let params = pool!(l,
                kernel_h stride_h pad_top pad_bottom out_h,
                kernel_w stride_w pad_left pad_right out_w,
            );
            pool(&params, bottom)
        }
        Layer::Pooling3D(l) => {
            let params = pool!(l,
                kernel_d stride_d pad_front pad_behind out_d,
                kernel_h stride_h pad_top pad_bottom out_h,
                kernel_w stride_w pad_left pad_right out_w,
            );
            pool(&params, bottom)
        }
        Layer::Unfold(l) => unfold(&windows!(l), bottom, l.pad_value.into()),
        Layer::Fold(l) => fold(&windows!(l), bottom, [size(l.output_h)?, size(l.output_w)?]),
        _ => unsupported!("{} has no reference", layer.type_name()),
    }
}

/// Computes a pool, one axis after the other.
fn pool(params: &Params, bottom: &Mat) -> Result<Mat> {
    if bottom.ndim() != params.windows.len() + 1 || bottom.is_empty() {
        invalid!("a bottom of {:?} under windows of {} axes", bottom.shape(), params.windows.len());
    }
    let pool = match params.pooling_type {
        0 => Pool::Maximum,
        1 => Pool::Average,
        other => invalid!("pooling_type {other}"),
    };
    let spans = params.spans(inner(bottom))?;
    let mut top = bottom.clone();
    for (axis, spans) in spans.iter().enumerate() {
        top = reduce(&top, axis + 1, spans, pool)?;
    }
    match params.global_pooling {
        0 => Ok(top),
        _ => shaped(&[bottom.len_of(Axis(0))], top.into_iter().collect()),
    }
}

impl Params {
    /// Returns the windows along each axis of these sizes.
    fn spans(&self, sizes: &[usize]) -> Result<Vec<Vec<Span>>> {
        let whole = |elements: Range<usize>| Span { padded: false, count: elements.len(), elements };
        if self.global_pooling != 0 {
            return Ok(sizes.iter().map(|len| vec![whole(0..*len)]).collect());
        }
        if self.adaptive_pooling != 0 {
            let spans = |(out, len): (&i32, &usize)| {
                // Two and three axes have a code for an axis that stays.
                let count = if *out == -233 && sizes.len() > 1 { *len } else { size(*out)? };
                let bounds = |i: usize| len * i / count..(len * (i + 1)).div_ceil(count);
                Ok((0..axis_len(count)?).map(|i| whole(bounds(i))).collect())
            };
            return self.out.iter().zip(sizes).map(spans).collect();
        }
        let windows: Vec<Window> =
            self.windows.iter().map(|window| self.window(*window)).collect::<Result<_>>()?;
        let mut spans = Vec::new();
        for ((window, len), (before, after)) in windows.iter().zip(sizes).zip(paddings(&windows, sizes)?) {
            let padded = len.saturating_add(before).saturating_add(after);
            let mut count = window.positions(padded)?;
            if self.pad_mode == 0 && (padded - window.kernel) % window.stride != 0 {
                count += 1;
            }
            // Of averages without padding, the automatic one counts nevertheless.
            let all = self.avgpool_count_include_pad != 0 || self.pad_mode > 1;
            let span = |i: usize| {
                let start = i * window.stride;
                let clip = |position: usize| position.saturating_sub(before).min(*len);
                let elements = clip(start)..clip(start + window.kernel);
                let padded = elements.len() < window.kernel;
                Span { padded, count: if all { window.kernel } else { elements.len() }, elements }
            };
            spans.push((0..axis_len(count)?).map(span).collect());
        }
        Ok(spans)
    }

    /// Returns the window along an axis, with its padding by `pad_mode`.
    fn window(&self, [kernel, stride, before, after]: [i32; 4]) -> Result<Window> {
        let pads = match self.pad_mode {
            0 | 1 if before >= 0 && after >= 0 => (before, after),
            _ if before != 0 || after != 0 => unsupported!("padding with pad_mode {}", self.pad_mode),
            2 => (SAME_UPPER, SAME_UPPER),
            3 => (SAME_LOWER, SAME_LOWER),
            other => invalid!("pad_mode {other}"),
        };
        Window::new([kernel, 1, stride], pads)
    }
}

/// Reduces each window along an axis to one element.
pub(super) fn reduce(array: &Mat, axis: usize, spans: &[Span], pool: Pool) -> Result<Mat> {
    let axis = Axis(axis);
    let mut sizes = array.shape().to_vec();
    if let Some(len) = sizes.get_mut(axis.index()) {
        *len = spans.len();
    }
    let mut top = filled(&sizes, 0.0)?;
    for (mut top, span) in top.axis_iter_mut(axis).zip(spans) {
        match pool {
            Pool::Maximum => {
                // The padding of maxima is the least finite number.
                top.fill(if span.padded { f32::MIN.into() } else { f64::NEG_INFINITY });
                for i in span.elements.clone() {
                    Zip::from(&mut top).and(&array.index_axis(axis, i)).for_each(|top, x| *top = top.max(*x));
                }
            }
            Pool::Average => {
                span.elements.clone().for_each(|i| top += &array.index_axis(axis, i));
                let count: f64 = span.count.as_();
                top /= count;
            }
        }
    }
    Ok(top)
}

/// Returns the number of taps of windows.
fn tap_count(windows: &[Window]) -> usize {
    windows.iter().fold(1, |count, window| count.saturating_mul(window.kernel))
}

/// Returns the elements under each tap of the windows, `[c * taps, positions]`.
fn unfold(windows: &[Window], bottom: &Mat, pad_value: f64) -> Result<Mat> {
    if bottom.ndim() != windows.len() + 1 || bottom.is_empty() {
        invalid!("a bottom of {:?} under windows of {} axes", bottom.shape(), windows.len());
    }
    let padded = pad(bottom, &paddings(windows, inner(bottom))?, pad_value)?;
    let counts = positions(windows, &padded)?;
    let (channels, columns) = (bottom.len_of(Axis(0)), counts.iter().product());
    let mut top = filled(&[&[channels, tap_count(windows)], counts.as_slice()].concat(), 0.0)?;
    for (mut top, tap) in top.axis_iter_mut(Axis(1)).zip(taps(windows)) {
        let mut elements = padded.view();
        narrow(&mut elements, windows, &tap, &counts);
        top.assign(&elements);
    }
    shaped(&[channels * tap_count(windows), columns], top.into_iter().collect())
}

/// Adds columns `[c * taps, positions]` at the positions of their windows in `[c, sizes...]`.
fn fold(windows: &[Window], bottom: &Mat, sizes: [usize; 2]) -> Result<Mat> {
    let pads = plain_paddings(windows)?;
    let &[rows, columns] = bottom.shape() else { invalid!("columns of {:?}", bottom.shape()) };
    let channels = rows / tap_count(windows);
    let padded = sizes
        .iter()
        .zip(&pads)
        .map(|(len, (before, after))| len.saturating_add(before.saturating_add(*after)));
    let whole: Vec<usize> = [channels].into_iter().chain(padded).collect();
    let mut top = filled(&whole, 0.0)?;
    let counts = positions(windows, &top)?;
    if channels * tap_count(windows) != rows || counts.iter().product::<usize>() != columns {
        invalid!("columns of {:?} for {counts:?} windows", bottom.shape());
    }
    let columns = bottom.to_shape([&[channels, tap_count(windows)], counts.as_slice()].concat())?;
    for (columns, tap) in columns.axis_iter(Axis(1)).zip(taps(windows)) {
        let mut elements = top.view_mut();
        narrow(&mut elements, windows, &tap, &counts);
        elements += &columns;
    }
    unpad(&top, &pads)
}
