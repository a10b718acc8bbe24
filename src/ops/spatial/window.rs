//! Windows that slide over the spatial axes: what convolutions and poolings share.

use crate::error::{At, Error, Result, invalid, unsupported};
use crate::op::Attributes;
use crate::tensor::{Array, DType, Dim, Tensor};

/// Where the padding comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Pads {
    /// As many elements before and behind each spatial axis.
    Explicit(Vec<(i64, i64)>),
    /// As many as make the size of the result that of the input divided by the stride, rounded up.
    Same {
        /// Whether an odd one goes behind.
        upper: bool,
    },
}

/// A window: its size and steps along each spatial axis.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Window {
    /// Elements that are read.
    pub kernel: Vec<i64>,
    /// From one window to the next.
    pub strides: Vec<i64>,
    /// From one element of a window to the next.
    pub dilations: Vec<i64>,
    /// The padding.
    pub pads: Pads,
    /// Whether a window that reaches over the end is counted.
    pub ceil: bool,
}

/// The window along one axis, all of it known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct WindowAxis {
    /// Elements that are read.
    pub kernel: i32,
    /// From one window to the next.
    pub stride: i32,
    /// From one element of a window to the next.
    pub dilation: i32,
    /// Padding before.
    pub begin: i32,
    /// Padding behind.
    pub end: i32,
}

impl WindowAxis {
    /// A window that covers one element after the other.
    pub const ONE: WindowAxis = WindowAxis { kernel: 1, stride: 1, dilation: 1, begin: 0, end: 0 };
}

/// Reads strides, dilations, padding and `ceil_mode` of a node whose window has the size `kernel`.
pub(crate) fn read_window(attributes: &Attributes, kernel: Vec<i64>) -> Result<Window> {
    let rank = kernel.len();
    if rank == 0 {
        invalid!("a window needs a spatial axis");
    }
    let strides = attributes.ints("strides")?.unwrap_or_else(|| vec![1; rank]);
    let dilations = attributes.ints("dilations")?.unwrap_or_else(|| vec![1; rank]);
    for (name, list) in [("kernel_shape", &kernel), ("strides", &strides), ("dilations", &dilations)] {
        if list.len() != rank {
            invalid!("{name} has {} numbers for {rank} spatial axes", list.len());
        }
        if list.iter().any(|n| *n < 1) {
            invalid!("{name} is {list:?}");
        }
        // The runtime counts in 32 bits; the bound also keeps the arithmetic here from overflowing.
        if list.iter().any(|n| i32::try_from(*n).is_err()) {
            return Err(Error::limit(format!("{name} is {list:?}")));
        }
    }
    let explicit = attributes.ints("pads")?;
    let pads = match attributes.string_or("auto_pad", "NOTSET")? {
        "NOTSET" | "" => Pads::Explicit(explicit_pads(explicit.as_deref(), rank)?),
        "VALID" => Pads::Explicit(vec![(0, 0); rank]),
        "SAME_UPPER" => Pads::Same { upper: true },
        "SAME_LOWER" => Pads::Same { upper: false },
        other => invalid!("auto_pad is {other}"),
    };
    let ceil = attributes.flag("ceil_mode", false)?;
    Ok(Window { kernel, strides, dilations, pads, ceil })
}

fn explicit_pads(pads: Option<&[i64]>, rank: usize) -> Result<Vec<(i64, i64)>> {
    let Some(pads) = pads else { return Ok(vec![(0, 0); rank]) };
    if pads.len() != 2 * rank {
        invalid!("pads has {} numbers for {rank} spatial axes", pads.len());
    }
    if pads.iter().any(|n| *n < 0) {
        unsupported!("pads that cut: {pads:?}");
    }
    if pads.iter().any(|n| i32::try_from(*n).is_err()) {
        return Err(Error::limit(format!("pads is {pads:?}")));
    }
    let (begin, end) = pads.split_at(rank);
    Ok(begin.iter().copied().zip(end.iter().copied()).collect())
}

/// The number of elements of a window of these sizes.
pub(in crate::ops) fn area(kernel: &[i64]) -> Result<i64> {
    let area = kernel.iter().try_fold(1_i64, |area, n| area.checked_mul(*n));
    area.ok_or_else(|| Error::limit("a window is too large"))
}

impl Window {
    /// The number of spatial axes.
    pub fn rank(&self) -> usize {
        self.kernel.len()
    }

    /// From the first to the last element of a window along an axis, both counted.
    pub fn extent(&self, axis: usize) -> Result<i64> {
        let reach = (self.kernel.at(axis)? - 1).checked_mul(*self.dilations.at(axis)?);
        reach.and_then(|reach| reach.checked_add(1)).ok_or_else(|| Error::limit("a window is too large"))
    }

    /// The number of elements that a window reads.
    pub fn area(&self) -> Result<i64> {
        area(&self.kernel)
    }

    /// The number of windows along an axis of this size.
    pub fn output_size(&self, axis: usize, input: &Dim) -> Result<Dim> {
        let stride = *self.strides.at(axis)?;
        let Pads::Explicit(pads) = &self.pads else {
            return input.ceil_div(&Dim::Known(stride));
        };
        let (begin, end) = *pads.at(axis)?;
        let extent = self.extent(axis)?;
        let free = input.add(&Dim::Known(begin))?.add(&Dim::Known(end))?.sub(&Dim::Known(extent))?;
        let needed = if self.ceil { 1 - stride } else { 0 };
        if free.known().is_some_and(|free| free < needed) {
            invalid!("a window of {extent} over an axis of {input} with padding {begin} and {end}");
        }
        if !self.ceil {
            return free.floor_div(&Dim::Known(stride))?.add(&Dim::Known(1));
        }
        let count = free.ceil_div(&Dim::Known(stride))?.add(&Dim::Known(1))?;
        // A last window that would begin in the padding behind the axis is not counted; none can where the padding and a stride
        // do not reach beyond a window.
        match (count.known(), input.known()) {
            (Some(count), Some(input))
                if (count - 1).saturating_mul(stride) >= input.saturating_add(begin) =>
            {
                Ok(Dim::Known(count - 1))
            }
            (None, _) if end + stride > extent => {
                unsupported!(
                    "ceil_mode over a size that is not fixed, where the last window may lie in the padding"
                )
            }
            _ => Ok(count),
        }
    }

    /// The sizes of the result's spatial axes.
    pub fn output_sizes(&self, inputs: &[Dim]) -> Result<Vec<Dim>> {
        if inputs.len() != self.rank() {
            invalid!("a window of {} spatial axes over {}", self.rank(), inputs.len());
        }
        inputs.iter().enumerate().map(|(axis, input)| self.output_size(axis, input)).collect()
    }

    /// Padding before and behind an axis of this size.
    pub fn padding(&self, axis: usize, input: &Dim) -> Result<(i64, i64)> {
        let upper = match &self.pads {
            Pads::Explicit(pads) => return Ok(*pads.at(axis)?),
            Pads::Same { upper } => *upper,
        };
        let (stride, extent) = (*self.strides.at(axis)?, self.extent(axis)?);
        // With a stride of 1 the padding does not depend on the size; windows of one element need none.
        let total = match input.known() {
            _ if stride == 1 || extent == 1 => extent - 1,
            Some(input) => overhang(input, extent, stride),
            None => {
                return Err(Error::unsupported("auto_pad with a stride over a size that is not fixed")
                    .help("give sizes with --input-shape"));
            }
        };
        let (less, more) = (total.max(0) / 2, (total.max(0) + 1) / 2);
        Ok(if upper { (less, more) } else { (more, less) })
    }

    /// The same windows without automatic padding, where that is at most one element behind each axis: the last window then merely
    /// reaches over the end.
    pub fn in_ceil_mode(&self) -> Option<Window> {
        let upper = self.pads == Pads::Same { upper: true };
        let halves = upper && [&self.kernel, &self.strides].into_iter().flatten().all(|n| *n == 2);
        let bare = halves && self.dilations.iter().all(|n| *n == 1);
        bare.then(|| Window { pads: Pads::Explicit(vec![(0, 0); self.rank()]), ceil: true, ..self.clone() })
    }

    /// Whether automatic padding leaves out elements at the ends: strides are larger than the window.
    pub fn leaves_out(&self, axis: usize, input: &Dim) -> Result<bool> {
        let (stride, extent) = (*self.strides.at(axis)?, self.extent(axis)?);
        let known = input.known().is_some_and(|input| overhang(input, extent, stride) < 0);
        Ok(matches!(self.pads, Pads::Same { .. }) && known)
    }

    /// The window along each axis with the number `mode` for automatic padding, where every window covers a stride:
    /// then no padding is negative, whatever the sizes are.
    pub fn covering_spans(&self, mode: i32) -> Result<Option<Vec<WindowAxis>>> {
        let mut spans = Vec::with_capacity(self.rank());
        for axis in 0..self.rank() {
            if self.extent(axis)? < *self.strides.at(axis)? {
                return Ok(None);
            }
            spans.push(WindowAxis {
                kernel: i32::try_from(*self.kernel.at(axis)?)?,
                stride: i32::try_from(*self.strides.at(axis)?)?,
                dilation: i32::try_from(*self.dilations.at(axis)?)?,
                begin: mode,
                end: mode,
            });
        }
        Ok(Some(spans))
    }

    /// The window along each axis, with the padding that the sizes ask for.
    pub fn spans(&self, inputs: &[Dim]) -> Result<Vec<WindowAxis>> {
        let mut spans = Vec::with_capacity(self.rank());
        for (axis, input) in inputs.iter().enumerate() {
            let (begin, end) = self.padding(axis, input)?;
            spans.push(WindowAxis {
                kernel: i32::try_from(*self.kernel.at(axis)?)?,
                stride: i32::try_from(*self.strides.at(axis)?)?,
                dilation: i32::try_from(*self.dilations.at(axis)?)?,
                begin: i32::try_from(begin)?,
                end: i32::try_from(end)?,
            });
        }
        Ok(spans)
    }
}

/// Kernels of zeros and a one, a group of them for each of `channels`: a convolution lays the elements of each window in channels of
/// their own, its transpose brings them back to their places.
pub(crate) fn unit_kernels(channels: i64, kernel: &[i64]) -> Result<Tensor> {
    let mut sizes = Vec::with_capacity(kernel.len());
    for size in kernel {
        sizes.push(usize::try_from(*size)?);
    }
    let side = sizes.iter().fold(1_usize, |area, n| area.saturating_mul(*n));
    let rows = usize::try_from(channels)?.saturating_mul(side);
    let shape: Vec<usize> = [rows, 1].into_iter().chain(sizes).collect();
    let kernels = shape.clone();
    Tensor::deferred(DType::F32, shape, Vec::new(), move |_| {
        let unit = |(row, column): (usize, usize)| if row % side == column { 1.0 } else { 0.0 };
        Array::f32(ndarray::Array2::from_shape_fn((rows, side), unit).into_dyn()).reshape(&kernels)
    })
}

/// What the last window, which begins at a multiple of the stride, reaches beyond the end.
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
    fn sizes_are_those_of_the_specification() {
        for (window, input, output) in [
            (window(3, 2, 1, explicit(0, 0), false), 32, 15),
            (window(3, 2, 1, explicit(0, 0), true), 4, 2),
            (window(1, 2, 1, explicit(0, 0), true), 2, 1),
            // The last window would begin in the padding behind.
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
    fn automatic_padding_is_that_of_the_specification() {
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
