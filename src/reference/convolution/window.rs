//! Windows that move over the inner axes of an array `[c, inner...]`.

use ndarray::{ArrayBase, Axis, Dimension, IxDyn, RawData, Slice, indices};
use num_traits::AsPrimitive;

use crate::error::{Result, invalid};
use crate::reference::Mat;
use crate::reference::array::size;

/// Codes of `pads` for as few elements as windows at each stride need, odd ones after or before the axis.
pub(in crate::reference) const SAME_UPPER: i32 = -233;
pub(in crate::reference) const SAME_LOWER: i32 = -234;

/// The largest number of elements of an array, and along an axis, against params that are out of proportion.
const LIMIT: usize = 1 << 28;
const AXIS_LIMIT: usize = 1 << 24;

/// A window along one axis.
#[derive(Clone, Copy)]
pub(in crate::reference) struct Window {
    pub kernel: usize,
    pub dilation: usize,
    pub stride: usize,
    /// The padding before and after the axis, or one of the codes twice.
    pub pads: (i32, i32),
}

impl Window {
    /// Creates a window of a kernel, dilation and stride.
    pub(in crate::reference) fn new(
        [kernel, dilation, stride]: [i32; 3],
        pads: (i32, i32),
    ) -> Result<Window> {
        if kernel < 1 || dilation < 1 || stride < 1 {
            invalid!("a kernel of {kernel}, dilation {dilation}, stride {stride}");
        }
        Ok(Window { kernel: size(kernel)?, dilation: size(dilation)?, stride: size(stride)?, pads })
    }

    /// Returns the number of elements from the first tap to the last one.
    pub(in crate::reference) fn extent(&self) -> usize {
        self.dilation.saturating_mul(self.kernel.saturating_sub(1)).saturating_add(1)
    }

    /// Returns the number of positions over a padded axis.
    pub(in crate::reference) fn positions(&self, padded: usize) -> Result<usize> {
        match padded.checked_sub(self.extent()) {
            Some(room) => Ok(room / self.stride + 1),
            None => invalid!("a window of {} elements over {padded}", self.extent()),
        }
    }
}

/// Returns the padding before and after each axis.
pub(in crate::reference) fn paddings(windows: &[Window], sizes: &[usize]) -> Result<Vec<(usize, usize)>> {
    let all = |code: i32| windows.iter().all(|window| window.pads == (code, code));
    let upper = all(SAME_UPPER);
    if !upper && !all(SAME_LOWER) {
        return plain_paddings(windows);
    }
    let padding = |(window, len): (&Window, &usize)| {
        let last = len.saturating_sub(1) / window.stride * window.stride;
        let total = last.saturating_add(window.extent()).saturating_sub(*len);
        let (less, more) = (total / 2, total - total / 2);
        if upper { (less, more) } else { (more, less) }
    };
    Ok(windows.iter().zip(sizes).map(padding).collect())
}

/// Returns the padding before and after each axis, without codes.
pub(in crate::reference) fn plain_paddings(windows: &[Window]) -> Result<Vec<(usize, usize)>> {
    windows.iter().map(|window| Ok((size(window.pads.0)?, size(window.pads.1)?))).collect()
}

/// Returns the number of positions along each axis of an array `[c, inner...]`.
pub(in crate::reference) fn positions(windows: &[Window], array: &Mat) -> Result<Vec<usize>> {
    windows.iter().zip(inner(array)).map(|(window, len)| window.positions(*len)).collect()
}

/// Returns the sizes of an array without the outermost one.
pub(in crate::reference) fn inner(array: &Mat) -> &[usize] {
    array.shape().get(1..).unwrap_or_default()
}

/// Returns the number of elements along an axis that is computed.
pub(in crate::reference) fn axis_len(len: usize) -> Result<usize> {
    if len > AXIS_LIMIT {
        invalid!("an axis of {len} elements");
    }
    Ok(len)
}

/// Returns an array of one value.
pub(in crate::reference) fn filled(sizes: &[usize], value: f64) -> Result<Mat> {
    // An axis without elements does not make others of any size valid.
    match sizes.iter().try_fold(1_usize, |count, size| count.checked_mul((*size).max(1))) {
        Some(count) if count <= LIMIT => Ok(Mat::from_elem(IxDyn(sizes), value)),
        _ => invalid!("an array of {sizes:?}"),
    }
}

/// Returns an array `[c, inner...]` with padded inner axes.
pub(in crate::reference) fn pad(array: &Mat, pads: &[(usize, usize)], value: f64) -> Result<Mat> {
    let mut sizes = array.shape().to_vec();
    for (size, (before, after)) in sizes.iter_mut().skip(1).zip(pads) {
        *size = size.saturating_add(*before).saturating_add(*after);
    }
    let mut padded = filled(&sizes, value)?;
    let mut inside = padded.view_mut();
    for (axis, ((before, _), len)) in pads.iter().zip(inner(array)).enumerate() {
        inside.slice_axis_inplace(Axis(axis + 1), Slice::from(*before..before + len));
    }
    inside.assign(array);
    Ok(padded)
}

/// Returns an array `[c, inner...]` without the paddings of its inner axes.
pub(in crate::reference) fn unpad(array: &Mat, pads: &[(usize, usize)]) -> Result<Mat> {
    let mut inside = array.view();
    for (axis, ((before, after), len)) in pads.iter().zip(inner(array)).enumerate() {
        match len.checked_sub(*after) {
            Some(end) if *before < end => {
                inside.slice_axis_inplace(Axis(axis + 1), Slice::from(*before..end));
            }
            _ => invalid!("paddings of {before} and {after} in {len} elements"),
        }
    }
    Ok(inside.to_owned())
}

/// Narrows an array `[c, inner...]` to the elements under one tap of the windows at each position.
pub(in crate::reference) fn narrow<S: RawData>(
    array: &mut ArrayBase<S, IxDyn>,
    windows: &[Window],
    tap: &IxDyn,
    positions: &[usize],
) {
    for (axis, ((window, offset), count)) in windows.iter().zip(tap.slice()).zip(positions).enumerate() {
        let start = offset * window.dilation;
        let elements = Slice::from(start..start + count.saturating_sub(1) * window.stride + 1);
        array.slice_axis_inplace(Axis(axis + 1), elements.step_by(window.stride.as_()));
    }
}

/// Returns each tap of the windows as its indices, in the order of the weights.
pub(in crate::reference) fn taps(windows: &[Window]) -> impl Iterator<Item = IxDyn> {
    let kernels: Vec<usize> = windows.iter().map(|window| window.kernel).collect();
    indices(IxDyn(&kernels)).into_iter()
}
