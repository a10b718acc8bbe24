//! Sliding windows over the spatial axes, shared by convolutions and poolings.

use crate::ops::prelude::*;

/// The largest size, stride or padding of a window: ncnn's params are 32-bit integers, and so are sums of
/// three of these.
const MOST: i64 = 1 << 29;

/// The padding of a window.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Pads {
    /// The number of elements before and after each spatial axis.
    Explicit(Vec<(i64, i64)>),
    /// The padding for which the output size is the input size divided by the stride, rounded up.
    Same {
        /// Whether an odd element is added after the axis, not before it.
        upper: bool,
    },
}

/// A window, with one entry for each spatial axis.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Window {
    /// The number of elements.
    pub kernel: Vec<i64>,
    /// The distance between windows.
    pub strides: Vec<i64>,
    /// The distance between elements of a window.
    pub dilations: Vec<i64>,
    /// The padding.
    pub pads: Pads,
    /// Whether a window that extends beyond the end is counted (`ceil_mode`).
    pub ceil: bool,
}

/// The window along one axis, in the integers of ncnn's params.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct WindowAxis {
    /// The number of elements.
    pub kernel: i32,
    /// The distance between windows.
    pub stride: i32,
    /// The distance between elements of a window.
    pub dilation: i32,
    /// The padding before the axis.
    pub begin: i32,
    /// The padding after the axis.
    pub end: i32,
}

impl WindowAxis {
    /// Windows of one element with stride 1.
    pub const ONE: WindowAxis = WindowAxis { kernel: 1, stride: 1, dilation: 1, begin: 0, end: 0 };
}

/// Reads strides, dilations, padding and `ceil_mode` of a node with a window of size `kernel`.
pub(crate) fn read_window(call: &Call, kernel: Vec<i64>) -> Result<Window> {
    let rank = kernel.len();
    if rank == 0 {
        invalid!("the window has no spatial axis");
    }
    let strides = call.optional_ints("strides")?.unwrap_or_else(|| vec![1; rank]);
    let dilations = call.optional_ints("dilations")?.unwrap_or_else(|| vec![1; rank]);
    for (name, list) in [("kernel_shape", &kernel), ("strides", &strides), ("dilations", &dilations)] {
        if list.len() != rank {
            invalid!("{name} has {} elements for {rank} spatial axes", list.len());
        }
        if list.iter().any(|n| *n < 1) {
            invalid!("{name} {list:?} is not positive");
        }
        if list.iter().any(|n| *n > MOST) {
            return Err(Error::limit(format!("{name} {list:?} is above {MOST}")));
        }
    }
    let explicit = call.optional_ints("pads")?;
    let pads = match call.string_or("auto_pad", "NOTSET")? {
        "NOTSET" | "" => Pads::Explicit(explicit_pads(explicit.as_deref(), rank)?),
        "VALID" => Pads::Explicit(vec![(0, 0); rank]),
        "SAME_UPPER" => Pads::Same { upper: true },
        "SAME_LOWER" => Pads::Same { upper: false },
        other => invalid!("unknown auto_pad \"{other}\""),
    };
    let ceil = call.flag_or_false("ceil_mode")?;
    Ok(Window { kernel, strides, dilations, pads, ceil })
}

fn explicit_pads(pads: Option<&[i64]>, rank: usize) -> Result<Vec<(i64, i64)>> {
    let Some(pads) = pads else { return Ok(vec![(0, 0); rank]) };
    if pads.len() != 2 * rank {
        invalid!("pads has {} elements for {rank} spatial axes", pads.len());
    }
    if pads.iter().any(|n| *n < 0) {
        unsupported!("negative pads {pads:?}");
    }
    if pads.iter().any(|n| *n > MOST) {
        return Err(Error::limit(format!("pads {pads:?} are above {MOST}")));
    }
    let (begin, end) = pads.split_at(rank);
    Ok(begin.iter().copied().zip(end.iter().copied()).collect())
}

/// Returns the number of elements of a window of size `kernel`.
pub(in crate::ops) fn area(kernel: &[i64]) -> Result<i64> {
    let area = kernel.iter().try_fold(1_i64, |area, n| area.checked_mul(*n));
    area.ok_or_else(|| Error::limit("the window is too large"))
}

impl Window {
    /// Returns the number of spatial axes.
    pub fn rank(&self) -> usize {
        self.kernel.len()
    }

    /// Returns the size of the dilated window along an axis.
    pub fn extent(&self, axis: usize) -> Result<i64> {
        let reach = (self.kernel.at(axis)? - 1).checked_mul(*self.dilations.at(axis)?);
        reach.and_then(|reach| reach.checked_add(1)).ok_or_else(|| Error::limit("the window is too large"))
    }

    /// Returns the number of elements of a window.
    pub fn area(&self) -> Result<i64> {
        area(&self.kernel)
    }

    /// Returns the number of windows along an axis of size `input`.
    pub fn output_size(&self, axis: usize, input: &Dim) -> Result<Dim> {
        let stride = *self.strides.at(axis)?;
        let Pads::Explicit(pads) = &self.pads else {
            return Ok(input.ceil_div(stride));
        };
        let (begin, end) = *pads.at(axis)?;
        let extent = self.extent(axis)?;
        let free = input + begin + end - extent;
        let needed = if self.ceil { 1 - stride } else { 0 };
        if free.known().is_some_and(|free| free < needed) {
            invalid!(
                "a window of size {extent} does not fit into an axis of size {input} with padding {begin} \
                    and {end}"
            );
        }
        if !self.ceil {
            return Ok(free.floor_div(stride) + 1);
        }
        let count = free.ceil_div(stride) + 1;
        // A last window that would begin in the padding after the axis is not counted. If end padding and
        // stride together do not exceed the window, no window begins there.
        if count.known().is_none() && end + stride <= extent {
            return Ok(count);
        }
        Ok(count.minimum((input + begin).ceil_div(stride)))
    }

    /// Returns whether the last window over an axis of free size may begin in the padding after it, in
    /// `ceil_mode`.
    pub fn drops_windows(&self, inputs: &[Dim]) -> Result<bool> {
        for (axis, input) in inputs.iter().enumerate() {
            let (_, end) = self.padding(axis, input)?;
            if input.known().is_none() && end + *self.strides.at(axis)? > self.extent(axis)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Returns the sizes of the spatial axes of the output.
    pub fn output_sizes(&self, inputs: &[Dim]) -> Result<Vec<Dim>> {
        if inputs.len() != self.rank() {
            invalid!("the window has {} spatial axes, the input has {}", self.rank(), inputs.len());
        }
        inputs.iter().enumerate().map(|(axis, input)| self.output_size(axis, input)).collect()
    }

    /// Returns the padding before and after an axis of size `input`.
    pub fn padding(&self, axis: usize, input: &Dim) -> Result<(i64, i64)> {
        let upper = match &self.pads {
            Pads::Explicit(pads) => return Ok(*pads.at(axis)?),
            Pads::Same { upper } => *upper,
        };
        let (stride, extent) = (*self.strides.at(axis)?, self.extent(axis)?);
        // With stride 1 the padding does not depend on the size; windows of one element need no padding.
        let total = match input.known() {
            _ if stride == 1 || extent == 1 => extent - 1,
            Some(input) => overhang(input, extent, stride),
            None => {
                return Err(Error::unsupported("auto_pad with a stride over a size known only at run time"));
            }
        };
        let (less, more) = (total.max(0) / 2, (total.max(0) + 1) / 2);
        Ok(if upper { (less, more) } else { (more, less) })
    }

    /// Returns the same windows in `ceil_mode` without padding, if automatic padding is at most one element
    /// after each axis: the last window then extends beyond the end instead.
    pub fn in_ceil_mode(&self) -> Option<Window> {
        let upper = self.pads == Pads::Same { upper: true };
        let halves = upper && [&self.kernel, &self.strides].into_iter().flatten().all(|n| *n == 2);
        let bare = halves && self.dilations.iter().all(|n| *n == 1);
        bare.then(|| Window { pads: Pads::Explicit(vec![(0, 0); self.rank()]), ceil: true, ..self.clone() })
    }

    /// Returns whether windows with automatic padding skip elements at the ends.
    pub fn skips_ends(&self, axis: usize, input: &Dim) -> Result<bool> {
        let (stride, extent) = (*self.strides.at(axis)?, self.extent(axis)?);
        let known = input.known().is_some_and(|input| overhang(input, extent, stride) < 0);
        Ok(matches!(self.pads, Pads::Same { .. }) && known)
    }

    /// Returns whether automatic padding as ncnn computes it may be negative, over axes of sizes `inputs`.
    pub fn may_pad_negatively(&self, inputs: &[Dim]) -> Result<bool> {
        for (axis, input) in inputs.iter().enumerate() {
            let (stride, extent) = (*self.strides.at(axis)?, self.extent(axis)?);
            let is_covered = input.known().is_some_and(|input| overhang(input, extent, stride) >= 0);
            if extent < stride && !is_covered {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Returns the window along each axis with `mode`, ncnn's code of an automatic padding, as its padding;
    /// `None` if the computed padding may be negative.
    pub fn covering_spans(&self, inputs: &[Dim], mode: i32) -> Result<Option<Vec<WindowAxis>>> {
        if self.may_pad_negatively(inputs)? {
            return Ok(None);
        }
        let mut spans = Vec::with_capacity(self.rank());
        for axis in 0..self.rank() {
            spans.push(self.span(axis, mode.into(), mode.into())?);
        }
        Ok(Some(spans))
    }

    /// Returns the window along each axis, with its padding for axes of sizes `inputs`.
    pub fn spans(&self, inputs: &[Dim]) -> Result<Vec<WindowAxis>> {
        let span = |(axis, input)| {
            let (begin, end) = self.padding(axis, input)?;
            self.span(axis, begin, end)
        };
        inputs.iter().enumerate().map(span).collect()
    }

    /// Returns the window along an axis with this padding.
    pub fn span(&self, axis: usize, begin: i64, end: i64) -> Result<WindowAxis> {
        Ok(WindowAxis {
            kernel: i32::try_from(*self.kernel.at(axis)?)?,
            stride: i32::try_from(*self.strides.at(axis)?)?,
            dilation: i32::try_from(*self.dilations.at(axis)?)?,
            begin: i32::try_from(begin)?,
            end: i32::try_from(end)?,
        })
    }
}

/// Returns one-hot kernels, one for each window element in each of `channels` groups. Their convolution
/// unfolds windows into channels (im2col), their transposed convolution folds them back (col2im).
pub(crate) fn unit_kernels(channels: i64, kernel: &[i64]) -> Result<Tensor> {
    let area = area(kernel)?;
    one_hot(&[&[channels.saturating_mul(area), 1], kernel].concat(), area)
}

/// Returns weights of shape `shape` whose row `i` selects element `i % period`.
pub(super) fn one_hot(shape: &[i64], period: i64) -> Result<Tensor> {
    let shape = shape.iter().map(|size| Ok(usize::try_from(*size)?)).collect::<Result<Vec<_>>>()?;
    let period = usize::try_from(period)?;
    Tensor::deferred(DType::F32, shape.clone(), Vec::new(), move |_| {
        let rows = shape.first().copied().unwrap_or(0);
        let weights = ndarray::Array2::from_shape_fn((rows, period), |(row, column)| {
            if row % period == column { 1.0_f32 } else { 0.0 }
        });
        Array::f32(weights.into_dyn()).reshape(&shape)
    })
}

/// Returns by how many elements the last window extends beyond the end, negative if it ends before.
fn overhang(input: i64, extent: i64, stride: i64) -> i64 {
    extent - 1 - input.saturating_sub(1).rem_euclid(stride)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn window(kernel: i64, stride: i64, dilation: i64, pads: Pads, ceil: bool) -> Window {
        Window { kernel: vec![kernel], strides: vec![stride], dilations: vec![dilation], pads, ceil }
    }

    fn explicit(begin: i64, end: i64) -> Pads {
        Pads::Explicit(vec![(begin, end)])
    }

    #[test]
    fn output_sizes_match_the_specification() {
        for (window, input, output) in [
            (window(3, 2, 1, explicit(0, 0), false), 32, 15),
            (window(3, 2, 1, explicit(0, 0), true), 4, 2),
            (window(1, 2, 1, explicit(0, 0), true), 2, 1),
            // The last window would begin in the end padding.
            (window(2, 2, 1, explicit(0, 1), true), 2, 1),
            (window(3, 3, 1, explicit(1, 1), true), 4, 2),
            (window(3, 1, 2, explicit(2, 2), false), 7, 7),
            (window(5, 3, 1, Pads::Same { upper: true }, false), 7, 3),
        ] {
            assert_eq!(window.output_size(0, &Dim::Known(input)).unwrap(), Dim::Known(output), "{window:?}");
        }
        let half = window(3, 2, 1, explicit(1, 1), false).output_size(0, &Dim::symbol("H")).unwrap();
        assert_eq!(half.to_string(), "floor_div(H+1, 2)");
    }

    #[test]
    fn automatic_padding_matches_the_specification() {
        for (kernel, stride, input, upper, pads) in [
            (3, 1, 5, true, (1, 1)),
            (4, 1, 5, true, (1, 2)),
            (4, 1, 5, false, (2, 1)),
            (3, 2, 6, true, (0, 1)),
        ] {
            let window = window(kernel, stride, 1, Pads::Same { upper }, false);
            assert_eq!(window.padding(0, &Dim::Known(input)).unwrap(), pads, "{window:?}");
        }
        let single = window(1, 2, 1, Pads::Same { upper: true }, false);
        assert_eq!(single.padding(0, &Dim::symbol("H")).unwrap(), (0, 0));
        let narrow = window(1, 3, 1, Pads::Same { upper: true }, false);
        assert_eq!(narrow.padding(0, &Dim::Known(7)).unwrap(), (0, 0));
    }
}
