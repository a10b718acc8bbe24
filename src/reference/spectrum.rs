//! Spectrogram and InverseSpectrogram.

use std::f64::consts::TAU;

use ndarray::{Array1, Array2, Axis, s};
use num_traits::AsPrimitive;

use super::Mat;
use super::array::{bottom, size};
use super::product::{in_order, product, two_axes};
use crate::error::{Error, Result, invalid, unsupported};
use crate::ncnn::Layer;
use crate::ncnn::layer::{InverseSpectrogram, Spectrogram};

/// The largest number of samples of a window, as the matrix of its transform is computed.
const MOST_SAMPLES: usize = 1 << 12;

/// The largest number of samples of a signal that is computed.
const MOST_SIGNAL: usize = 1 << 26;

/// Computes a transform.
pub(super) fn compute(layer: &Layer, bottoms: &[&Mat]) -> Result<Mat> {
    let top = match layer {
        Layer::Spectrogram(layer) => spectrogram(layer, bottom(bottoms, 0)?),
        Layer::InverseSpectrogram(layer) => inverse_spectrogram(layer, bottom(bottoms, 0)?),
        _ => unsupported!("{} has no reference", layer.type_name()),
    };
    top.map(in_order)
}

/// The windows of a transform.
struct Windows {
    /// The samples of a window.
    n_fft: usize,
    /// The distance of windows.
    hop: usize,
    /// The factors of the samples.
    factors: Array1<f64>,
    /// What the result is divided by.
    norm: f64,
}

impl Windows {
    /// Reads the params: a window shorter than the transform is in its middle.
    fn new(n_fft: i32, hoplen: i32, winlen: i32, window_type: i32, normalized: i32) -> Result<Windows> {
        let (n_fft, hop, window) = (size(n_fft)?, size(hoplen)?, size(winlen)?);
        if n_fft > MOST_SAMPLES {
            unsupported!("windows of {n_fft} samples");
        }
        if hop == 0 || n_fft == 0 || window > n_fft {
            invalid!("windows of {window} samples of {n_fft} at distances of {hop}");
        }
        let before = (n_fft - window) / 2;
        let length: f64 = window.as_();
        let mut factors = Array1::zeros(n_fft);
        for (index, factor) in factors.iter_mut().skip(before).take(window).enumerate() {
            let index: f64 = index.as_();
            let cosine = libm::cos(TAU * index / length);
            *factor = match window_type {
                0 => 1.0,
                1 => 0.5 - 0.5 * cosine,
                2 => 0.54 - 0.46 * cosine,
                other => invalid!("window_type {other}"),
            };
        }
        let norm = match normalized {
            0 => 1.0,
            1 => AsPrimitive::<f64>::as_(n_fft).sqrt(),
            2 => factors.dot(&factors).sqrt(),
            other => invalid!("normalized {other}"),
        };
        Ok(Windows { n_fft, hop, factors, norm })
    }

    /// Returns the samples before the middle of a window, by which `center` moves them.
    fn shift(&self, center: i32) -> Result<usize> {
        match center {
            0 => Ok(0),
            1 => Ok(self.n_fft / 2),
            other => invalid!("center {other}"),
        }
    }

    /// Returns the cosines and sines of the angles of samples and frequencies, `[n_fft, frequencies]`.
    fn roots(&self, frequencies: usize) -> [Array2<f64>; 2] {
        let n_fft: f64 = self.n_fft.as_();
        [libm::cos, libm::sin].map(|function| {
            Array2::from_shape_fn((self.n_fft, frequencies), |(sample, frequency)| {
                // Whole turns are exact.
                let part: f64 = (sample * frequency % self.n_fft).as_();
                function(TAU * part / n_fft)
            })
        })
    }
}

/// Transforms windows of a signal: `[frequencies, windows]`, with an axis of real and imaginary parts for
/// power 0.
fn spectrogram(layer: &Spectrogram, bottom: &Mat) -> Result<Mat> {
    let windows = Windows::new(layer.n_fft, layer.hoplen, layer.winlen, layer.window_type, layer.normalized)?;
    if bottom.ndim() != 1 {
        invalid!("a signal of {:?}", bottom.shape());
    }
    let border = windows.shift(layer.center)?;
    let signal = padded(&bottom.iter().copied().collect::<Vec<_>>(), border, layer.pad_type)?;
    if signal.len() < windows.n_fft {
        invalid!("{} samples for windows of {}", signal.len(), windows.n_fft);
    }
    let cut: Vec<f64> = signal
        .windows(windows.n_fft)
        .step_by(windows.hop)
        .flat_map(|window| window.iter().zip(&windows.factors).map(|(x, factor)| x * factor))
        .collect();
    let count = cut.len() / windows.n_fft;
    let cut = Array2::from_shape_vec((count, windows.n_fft), cut)?;
    let frequencies = if layer.onesided != 0 { windows.n_fft / 2 + 1 } else { windows.n_fft };
    let [cosines, sines] = windows.roots(frequencies);
    let real = product(cosines.t(), cut.t())? / windows.norm;
    let imaginary = product(sines.t(), cut.t())? / -windows.norm;
    Ok(match layer.power {
        0 => ndarray::stack(Axis(2), &[real.view(), imaginary.view()])?.into_dyn(),
        power @ (1 | 2) => {
            let square = &real * &real + &imaginary * &imaginary;
            if power == 1 { square.sqrt() } else { square }.into_dyn()
        }
        other => invalid!("power {other}"),
    })
}

/// Returns a signal with borders.
fn padded(signal: &[f64], border: usize, pad_type: i32) -> Result<Vec<f64>> {
    let (Some(first), Some(last)) = (signal.first(), signal.last()) else { invalid!("an empty signal") };
    if border == 0 {
        return Ok(signal.to_vec());
    }
    let (before, after) = match pad_type {
        0 => (vec![0.0; border], vec![0.0; border]),
        1 => (vec![*first; border], vec![*last; border]),
        // The samples next to the first and the last one, without these.
        2 => {
            let (Some(before), Some(after)) = (
                signal.get(1..=border),
                signal.len().checked_sub(border + 1).and_then(|start| signal.get(start..signal.len() - 1)),
            ) else {
                invalid!("a reflection of {border} samples of {}", signal.len())
            };
            (before.iter().rev().copied().collect(), after.iter().rev().copied().collect())
        }
        other => invalid!("pad_type {other}"),
    };
    Ok([&before, signal, &after].concat())
}

/// Transforms windows back, `[frequencies, windows, 2]`, and adds them at their positions. Each sample is
/// divided by the sum of the squares of its factors.
fn inverse_spectrogram(layer: &InverseSpectrogram, bottom: &Mat) -> Result<Mat> {
    let windows = Windows::new(layer.n_fft, layer.hoplen, layer.winlen, layer.window_type, layer.normalized)?;
    let n_fft = windows.n_fft;
    let [frequencies, count, 2] = *bottom.shape() else { invalid!("a spectrum of {:?}", bottom.shape()) };
    let is_half = frequencies == n_fft / 2 + 1;
    if !is_half && frequencies != n_fft || count == 0 {
        invalid!("{frequencies} frequencies of {n_fft} samples in {count} windows");
    }
    let part = |index| Ok::<_, Error>(two_axes(bottom.index_axis(Axis(2), index))?.to_owned());
    let (mut real, mut imaginary) = (part(0)?, part(1)?);
    if is_half {
        // Signals are real, so the other half is conjugate.
        let mirrored = 1..n_fft - n_fft / 2;
        let mirror = |half: &Array2<f64>| half.slice(s![mirrored.clone();-1, ..]).to_owned();
        real.append(Axis(0), mirror(&real).view())?;
        imaginary.append(Axis(0), (-mirror(&imaginary)).view())?;
    }
    let [cosines, sines] = windows.roots(n_fft);
    let sums = |a: &Array2<f64>, b: &Array2<f64>| {
        Ok::<_, Error>((product(a.t(), cosines.view())? + product(b.t(), sines.view())?) * windows.norm)
    };
    let of_real = || sums(&real, &-&imaginary);
    let of_imaginary = || sums(&imaginary, &real);
    let parts = match layer.returns {
        0 => vec![of_real()?, of_imaginary()?],
        1 => vec![of_real()?],
        2 => vec![of_imaginary()?],
        other => invalid!("returns {other}"),
    };
    let shift = windows.shift(layer.center)?;
    let samples = (count - 1).checked_mul(windows.hop).and_then(|start| start.checked_add(n_fft));
    let Some(samples) = samples.filter(|samples| (2 * shift + 1..=MOST_SIGNAL).contains(samples)) else {
        invalid!("{count} windows at distances of {}", windows.hop);
    };
    let mut squares = Array1::<f64>::zeros(samples);
    let mut top = Array2::<f64>::zeros((samples, parts.len()));
    for start in (0..count).map(|index| index * windows.hop) {
        let mut squares = squares.slice_mut(s![start..start + n_fft]);
        squares += &(&windows.factors * &windows.factors);
    }
    for (mut signal, part) in top.columns_mut().into_iter().zip(&parts) {
        for (index, window) in part.outer_iter().enumerate() {
            let start = index * windows.hop;
            let mut signal = signal.slice_mut(s![start..start + n_fft]);
            signal += &(&window * &windows.factors);
        }
    }
    let scale: f64 = n_fft.as_();
    for (mut row, square) in top.outer_iter_mut().zip(&squares) {
        row /= if *square == 0.0 { scale } else { scale * square };
    }
    let top = top.slice_move(s![shift..samples - shift, ..]).into_dyn();
    Ok(if parts.len() == 1 { top.remove_axis(Axis(1)) } else { top })
}
