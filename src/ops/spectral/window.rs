//! Window functions and mel weights.

use std::f64::consts::PI;

use ndarray::{Array1, Array2};
use num_traits::AsPrimitive;

use crate::ops::prelude::*;

/// The maximum number of elements of such a constant: two sizes in the model must not give terabytes.
const MAX_ELEMENTS: i64 = 1 << 22;

/// The factors of cos(0), cos(2 pi n / N) and cos(4 pi n / N).
type Factors = [f64; 3];

pub(super) const BLACKMAN: Factors = [0.42, -0.5, 0.08];
pub(super) const HAMMING: Factors = [25.0 / 46.0, -21.0 / 46.0, 0.0];
pub(super) const HANN: Factors = [0.5, -0.5, 0.0];

pub(super) fn infer_window(call: &Call, [constant, first, second]: Factors) -> Result<Vec<Fact>> {
    let dtype = call.element_type("output_datatype")?;
    let periodic = call.flag("periodic")?;
    let size = match (call.array(0), call.declared_instead_of(0)) {
        (Ok(size), _) => size.scalar_i64()?,
        // The declared length is the size.
        (Err(_), Some([Dim::Known(size)])) => *size,
        (Err(error), _) => return Err(error),
    };
    if !(0..=MAX_ELEMENTS).contains(&size) {
        return Err(Error::limit(format!("a window of {size}")));
    }
    let period: f64 = if periodic { size } else { size - 1 }.as_();
    if size > 0 && period == 0.0 {
        unsupported!("a symmetric window of one element, for which the specification divides by zero");
    }
    let window: Array1<f64> = (0..size)
        .map(|n| {
            let n: f64 = n.as_();
            let angle = 2.0 * PI * n / period;
            constant + first * libm::cos(angle) + second * libm::cos(2.0 * angle)
        })
        .collect();
    let window = Array::new(DType::F64, Elements::F64(window.into_dyn())).cast(dtype)?;
    Ok(vec![Fact::constant(Tensor::from_array(&window)?)])
}

/// Returns the bins of the transform at which the triangles of the mel bands begin, peak and end.
fn mel_edges(bands: i64, dft_length: i64, sample_rate: f64, lower: f64, upper: f64) -> Vec<i64> {
    let to_mel = |hertz: f64| 2595.0 * libm::log10(1.0 + hertz / 700.0);
    let points: f64 = (bands + 2).as_();
    let length: f64 = dft_length.as_();
    let step = (to_mel(upper) - to_mel(lower)) / points;
    (0..bands + 2)
        .map(|i| {
            let i: f64 = i.as_();
            let hertz = 700.0 * (libm::pow(10.0, (i * step + to_mel(lower)) / 2595.0) - 1.0);
            ((length + 1.0) * hertz / sample_rate).floor().as_()
        })
        .collect()
}

pub(super) fn infer_mel_weight(call: &Call) -> Result<Vec<Fact>> {
    let dtype = call.element_type("output_datatype")?;
    let int = |index: usize| call.array(index)?.scalar_i64();
    let float = |index: usize| -> Result<f64> { Ok(f64::from(call.array(index)?.scalar_f32()?)) };
    let bands = match (int(0), call.declared_instead_of(0)) {
        (Ok(bands), _) => bands,
        (Err(_), Some([_, Dim::Known(bands)])) => *bands,
        (Err(error), _) => return Err(error),
    };
    let (dft_length, sample_rate) = (int(1)?, int(2)?);
    if bands < 0 || dft_length < 0 || sample_rate <= 0 {
        invalid!("{bands} bands of a transform of {dft_length} at {sample_rate} Hz");
    }
    let bins = dft_length / 2 + 1;
    if bands.saturating_mul(bins) > MAX_ELEMENTS {
        return Err(Error::limit(format!("{bands} bands of {bins} bins")));
    }
    let edges = mel_edges(bands, dft_length, sample_rate.as_(), float(3)?, float(4)?);
    if edges.iter().any(|edge| !(0..bins).contains(edge)) {
        unsupported!("the bands extend beyond the {bins} bins of the transform");
    }
    let weight = |(bin, band): (usize, usize)| -> f64 {
        let bin: i64 = bin.as_();
        let [low, centre, high] = [0, 1, 2].map(|i| edges.get(band + i).copied().unwrap_or(0));
        let ratio = |part: i64, whole: i64| -> f64 {
            let (part, whole): (f64, f64) = (part.as_(), whole.as_());
            part / whole
        };
        // At a bin with two slopes, the falling one comes later in the loops of the specification.
        if (centre..high).contains(&bin) {
            ratio(high - bin, high - centre)
        } else if low == centre && bin == centre {
            1.0
        } else if low < centre && (low..=centre).contains(&bin) {
            ratio(bin - low, centre - low)
        } else {
            0.0
        }
    };
    let weights = Array2::from_shape_fn((usize::try_from(bins)?, usize::try_from(bands)?), weight);
    let weights = Array::new(DType::F64, Elements::F64(weights.into_dyn())).cast(dtype)?;
    Ok(vec![Fact::constant(Tensor::from_array(&weights)?)])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn edges_of_mel_bands_are_bins() {
        assert_eq!(mel_edges(8, 16, 8192.0, 0.0, 4096.0), [0, 0, 0, 1, 1, 2, 3, 4, 5, 6]);
    }
}
