//! The comparison of a blob with the value that it is to have.

use ndarray::{ArrayD, Axis};
use num_traits::AsPrimitive;

use crate::reference::Mat;

/// The tolerance of each element, as far as it does not depend on the element.
#[derive(Clone, Copy, Debug)]
pub(super) struct Tolerance {
    /// Relative to the largest finite magnitude of the value.
    pub relative: f64,
    /// Further, whatever the magnitude is.
    pub absolute: f64,
    /// Whether the elements are integers, which are equal or not.
    pub whole: bool,
}

/// Integers up to this number are exact in float32.
const EXACT: f64 = 16_777_216.0;

/// The fewest elements of a slice whose largest magnitude says how large its elements are.
const FEW: usize = 4;

/// Returns the largest error relative to the largest magnitude, and the first element above its tolerance.
///
/// With `noise`, further tolerances of each element, elements are relative to the largest magnitude in each
/// slice along an axis: a channel of small elements is compared as one of large elements is. Without it they
/// are relative to the largest magnitude of the value.
pub(super) fn compare(
    got: &Mat,
    expected: &ArrayD<f64>,
    tolerance: Tolerance,
    noise: Option<&ArrayD<f64>>,
) -> (f64, Option<String>) {
    let largest = magnitude(expected);
    let mut bounds = ArrayD::from_elem(expected.raw_dim(), largest);
    if noise.is_some() && !tolerance.whole {
        narrow(&mut bounds, expected);
    }
    let relative = if tolerance.whole { f64::from(f32::EPSILON) } else { tolerance.relative };
    // A small element may be the difference of large ones.
    let last_place = largest * f64::from(f32::EPSILON);
    let least =
        if tolerance.whole { 0.0 } else { tolerance.relative * 1e-6 + tolerance.absolute + last_place };
    bounds.mapv_inplace(|bound| relative * bound + least);
    if let Some(noise) = noise {
        bounds += noise;
    }
    let (mut most, mut first) = (0.0_f64, None);
    for (((index, got), expected), bound) in got.indexed_iter().zip(expected).zip(&bounds) {
        let rounded: f32 = (*got).as_();
        // The model has no number there, or one that the runtime does not hold: such elements are stated.
        let is_open = !expected.is_finite() || (tolerance.whole && expected.abs() > EXACT);
        let is_same = got == expected || is_open || f64::from(rounded) == *expected;
        let error = if is_same { 0.0 } else { (got - expected).abs() };
        if error.is_nan() || error > *bound {
            let index = ndarray::Dimension::as_array_view(&index).to_vec();
            first.get_or_insert_with(|| format!("element {index:?} is {got:e} in place of {expected:e}"));
        }
        most = most.max(if error.is_finite() { error / (largest + 1e-6) } else { f64::INFINITY });
    }
    (most, first)
}

/// Returns the largest finite magnitude.
fn magnitude<'a>(elements: impl IntoIterator<Item = &'a f64>) -> f64 {
    let finite = elements.into_iter().filter(|x| x.is_finite());
    finite.fold(0.0, |most, x| most.max(x.abs()))
}

/// Lowers each magnitude to the least of those of the slices in which it lies.
fn narrow(magnitudes: &mut ArrayD<f64>, elements: &ArrayD<f64>) {
    for axis in (0..elements.ndim()).map(Axis) {
        if elements.len() < FEW * elements.len_of(axis) {
            continue;
        }
        for (mut slice, elements) in magnitudes.axis_iter_mut(axis).zip(elements.axis_iter(axis)) {
            let most = magnitude(&elements);
            slice.mapv_inplace(|magnitude| magnitude.min(most));
        }
    }
}
