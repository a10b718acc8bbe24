//! Activations of constants.

use std::f64::consts::{FRAC_1_SQRT_2, FRAC_2_SQRT_PI};

use super::Activation;
use crate::tensor::erf;

/// Evaluates an activation as the specification defines it.
pub(super) fn evaluate(activation: Activation, x: f64) -> f64 {
    match activation {
        Activation::Celu { alpha } => {
            let alpha = f64::from(alpha);
            x.max(0.0) + (alpha * libm::expm1(x / alpha)).min(0.0)
        }
        Activation::Elu { alpha } => {
            if x < 0.0 {
                f64::from(alpha) * libm::expm1(x)
            } else {
                x
            }
        }
        Activation::Gelu { tanh: false } => 0.5 * x * (1.0 + erf(x * FRAC_1_SQRT_2)),
        Activation::Gelu { tanh: true } => {
            let inner = FRAC_2_SQRT_PI * FRAC_1_SQRT_2 * (x + 0.044_715 * x * x * x);
            0.5 * x * (1.0 + libm::tanh(inner))
        }
        Activation::HardSigmoid { alpha, beta } => (f64::from(alpha) * x + f64::from(beta)).clamp(0.0, 1.0),
        Activation::HardSwish => x * (x / 6.0 + 0.5).clamp(0.0, 1.0),
        Activation::LeakyRelu { alpha } => {
            if x < 0.0 {
                f64::from(alpha) * x
            } else {
                x
            }
        }
        Activation::Mish => x * libm::tanh(softplus(x)),
        Activation::Selu { alpha, gamma } => {
            let scaled = if x < 0.0 { f64::from(alpha) * libm::expm1(x) } else { x };
            f64::from(gamma) * scaled
        }
        Activation::Shrink { bias, lambd } => {
            let (bias, lambd) = (f64::from(bias), f64::from(lambd));
            if x < -lambd {
                x + bias
            } else if x > lambd {
                x - bias
            } else {
                0.0
            }
        }
        Activation::Sigmoid => sigmoid(x),
        Activation::Softplus => softplus(x),
        Activation::Softsign => x / (1.0 + x.abs()),
        Activation::Swish { alpha } => x * sigmoid(f64::from(alpha) * x),
        Activation::Tanh => libm::tanh(x),
        Activation::ThresholdedRelu { alpha } => {
            if x > f64::from(alpha) {
                x
            } else {
                0.0
            }
        }
    }
}

fn sigmoid(x: f64) -> f64 {
    1.0 / (1.0 + libm::exp(-x))
}

fn softplus(x: f64) -> f64 {
    x.max(0.0) + libm::log1p(libm::exp(-x.abs()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn activations_match_the_specification() {
        for (activation, x, y) in [
            (Activation::Celu { alpha: 2.0 }, -1.0, -0.786_938_680_574_733_2),
            (Activation::Celu { alpha: 2.0 }, 1.0, 1.0),
            (Activation::Elu { alpha: 2.0 }, -1.0, -1.264_241_117_657_115_3),
            (Activation::Gelu { tanh: false }, 1.0, 0.841_344_746_068_542_9),
            (Activation::Gelu { tanh: true }, 1.0, 0.841_191_990_608_276_8),
            (Activation::HardSigmoid { alpha: 0.5, beta: 0.75 }, -1.0, 0.25),
            (Activation::HardSwish, -1.0, -1.0 / 3.0),
            (Activation::LeakyRelu { alpha: 0.5 }, -1.0, -0.5),
            (Activation::Mish, 1.0, 0.865_098_388_267_310_3),
            (Activation::Selu { alpha: 2.0, gamma: 3.0 }, -1.0, -3.792_723_352_971_346),
            (Activation::Selu { alpha: 2.0, gamma: 3.0 }, 1.0, 3.0),
            (Activation::Shrink { bias: 1.5, lambd: 1.5 }, -2.0, -0.5),
            (Activation::Shrink { bias: 1.5, lambd: 1.5 }, 1.5, 0.0),
            (Activation::Sigmoid, -1.0, 0.268_941_421_369_995_1),
            (Activation::Softplus, 1.0, 1.313_261_687_518_222_8),
            (Activation::Softplus, 1000.0, 1000.0),
            (Activation::Softsign, -1.0, -0.5),
            (Activation::Swish { alpha: 2.0 }, 1.0, 0.880_797_077_977_882_4),
            (Activation::Tanh, 1.0, 0.761_594_155_955_764_9),
            (Activation::ThresholdedRelu { alpha: 2.0 }, 2.0, 0.0),
            (Activation::ThresholdedRelu { alpha: 2.0 }, 2.2, 2.2),
        ] {
            let found = evaluate(activation, x);
            assert!((found - y).abs() < 1e-7, "{activation:?} of {x} is {found}, not {y}");
        }
    }
}
