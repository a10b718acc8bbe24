//! Activation functions.

use super::shape::{Sizes, Tops, axis_of, one, same};
use super::{exactly, layer, weight_len};
use crate::error::{At, Result, unsupported};

layer! {
    /// `|x|`.
    AbsVal(exactly(1), exactly(1)) {
        tops { same }
    }

    /// `log(1 + exp(x))`.
    BNLL(exactly(1), exactly(1)) {
        tops { same }
    }

    /// `max(x, 0) + min(alpha * (exp(x / alpha) - 1), 0)`.
    CELU(exactly(1), exactly(1)) {
        params {
            0 alpha: f32 = 1.0,
        }
        tops { same }
    }

    /// `min(max(x, min), max)`.
    Clip(exactly(1), exactly(1)) {
        params {
            0 min: f32 = f32::MIN,
            1 max: f32 = f32::MAX,
        }
        tops { same }
    }

    /// `x * scale`.
    Dropout(exactly(1), exactly(1)) {
        params {
            0 scale: f32 = 1.0,
        }
        tops { same }
    }

    /// `x` if it is positive, else `alpha * (exp(x) - 1)`.
    ELU(exactly(1), exactly(1)) {
        params {
            0 alpha: f32 = 0.1,
        }
        tops { same }
    }

    /// The error function.
    Erf(exactly(1), exactly(1)) {
        tops { same }
    }

    /// `base ^ (shift + scale * x)`; a base of -1 is e.
    Exp(exactly(1), exactly(1)) {
        params {
            0 base: f32 = -1.0,
            1 scale: f32 = 1.0,
            2 shift: f32 = 0.0,
        }
        tops { same }
    }

    /// `x * Φ(x)`.
    GELU(exactly(1), exactly(1)) {
        params {
            /// 1: the approximation by tanh.
            0 fast_gelu: i32 = 0,
        }
        tops { same }
    }

    /// `min(max(alpha * x + beta, 0), 1)`.
    HardSigmoid(exactly(1), exactly(1)) {
        params {
            0 alpha: f32 = 0.2,
            1 beta: f32 = 0.5,
        }
        tops { same }
    }

    /// `x * min(max(alpha * x + beta, 0), 1)`.
    HardSwish(exactly(1), exactly(1)) {
        params {
            0 alpha: f32 = 0.2,
            1 beta: f32 = 0.5,
        }
        tops { same }
    }

    /// The logarithm of `shift + scale * x`; a base of -1 is e.
    Log(exactly(1), exactly(1)) {
        params {
            0 base: f32 = -1.0,
            1 scale: f32 = 1.0,
            2 shift: f32 = 0.0,
        }
        tops { same }
    }

    /// `x * tanh(log(1 + exp(x)))`.
    Mish(exactly(1), exactly(1)) {
        tops { same }
    }

    /// `(shift + scale * x) ^ power`.
    Power(exactly(1), exactly(1)) {
        params {
            0 power: f32 = 1.0,
            1 scale: f32 = 1.0,
            2 shift: f32 = 0.0,
        }
        tops { same }
    }

    /// `x` if it is positive, else `slope * x`; one slope, or one for each index of the outermost axis.
    PReLU(exactly(1), exactly(1)) {
        derived {
            0 num_slope = |layer| weight_len(&layer.slope_data),
        }
        weights {
            Raw slope_data,
        }
        tops { same }
    }

    /// `lambda * x` if it is positive, else `lambda * alpha * (exp(x) - 1)`.
    SELU(exactly(1), exactly(1)) {
        params {
            0 alpha: f32 = 1.673_263_2,
            1 lambda: f32 = 1.050_701,
        }
        tops { same }
    }

    /// `x - bias` above `lambd`, `x + bias` below `-lambd`, 0 between.
    Shrink(exactly(1), exactly(1)) {
        params {
            0 bias: f32 = 0.0,
            1 lambd: f32 = 0.5,
        }
        tops { same }
    }

    /// `1 / (1 + exp(-x))`.
    Sigmoid(exactly(1), exactly(1)) {
        tops { same }
    }

    /// `exp(x)` divided by its sum along an axis.
    Softmax(exactly(1), exactly(1)) {
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
    Softplus(exactly(1), exactly(1)) {
        tops { same }
    }

    /// `x / (1 + exp(-x))`.
    Swish(exactly(1), exactly(1)) {
        tops { same }
    }

    /// The hyperbolic tangent.
    TanH(exactly(1), exactly(1)) {
        tops { same }
    }

    /// 1 if `x > threshold`, else 0.
    Threshold(exactly(1), exactly(1)) {
        params {
            0 threshold: f32 = 0.0,
        }
        tops { same }
    }
}
