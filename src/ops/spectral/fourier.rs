//! The weights of a Fourier transform as onnxruntime computes it.
//!
//! onnxruntime computes float32 transforms with roots of unity of float32, whose angles are rounded before.
//! What this adds to the exact transform follows from the roots, is linear in the signal, and decides the
//! branch of an angle whose imaginary part is zero in exact arithmetic. So the weights have the same roots;
//! products and sums are those of float64.
//!
//! Source: `onnxruntime/core/providers/cpu/signal/dft.cc`.

use std::f64::consts::PI;
use std::iter;

use num_complex::Complex64;
use num_traits::{AsPrimitive, One, Zero};

/// The type in which onnxruntime computes a transform: that of the signal.
#[derive(Clone, Copy)]
pub(super) enum Precision {
    Float32,
    Float64,
}

impl Precision {
    fn round(self, value: f64) -> f64 {
        match self {
            Precision::Float32 => {
                let value: f32 = value.as_();
                f64::from(value)
            }
            Precision::Float64 => value,
        }
    }

    /// Returns the rounded point of the unit circle at a rounded angle.
    fn unit(self, angle: f64) -> Complex64 {
        Complex64::new(self.round(libm::cos(angle)), self.round(libm::sin(angle)))
    }
}

/// A discrete Fourier transform of complex numbers.
pub(super) struct Fourier {
    /// The transform by halves, of this length or of the convolution.
    radix2: Radix2,
    /// The convolution that computes other lengths than powers of two.
    chirp: Option<Chirp>,
    scale: f64,
}

/// Bluestein's convolution: `n * k` is `(n² + k² - (k - n)²) / 2`.
struct Chirp {
    factors: Vec<Complex64>,
    /// The transform of the conjugate factors.
    spectrum: Vec<Complex64>,
}

impl Fourier {
    pub(super) fn new(length: usize, inverse: bool, precision: Precision) -> Fourier {
        let size: f64 = length.as_();
        let scale = if inverse { precision.round(1.0 / size) } else { 1.0 };
        if length.is_power_of_two() {
            return Fourier { radix2: Radix2::new(length, inverse, precision), chirp: None, scale };
        }
        let radix2 = Radix2::new((2 * length - 1).next_power_of_two(), false, precision);
        let direction = precision.round(if inverse { PI } else { -PI });
        let factors: Vec<Complex64> = (0..length)
            .map(|n| {
                let n: f64 = n.as_();
                let scaled = precision.round(precision.round(direction * n) * n);
                precision.unit(precision.round(scaled / size))
            })
            .collect();
        let gap = radix2.length() + 1 - 2 * length;
        let kernel: Vec<Complex64> = factors
            .iter()
            .copied()
            .chain(iter::repeat_n(Complex64::zero(), gap))
            .chain(factors.iter().skip(1).rev().copied())
            .map(|factor| factor.conj())
            .collect();
        let round = |x: Complex64| Complex64::new(precision.round(x.re), precision.round(x.im));
        let spectrum = radix2.transform(&kernel).into_iter().map(round).collect();
        Fourier { radix2, chirp: Some(Chirp { factors, spectrum }), scale }
    }

    /// Returns the spectrum of the signal whose element `n` is 1 and whose others are 0.
    pub(super) fn weights(&self, n: usize) -> Vec<Complex64> {
        let impulse = self.radix2.impulse(n);
        let Some(Chirp { factors, spectrum }) = &self.chirp else {
            return impulse.into_iter().map(|weight| weight * self.scale).collect();
        };
        let product: Vec<Complex64> = impulse.iter().zip(spectrum).map(|(x, y)| x * y).collect();
        let convolved = self.radix2.transform(&product);
        // The inverse of a transform is the transform in reverse order.
        let convolved = convolved.first().into_iter().chain(convolved.iter().skip(1).rev());
        let length: f64 = self.radix2.length().as_();
        let factor = factors.get(n).copied().unwrap_or_default() * self.scale / length;
        convolved.zip(factors).map(|(value, chirp)| value * chirp * factor).collect()
    }
}

/// A transform whose length is a power of two.
struct Radix2 {
    /// The roots of unity of 2, 4, 8 and more elements, each rounded.
    roots: Vec<Vec<Complex64>>,
}

impl Radix2 {
    fn new(length: usize, inverse: bool, precision: Precision) -> Radix2 {
        let size: f64 = length.as_();
        let turn = 2.0 * precision.round(if inverse { PI } else { -PI });
        let step = precision.round(turn / size);
        let roots: Vec<Complex64> = (0..length)
            .map(|k| {
                let k: f64 = k.as_();
                precision.unit(precision.round(k * step))
            })
            .collect();
        let stages = 1..=length.ilog2();
        Radix2 {
            roots: stages.map(|stage| roots.iter().step_by(length >> stage).copied().collect()).collect(),
        }
    }

    fn length(&self) -> usize {
        1 << self.roots.len()
    }

    /// Returns the transform of the signal whose element `n` is 1 and whose others are 0.
    fn impulse(&self, n: usize) -> Vec<Complex64> {
        let mut bit = self.length();
        self.roots.iter().fold(vec![Complex64::one()], |spectrum, roots| {
            bit /= 2;
            let halves = spectrum.iter().cycle().zip(roots);
            halves.map(|(&value, root)| if n & bit == 0 { value } else { value * root }).collect()
        })
    }

    fn transform(&self, signal: &[Complex64]) -> Vec<Complex64> {
        let bits = usize::BITS - self.length().ilog2();
        let reversed = (0..self.length()).map(|n| n.reverse_bits().checked_shr(bits).unwrap_or(0));
        let mut values: Vec<Complex64> =
            reversed.map(|n| signal.get(n).copied().unwrap_or_default()).collect();
        for roots in &self.roots {
            let half = roots.len() / 2;
            let (first, second) = roots.split_at(half);
            for block in values.chunks_exact_mut(roots.len()) {
                let (even, odd) = block.split_at_mut(half);
                for (((even, odd), first), second) in even.iter_mut().zip(odd).zip(first).zip(second) {
                    (*even, *odd) = (*even + first * *odd, *even + second * *odd);
                }
            }
        }
        values
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn weights_are_roots_of_unity() {
        for length in [1_usize, 2, 3, 8, 20, 31] {
            let size: f64 = length.as_();
            for (inverse, precision, bound) in [
                (false, Precision::Float64, 1e-13),
                (true, Precision::Float64, 1e-13),
                (false, Precision::Float32, 1e-4),
            ] {
                let transform = Fourier::new(length, inverse, precision);
                for n in 0..length {
                    for (k, weight) in transform.weights(n).into_iter().enumerate() {
                        let turn: f64 = (n * k % length).as_();
                        let angle = 2.0 * PI * turn / size;
                        let forward = Complex64::new(libm::cos(angle), -libm::sin(angle));
                        let exact = if inverse { forward.conj() / size } else { forward };
                        assert!((weight - exact).l1_norm() < bound, "{length} {inverse} {n} {k}: {weight}");
                    }
                }
            }
        }
    }

    /// The imaginary part of bin 0 is what onnxruntime's roots leave, and not zero.
    #[test]
    fn bin_of_the_mean_has_the_imaginary_part_of_rounded_roots() {
        let of_mean = |length: usize| -> f64 {
            let transform = Fourier::new(length, false, Precision::Float32);
            (0..length).filter_map(|n| transform.weights(n).first().map(|weight| weight.im)).sum()
        };
        let relative = of_mean(20) / 20.0;
        assert!((-4.4e-7..-4.0e-7).contains(&relative), "{relative}");
        assert_eq!(of_mean(16), 0.0);
    }
}
