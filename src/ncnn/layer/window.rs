//! Layers that move a window over the inner axes.

use super::shape::{Size, Sizes, Tops, one};
use crate::error::{At, Result, unsupported};

/// A window along one axis.
#[derive(Clone, Copy)]
pub(crate) struct Window {
    pub kernel: i32,
    pub dilation: i32,
    pub stride: i32,
    pub pads: (i32, i32),
}

/// Automatic paddings.
const SAME_UPPER: i32 = -233;
const SAME_LOWER: i32 = -234;

/// The output size of an axis that adaptive pooling leaves unchanged.
const UNCHANGED: i32 = -233;

/// Returns whether the runtime may compute a convolution by the transforms of Winograd.
pub(crate) fn is_transformed(windows: &[Window]) -> bool {
    windows.len() == 2
        && windows.iter().all(|window| (window.kernel, window.dilation, window.stride) == (3, 1, 1))
}

impl Window {
    /// Returns the window of a layer without dilation.
    pub fn undilated(kernel: i32, stride: i32, pads: (i32, i32)) -> Window {
        Window { kernel, dilation: 1, stride, pads }
    }

    /// Returns the size of the dilated kernel.
    fn extent(&self) -> Result<i64> {
        if self.kernel < 1 || self.dilation < 1 || self.stride < 1 {
            unsupported!("a kernel of {}, dilation {}, stride {}", self.kernel, self.dilation, self.stride);
        }
        Ok(i64::from(self.dilation) * (i64::from(self.kernel) - 1) + 1)
    }

    /// Returns the number of windows over a padded axis.
    fn steps(&self, padded: Size) -> Result<Size> {
        let extent = self.extent()?;
        let room = padded - extent;
        if room < 0 {
            unsupported!("a window of {extent} over {padded:?}");
        }
        Ok(room / self.stride + 1)
    }

    fn padding(&self) -> i64 {
        i64::from(self.pads.0.max(0)) + i64::from(self.pads.1.max(0))
    }
}

/// Returns the outermost size, and the inner sizes, one for each of `count` windows.
fn split_inner(bottoms: &[Sizes], count: usize) -> Result<(Size, &[Size])> {
    match bottoms.at(0)?.as_slice() {
        [outermost, inner @ ..] if inner.len() == count => Ok((*outermost, inner)),
        bottom => unsupported!("a bottom of {bottom:?} under {count} axes of a window"),
    }
}

/// Returns the top of a convolution, which has no separate paddings.
pub(super) fn convolve(bottoms: &[Sizes], num_output: i32, windows: &[Window], _: &[i32]) -> Result<Tops> {
    let (_, inner) = split_inner(bottoms, windows.len())?;
    let same = |rule: i32| windows.iter().all(|window| window.pads == (rule, rule));
    let same = same(SAME_UPPER) || same(SAME_LOWER);
    let mut sizes = vec![Size::from(num_output)];
    for (size, window) in inner.iter().zip(windows) {
        sizes.push(if same {
            window.extent()?;
            (*size - 1) / window.stride + 1
        } else {
            window.steps(*size + window.padding())?
        });
    }
    one(sizes)
}

/// Returns the top of a transposed convolution.
pub(super) fn transpose(
    bottoms: &[Sizes],
    num_output: i32,
    windows: &[Window],
    output_pads: &[i32],
) -> Result<Tops> {
    let (_, inner) = split_inner(bottoms, windows.len())?;
    let mut sizes = vec![Size::from(num_output)];
    for ((size, window), output_pad) in inner.iter().zip(windows).zip(output_pads) {
        let whole = (*size - 1) * window.stride + window.extent()? + *output_pad;
        sizes.push(whole - window.padding());
    }
    one(sizes)
}

/// Returns the top of a pooling; `out` are the output sizes of an adaptive one.
pub(super) fn pool(
    bottoms: &[Sizes],
    windows: &[Window],
    out: &[i32],
    global: i32,
    adaptive: i32,
    pad_mode: i32,
) -> Result<Tops> {
    let (outermost, inner) = split_inner(bottoms, windows.len())?;
    let mut sizes = vec![outermost];
    if global != 0 {
        return one(sizes);
    }
    for ((size, window), out) in inner.iter().zip(windows).zip(out) {
        let (stride, padded) = (window.stride, *size + window.padding());
        sizes.push(match pad_mode {
            // Pooling and Pooling3D leave an axis unchanged for -233.
            _ if adaptive != 0 && *out == UNCHANGED && windows.len() > 1 => *size,
            _ if adaptive != 0 => Size::from(*out),
            // The end is padded until the last window fits.
            0 => {
                window.steps(padded)?;
                window.steps(padded + stride - 1)?
            }
            1 => window.steps(padded)?,
            2 | 3 => (*size - 1) / stride.max(1) + 1,
            other => unsupported!("pad_mode {other}"),
        });
    }
    one(sizes)
}
