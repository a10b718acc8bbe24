//! The elements of windows as values: for each position in a window, that element of all windows.

use super::super::window::Window;
use crate::ops::prelude::*;

/// The maximum number of elements of a window: each becomes several layers.
pub(in crate::ops) const MAX_TAPS: i64 = 64;

/// One spatial axis.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(in crate::ops) struct Axis {
    pub size: i64,
    pub kernel: i64,
    pub stride: i64,
    pub dilation: i64,
    /// The padding before the axis.
    pub begin: i64,
    /// The number of windows.
    pub count: i64,
}

impl Axis {
    /// Returns the number of elements from the start of the first window to the start of the last.
    fn starts(&self) -> i64 {
        (self.count - 1) * self.stride + 1
    }

    /// Returns the padding after the axis that windows cover.
    fn end(&self) -> i64 {
        (self.starts() + (self.kernel - 1) * self.dilation - self.size - self.begin).max(0)
    }

    /// Returns the number of elements of each window that are not padding, of windows without dilation.
    pub fn counts(&self) -> impl Iterator<Item = i64> {
        let Axis { size, kernel, stride, begin, count, .. } = *self;
        (0..count)
            .map(move |window| window * stride - begin)
            .map(move |first| (first + kernel).min(size) - first.max(0))
    }
}

/// Returns the spatial axes of known sizes; `counts` are the numbers of windows.
pub(in crate::ops) fn axes(window: &Window, sizes: &[i64], counts: &[i64]) -> Result<Vec<Axis>> {
    let axis = |(axis, (size, count)): (usize, (&i64, &i64))| {
        Ok(Axis {
            size: *size,
            kernel: *window.kernel.at(axis)?,
            stride: *window.strides.at(axis)?,
            dilation: *window.dilations.at(axis)?,
            begin: window.padding(axis, &Dim::Known(*size))?.0,
            count: *count,
        })
    };
    sizes.iter().zip(counts).enumerate().map(axis).collect()
}

/// Returns the elements of all windows, for each position in a window in order. The elements
/// of `data` follow two further axes, and `fill` is the padding.
pub(in crate::ops) fn taps<'x>(
    data: Expr<'x>,
    axes: &[Axis],
    fill: Expr<'x>,
) -> impl DoubleEndedIterator<Item = (Vec<i64>, Expr<'x>)> {
    let zeros = [0, 0];
    let before = zeros.into_iter().chain(axes.iter().map(|axis| axis.begin));
    let pads: Vec<i64> = before.chain(zeros).chain(axes.iter().map(Axis::end)).collect();
    let padded = data.builder.op("Pad", [data, data.builder.ints(&pads), fill], []);
    let along: Vec<i64> = (2_i64..).take(axes.len()).collect();
    let strides: Vec<i64> = axes.iter().map(|axis| axis.stride).collect();
    let elements = move |position: Vec<i64>| {
        let first: Vec<i64> = axes.iter().zip(&position).map(|(axis, n)| n * axis.dilation).collect();
        let end: Vec<i64> = axes.iter().zip(&first).map(|(axis, first)| first + axis.starts()).collect();
        let elements = padded.builder.op(
            "MaxPool",
            [padded.slices(&along, &first, &end)],
            [("kernel_shape", vec![1; axes.len()].into()), ("strides", strides.as_slice().into())],
        );
        (position, elements)
    };
    positions(axes).into_iter().map(elements)
}

/// Returns the coordinates of the positions in a window, in their order.
fn positions(axes: &[Axis]) -> Vec<Vec<i64>> {
    let mut positions = vec![Vec::new()];
    for axis in axes {
        let longer = |position: &Vec<i64>| {
            let position = position.clone();
            (0..axis.kernel).map(move |n| position.iter().copied().chain([n]).collect())
        };
        positions = positions.iter().flat_map(longer).collect();
    }
    positions
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn last_window_covers_end_padding() {
        let axis = Axis { size: 5, kernel: 3, stride: 2, dilation: 1, begin: 1, count: 3 };
        assert_eq!((axis.starts(), axis.end()), (5, 1));
        assert!(axis.counts().eq([2, 3, 2]));
    }

    #[test]
    fn positions_vary_fastest_along_the_last_axis() {
        let axis = Axis { size: 5, kernel: 2, stride: 1, dilation: 1, begin: 0, count: 4 };
        assert_eq!(positions(&[axis, axis]), [[0, 0], [0, 1], [1, 0], [1, 1]]);
    }
}
