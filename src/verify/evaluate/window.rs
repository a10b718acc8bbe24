//! Operators that slide windows over the spatial axes, from the elements of each window.

use ndarray::{Array2, ArrayD, ArrayView2, Axis, IxDyn};
use num_traits::AsPrimitive;

use super::super::compare::index_of;
use super::{of_type, rows, shaped, typed};
use crate::error::{At, Error, Result, unsupported};
use crate::op::Call;
use crate::tensor::{Array, DType};

/// The most elements of all windows together.
const LISTED: usize = 1 << 24;

/// The windows along one axis.
struct Span {
    kernel: usize,
    stride: usize,
    dilation: usize,
    /// The elements of the padding before and after the axis.
    pads: [usize; 2],
    size: usize,
    /// The number of windows.
    count: usize,
}

impl Span {
    /// The elements from the first to the last of a window.
    fn extent(&self) -> usize {
        (self.kernel - 1) * self.dilation + 1
    }

    /// Pads an axis such that there is a window for each stride.
    fn pad_same(&mut self, is_upper: bool) {
        self.count = self.size.div_ceil(self.stride);
        let covered = (self.count.max(1) - 1) * self.stride + self.extent();
        self.pad(covered.saturating_sub(self.size), is_upper);
    }

    fn pad(&mut self, total: usize, is_upper: bool) {
        let before = if is_upper { total / 2 } else { total - total / 2 };
        self.pads = [before, total - before];
    }

    fn count_windows(&mut self, is_ceil: bool) {
        let [before, after] = self.pads;
        let Some(free) = (self.size + before + after).checked_sub(self.extent()) else { return };
        self.count = if is_ceil { free.div_ceil(self.stride) } else { free / self.stride } + 1;
        // A window in the padding after the axis is none.
        if is_ceil && (self.count - 1) * self.stride >= self.size + before {
            self.count -= 1;
        }
    }

    /// Returns the index of an element of a window; `None` in the padding.
    fn index(&self, window: usize, tap: usize) -> Option<usize> {
        let [before, _] = self.pads;
        (window * self.stride + tap * self.dilation).checked_sub(before).filter(|index| *index < self.size)
    }

    /// Returns the coordinate of an element of a window, which is negative before the axis.
    fn coordinate(&self, window: usize, tap: usize) -> f64 {
        let [before, _] = self.pads;
        AsPrimitive::<f64>::as_(window * self.stride + tap * self.dilation) - AsPrimitive::<f64>::as_(before)
    }

    /// Returns the number of elements of a window in the axis and its padding.
    fn counted(&self, window: usize) -> usize {
        let end = self.pads.iter().sum::<usize>() + self.size;
        (0..self.kernel).filter(|tap| window * self.stride + tap * self.dilation < end).count()
    }
}

/// The windows over all spatial axes.
pub(super) struct Windows(Vec<Span>);

impl Windows {
    /// Reads the attributes of windows over axes of these sizes.
    pub fn read(call: &Call, sizes: &[usize], kernel: &[usize]) -> Result<Windows> {
        let list = |name: &str, length: usize, default: usize| -> Result<Vec<usize>> {
            call.optional_ints(name)?.map_or_else(|| Ok(vec![default; length]), |list| sizes_of(&list))
        };
        let rank = sizes.len();
        let (strides, dilations) = (list("strides", rank, 1)?, list("dilations", rank, 1)?);
        let pads = list("pads", 2 * rank, 0)?;
        let mode = call.string_or("auto_pad", "NOTSET")?;
        let is_ceil = call.flag_or_false("ceil_mode")?;
        let mut spans = Vec::new();
        for (axis, size) in sizes.iter().enumerate() {
            let kernel = *kernel.at(axis)?;
            let (stride, dilation) = (*strides.at(axis)?, *dilations.at(axis)?);
            if kernel == 0 || stride == 0 {
                unsupported!("windows without elements");
            }
            let pads = match mode {
                "VALID" => [0, 0],
                _ => [*pads.at(axis)?, *pads.at(axis + rank)?],
            };
            let mut span = Span { kernel, stride, dilation, pads, size: *size, count: 0 };
            match mode {
                "SAME_UPPER" | "SAME_LOWER" => span.pad_same(mode == "SAME_UPPER"),
                _ => span.count_windows(is_ceil),
            }
            spans.push(span);
        }
        Windows(spans).limited()
    }

    /// Returns the windows, whose elements are listed.
    fn limited(self) -> Result<Windows> {
        let sizes = self.0.iter().flat_map(|span| [span.count, span.kernel]);
        if sizes.fold(1, usize::saturating_mul) > LISTED {
            unsupported!("windows of more than {LISTED} elements");
        }
        Ok(self)
    }

    /// Returns the windows of a pool over a shape.
    fn of_pool(call: &Call, shape: &[usize]) -> Result<Windows> {
        let Some(kernel) = call.optional_ints("kernel_shape")? else {
            return Windows::read(call, spatial(shape), spatial(shape));
        };
        Windows::read(call, spatial(shape), &sizes_of(&kernel)?)
    }

    /// Returns for each window the offsets of its elements in the axes; `None` in the padding.
    fn offsets(&self) -> Vec<Vec<Option<usize>>> {
        self.0.iter().fold(vec![vec![Some(0)]], |outer, span| {
            let inner = |window: &[Option<usize>], at: usize| {
                let offset =
                    |outer: Option<usize>, tap: usize| Some(outer? * span.size + span.index(at, tap)?);
                window.iter().flat_map(|outer| (0..span.kernel).map(|tap| offset(*outer, tap))).collect()
            };
            outer.iter().flat_map(|window| (0..span.count).map(|at| inner(window, at))).collect()
        })
    }

    /// Returns for each of so many windows over two axes the coordinates of its elements.
    pub fn starts(&self, counts: [usize; 2]) -> Result<Vec<Vec<[f64; 2]>>> {
        let (rows, columns) = (self.0.at(0)?, self.0.at(1)?);
        let [height, width] = counts;
        let windows = (0..height).flat_map(|row| (0..width).map(move |column| (row, column)));
        let taps = |(row, column): (usize, usize)| {
            let taps = (0..rows.kernel).flat_map(|y| (0..columns.kernel).map(move |x| (y, x)));
            taps.map(|(y, x)| [rows.coordinate(row, y), columns.coordinate(column, x)]).collect()
        };
        Ok(windows.map(taps).collect())
    }

    /// Returns for each window how many of its elements are in the axes and their padding.
    fn counted(&self) -> Vec<usize> {
        self.0.iter().fold(vec![1], |outer, span| {
            outer.iter().flat_map(|all| (0..span.count).map(move |at| all * span.counted(at))).collect()
        })
    }

    /// Returns batch and channels with the numbers of windows.
    fn shape(&self, outer: [usize; 2]) -> Vec<usize> {
        outer.into_iter().chain(self.0.iter().map(|span| span.count)).collect()
    }
}

fn spatial(shape: &[usize]) -> &[usize] {
    shape.get(2..).unwrap_or_default()
}

/// Returns batch and channels.
fn outer(shape: &[usize]) -> Result<[usize; 2]> {
    Ok([*shape.at(0)?, *shape.at(1)?])
}

fn sizes_of(list: &[i64]) -> Result<Vec<usize>> {
    list.iter().map(|size| Ok(usize::try_from(*size)?)).collect()
}

/// The elements of a window in their order, with their indices; elements of the padding are left out.
type Elements<'e> = &'e mut dyn Iterator<Item = (usize, f64)>;

/// Computes an element of each window; the function has the number of its elements with padding, and the
/// elements.
fn pooled<T>(call: &Call, mut compute: impl FnMut(usize, Elements) -> T) -> Result<(Vec<usize>, Vec<T>)> {
    let x = call.array(0)?.to_f64()?;
    let outer = outer(x.shape())?;
    let windows = Windows::of_pool(call, x.shape())?;
    let (offsets, counted, shape) = (windows.offsets(), windows.counted(), windows.shape(outer));
    let mut list = Vec::new();
    for plane in rows(x, outer.iter().product())?.rows() {
        for (window, counted) in offsets.iter().zip(&counted) {
            let mut elements =
                window.iter().flatten().filter_map(|offset| Some((*offset, *plane.get(*offset)?)));
            list.push(compute(*counted, &mut elements));
        }
    }
    Ok((shape, list))
}

/// The largest element of each window, and its index in the whole input.
pub(super) fn max_pool(call: &Call) -> Result<Vec<Array>> {
    let largest = |_, elements: Elements| {
        let greater = |a: (usize, f64), b: (usize, f64)| if b.1 > a.1 { b } else { a };
        elements.reduce(greater).unwrap_or((0, f64::NEG_INFINITY))
    };
    let (shape, list) = pooled(call, largest)?;
    let (offsets, values): (Vec<usize>, Vec<f64>) = list.into_iter().unzip();
    let sizes = call.array(0)?.shape().to_vec();
    let is_by_column = call.flag_or_false("storage_order")?;
    let plane: usize = spatial(&sizes).iter().product();
    let by_column = |offset: usize| {
        let index = index_of(offset, spatial(&sizes));
        index.iter().zip(spatial(&sizes)).rev().fold(0, |all, (at, size)| all * size + at)
    };
    let windows = shape.iter().skip(2).product::<usize>();
    let index = |(at, offset): (usize, usize)| {
        let first = at.checked_div(windows).unwrap_or_default() * plane;
        AsPrimitive::<i64>::as_(first + if is_by_column { by_column(offset) } else { offset })
    };
    let indices: Vec<i64> = offsets.into_iter().enumerate().map(index).collect();
    let indices =
        ArrayD::from_shape_vec(IxDyn(&shape), indices).map_err(|_| Error::internal("no indices"))?;
    Ok(vec![typed(call, shaped(shape, values)?)?, Array::i64(indices)])
}

pub(super) fn average_pool(call: &Call) -> Result<Vec<Array>> {
    let includes_pads = call.flag_or_false("count_include_pad")?;
    let average = |counted: usize, elements: Elements| {
        let (count, sum) = elements.fold((0, 0.0), |(count, sum), (_, x)| (count + 1, sum + x));
        let count = if includes_pads { counted } else { count };
        sum / AsPrimitive::<f64>::as_(count)
    };
    let (shape, list) = pooled(call, average)?;
    Ok(vec![typed(call, shaped(shape, list)?)?])
}

pub(super) fn lp_pool(call: &Call) -> Result<Vec<Array>> {
    let p: f64 = call.int_or("p", 2)?.as_();
    let norm =
        |_, elements: Elements| libm::pow(elements.map(|(_, x)| libm::pow(x.abs(), p)).sum::<f64>(), 1.0 / p);
    let (shape, list) = pooled(call, norm)?;
    Ok(vec![typed(call, shaped(shape, list)?)?])
}

/// Returns a column for each window: its elements in each channel.
fn columns(
    channels: ArrayView2<f64>,
    offsets: &[Vec<Option<usize>>],
    taps: usize,
    fill: f64,
) -> Result<Array2<f64>> {
    let mut list = Vec::new();
    for channel in channels.rows() {
        for tap in 0..taps {
            let offset = |window: &Vec<Option<usize>>| window.get(tap).copied().flatten();
            let element =
                |window| offset(window).and_then(|offset| channel.get(offset)).copied().unwrap_or(fill);
            list.extend(offsets.iter().map(element));
        }
    }
    let shape = (channels.nrows() * taps, offsets.len());
    Array2::from_shape_vec(shape, list).map_err(|_| Error::internal("no columns"))
}

/// Adds columns to the offsets of their windows: the reverse of [`columns`].
fn scattered(columns: ArrayView2<f64>, offsets: &[Vec<Option<usize>>], size: usize) -> Array2<f64> {
    let taps = offsets.first().map_or(1, Vec::len).max(1);
    let mut planes = Array2::zeros((columns.nrows() / taps, size));
    for (mut plane, part) in planes.rows_mut().into_iter().zip(columns.axis_chunks_iter(Axis(0), taps)) {
        for (window, column) in offsets.iter().zip(part.columns()) {
            for (offset, x) in window.iter().zip(column) {
                if let Some(sum) = offset.and_then(|offset| plane.get_mut(offset)) {
                    *sum += x;
                }
            }
        }
    }
    planes
}

/// Convolves `x` by weights `[outputs, channels of a group, kernel]`, with `fill` in the padding.
pub(super) fn convolved(call: &Call, x: ArrayD<f64>, w: ArrayD<f64>, fill: f64) -> Result<ArrayD<f64>> {
    let [batch, _] = outer(x.shape())?;
    let (outputs, groups) = (*w.shape().at(0)?, usize::try_from(call.int_or("group", 1)?)?.max(1));
    let windows = Windows::read(call, spatial(x.shape()), spatial(w.shape()))?;
    let (offsets, shape) = (windows.offsets(), windows.shape([batch, outputs]));
    let group = *w.shape().at(1)?;
    let (channels, w) = (rows(x, batch * groups * group)?, rows(w, outputs)?);
    let mut list = Vec::new();
    for (index, channels) in channels.axis_chunks_iter(Axis(0), group.max(1)).enumerate() {
        let columns = columns(channels, &offsets, w.ncols() / group.max(1), fill)?;
        let of_group = outputs / groups;
        let kernels = w.slice(ndarray::s![index % groups * of_group..(index % groups + 1) * of_group, ..]);
        list.extend(kernels.dot(&columns));
    }
    shaped(shape, list)
}

/// Adds input `index`, if it is there, to the channels.
pub(super) fn biased(call: &Call, index: usize, mut x: ArrayD<f64>) -> Result<ArrayD<f64>> {
    if call.has_input(index) {
        let bias = call.array(index)?.to_f64()?;
        for (mut channel, bias) in x.axis_iter_mut(Axis(1)).zip(&bias) {
            channel += *bias;
        }
    }
    Ok(x)
}

pub(super) fn conv(call: &Call) -> Result<Vec<Array>> {
    let y = convolved(call, call.array(0)?.to_f64()?, call.array(1)?.to_f64()?, 0.0)?;
    Ok(vec![typed(call, biased(call, 2, y)?)?])
}

/// The convolution of integers without their zero points; the padding is the zero point.
pub(super) fn conv_integer(call: &Call) -> Result<Vec<Array>> {
    let (x, mut w) = (call.array(0)?.to_f64()?, call.array(1)?.to_f64()?);
    let zero = if call.has_input(2) { call.array(2)?.to_f64()?.sum() } else { 0.0 };
    if call.has_input(3) {
        let zeros = call.array(3)?.to_f64()?;
        for (mut weights, zero) in w.outer_iter_mut().zip(zeros.iter().cycle()) {
            weights -= *zero;
        }
    }
    let y = convolved(call, x - zero, w, 0.0)?;
    Ok(vec![of_type(DType::I32, y)])
}

pub(super) fn conv_transpose(call: &Call) -> Result<Vec<Array>> {
    let (x, w) = (call.array(0)?.to_f64()?, call.array(1)?.to_f64()?);
    let [batch, channels] = outer(x.shape())?;
    let groups = usize::try_from(call.int_or("group", 1)?)?.max(1);
    let (counts, kernel) = (spatial(x.shape()).to_vec(), spatial(w.shape()).to_vec());
    let rank = counts.len();
    let (extra, sizes) = (call.optional_ints("output_padding")?, call.optional_ints("output_shape")?);
    let mode = call.string_or("auto_pad", "NOTSET")?;
    // The windows slide over the output.
    let Windows(mut spans) = Windows::read(call, &vec![0; rank], &kernel)?;
    for (axis, span) in spans.iter_mut().enumerate() {
        let extra = extra.as_ref().and_then(|extra| extra.get(axis)).copied().unwrap_or(0);
        span.count = *counts.at(axis)?;
        let covered = (span.count.max(1) - 1) * span.stride + span.extent() + usize::try_from(extra)?;
        let size = match sizes.as_ref().and_then(|sizes| sizes.get(sizes.len() - rank + axis)) {
            Some(size) => Some(usize::try_from(*size)?),
            None => mode.starts_with("SAME").then(|| span.count * span.stride),
        };
        span.size = match size {
            Some(size) => {
                span.pad(covered.saturating_sub(size), mode == "SAME_UPPER");
                size
            }
            None => covered.saturating_sub(span.pads.iter().sum()),
        };
    }
    let windows = Windows(spans).limited()?;
    let offsets = windows.offsets();
    let size = windows.0.iter().map(|span| span.size).product();
    let of_group = *w.shape().at(1)?;
    let shape: Vec<usize> =
        [batch, of_group * groups].into_iter().chain(windows.0.iter().map(|span| span.size)).collect();
    let (x, w) = (rows(x, batch * channels)?, rows(w, channels)?);
    let group = channels.checked_div(groups).unwrap_or_default().max(1);
    let mut list = Vec::new();
    for (index, channels) in x.axis_chunks_iter(Axis(0), group).enumerate() {
        let first = index % groups * group;
        let kernels = w.slice(ndarray::s![first..first + group, ..]);
        list.extend(scattered(kernels.t().dot(&channels).view(), &offsets, size));
    }
    Ok(vec![typed(call, biased(call, 2, shaped(shape, list)?)?)?])
}

/// The sums of the blocks that overlap in an image.
pub(super) fn columns_to_image(call: &Call) -> Result<Vec<Array>> {
    let list = |index: usize| sizes_of(&call.array(index)?.int_list()?);
    let (sizes, block) = (list(1)?, list(2)?);
    let x = call.array(0)?.to_f64()?;
    let [batch, columns_of_all] = outer(x.shape())?;
    let windows = Windows::read(call, &sizes, &block)?;
    let size = sizes.iter().product();
    let channels = columns_of_all.checked_div(block.iter().product()).unwrap_or_default();
    let x = rows(x, batch * columns_of_all)?;
    let planes = scattered(x.view(), &windows.offsets(), size);
    let shape = [batch, channels].into_iter().chain(sizes).collect();
    Ok(vec![typed(call, shaped(shape, planes.into_iter().collect())?)?])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_windows_have_columns_of_all_taps() {
        let channels = Array2::zeros((2, 5));
        assert_eq!(columns(channels.view(), &[], 8, 0.0).unwrap().dim(), (16, 0));
        let one = [vec![Some(1), None]];
        assert_eq!(
            columns(channels.view(), &one, 2, 7.0).unwrap(),
            ndarray::arr2(&[[0.0], [7.0], [0.0], [7.0]])
        );
    }
}
