//! Activation functions.

use super::shape::{Sizes, Tops, axis_of, one};
use super::weight::outermost;
use super::{exactly, exceeds_half, layer, weight_len};
use crate::error::{At, Result, unsupported};

layer! {
    /// `|x|`.
    0 AbsVal(exactly(1), exactly(1)) [Gpu Function] {}

    /// `log(1 + exp(x))`.
    4 BNLL(exactly(1), exactly(1)) [Function] {}

    /// `max(x, 0) + min(alpha * (exp(x / alpha) - 1), 0)`.
    102 CELU(exactly(1), exactly(1)) [Gpu Function] {
        params {
            0 alpha: f32 = 1.0,
        }
    }

    /// `min(max(x, min), max)`.
    54 Clip(exactly(1), exactly(1)) [Gpu Function] {
        params {
            0 min: f32 = f32::MIN,
            1 max: f32 = f32::MAX,
        }
    }

    /// `x * scale`.
    9 Dropout(exactly(1), exactly(1)) [Gpu NoDepth] {
        params {
            0 scale: f32 = 1.0,
        }
    }

    /// `x` if it is positive, else `alpha * (exp(x) - 1)`.
    11 ELU(exactly(1), exactly(1)) [Gpu Function] {
        params {
            0 alpha: f32 = 0.1,
        }
    }

    /// The error function.
    100 Erf(exactly(1), exactly(1)) [Gpu Function NoDepth] {}

    /// `base ^ (shift + scale * x)`; a base of -1 is e.
    13 Exp(exactly(1), exactly(1)) [Function NoDepth] {
        params {
            0 base: f32 = -1.0,
            1 scale: f32 = 1.0,
            2 shift: f32 = 0.0,
        }
    }

    /// `x * Φ(x)`.
    80 GELU(exactly(1), exactly(1)) [Gpu Function] {
        params {
            /// 1: the approximation by tanh.
            0 fast_gelu: i32 = 0,
        }
    }

    /// `min(max(alpha * x + beta, 0), 1)`.
    65 HardSigmoid(exactly(1), exactly(1)) [Gpu Function] {
        params {
            0 alpha: f32 = 0.2,
            1 beta: f32 = 0.5,
        }
    }

    /// `x * min(max(alpha * x + beta, 0), 1)`.
    67 HardSwish(exactly(1), exactly(1)) [Gpu Function] {
        params {
            0 alpha: f32 = 0.2,
            1 beta: f32 = 0.5,
        }
    }

    /// The logarithm of `shift + scale * x`; a base of -1 is e.
    17 Log(exactly(1), exactly(1)) [Function NoDepth] {
        params {
            0 base: f32 = -1.0,
            1 scale: f32 = 1.0,
            2 shift: f32 = 0.0,
        }
    }

    /// `x * tanh(log(1 + exp(x)))`.
    71 Mish(exactly(1), exactly(1)) [Gpu Function] {}

    /// `(shift + scale * x) ^ power`.
    22 Power(exactly(1), exactly(1)) [Function NoDepth Scalar] {
        params {
            0 power: f32 = 1.0,
            1 scale: f32 = 1.0,
            2 shift: f32 = 0.0,
        }
        also {
            fn exceeds_half(&self) -> bool {
                exceeds_half(self.scale) || exceeds_half(self.shift)
            }
        }
    }

    /// `x` if it is positive, else `slope * x`; one slope, or one for each index of the outermost axis.
    23 PReLU(exactly(1), exactly(1)) [Gpu NoDepth] {
        derived {
            0 num_slope = |layer| weight_len(&layer.slope_data),
        }
        weights {
            Raw slope_data,
        }
        reads { |l, bottom| {
            Ok(vec![("slope_data", if weight_len(&l.slope_data) == 1 { Some(1) } else { outermost(bottom) })])
        } }
        also {
            fn is_function(&self) -> bool {
                weight_len(&self.slope_data) == 1
            }
        }
    }

    /// `lambda * x` if it is positive, else `lambda * alpha * (exp(x) - 1)`.
    66 SELU(exactly(1), exactly(1)) [Gpu Function] {
        params {
            0 alpha: f32 = 1.673_263_2,
            1 lambda: f32 = 1.050_701,
        }
    }

    /// `x - bias` above `lambd`, `x + bias` below `-lambd`, 0 between.
    103 Shrink(exactly(1), exactly(1)) [Gpu Function NoDepth] {
        params {
            0 bias: f32 = 0.0,
            1 lambd: f32 = 0.5,
        }
    }

    /// `1 / (1 + exp(-x))`.
    30 Sigmoid(exactly(1), exactly(1)) [Gpu Function] {}

    /// `exp(x)` divided by its sum along an axis.
    32 Softmax(exactly(1), exactly(1)) [Gpu] {
        params {
            /// Counted from the outermost axis; a negative one from the end.
            0 axis: i32 = 0,
            /// Must be 1 unless `axis` is 0.
            1 fixbug0: i32 = 0,
        }
        tops { Softmax::top }
    }
}

impl Softmax {
    fn top(&self, bottoms: &[Sizes], _: usize) -> Result<Tops> {
        let bottom = bottoms.at(0)?;
        axis_of(self.axis, bottom)?;
        if self.axis != 0 && self.fixbug0 == 0 {
            unsupported!("an axis without fixbug0");
        }
        one(bottom.as_slice())
    }
}

layer! {
    /// `log(1 + exp(x))`.
    77 Softplus(exactly(1), exactly(1)) [Gpu Function NoDepth] {}

    /// `x / (1 + exp(-x))`.
    73 Swish(exactly(1), exactly(1)) [Gpu Function] {}

    /// The hyperbolic tangent.
    35 TanH(exactly(1), exactly(1)) [Gpu Function] {}

    /// 1 if `x > threshold`, else 0.
    36 Threshold(exactly(1), exactly(1)) [Function NoDepth] {
        params {
            0 threshold: f32 = 0.0,
        }
    }
}
