//! The comparison of a blob with the value that it is to have.

use ndarray::ArrayD;
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
pub(super) const EXACT: f64 = 16_777_216.0;

/// Returns the largest error relative to the largest magnitude, and the first element above its tolerance.
/// `noise` are further tolerances of each element.
pub(super) fn compare(
    got: &Mat,
    expected: &ArrayD<f64>,
    tolerance: Tolerance,
    noise: Option<&ArrayD<f64>>,
) -> (f64, Option<String>) {
    let finite = expected.iter().filter(|x| x.is_finite());
    let largest = finite.fold(0.0_f64, |most, x| most.max(x.abs()));
    let bound = if tolerance.whole {
        largest * f64::from(f32::EPSILON)
    } else {
        tolerance.relative * (largest + 1e-6) + tolerance.absolute
    };
    let noise = noise.into_iter().flat_map(|noise| noise.iter().copied()).chain(std::iter::repeat(0.0));
    let (mut most, mut first) = (0.0_f64, None);
    let got_shape = got.shape();
    for (offset, ((got, expected), noise)) in got.iter().zip(expected).zip(noise).enumerate() {
        let rounded: f32 = (*got).as_();
        // The model has no number there, or one that the runtime does not hold: such elements are stated.
        let is_open = !expected.is_finite() || (tolerance.whole && expected.abs() > EXACT);
        let is_same = got == expected || is_open || f64::from(rounded) == *expected;
        let error = if is_same { 0.0 } else { (got - expected).abs() };
        if error.is_nan() || error > bound + noise {
            first.get_or_insert_with(|| {
                let index = index_of(offset, got_shape);
                format!("element {index:?} is {got:e} instead of {expected:e}")
            });
        }
        most = most.max(if error.is_finite() { error / (largest + 1e-6) } else { f64::INFINITY });
    }
    (most, first)
}

/// Returns the index of an element by its offset in row-major order.
pub(super) fn index_of(offset: usize, shape: &[usize]) -> Vec<usize> {
    let mut left = offset;
    let mut index: Vec<usize> = shape
        .iter()
        .rev()
        .map(|size| {
            let at = left.checked_rem(*size).unwrap_or_default();
            left = left.checked_div(*size).unwrap_or_default();
            at
        })
        .collect();
    index.reverse();
    index
}
