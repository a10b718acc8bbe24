//! Functions of each element.

use std::f64::consts::{FRAC_1_SQRT_2, FRAC_2_PI};

use ndarray::Zip;

use super::Mat;
use super::array::bottom;
use super::elementwise::{along_outermost, log_add_exp};
use crate::error::{Result, invalid, unsupported};
use crate::ncnn::Layer;
use crate::ncnn::layer::unary_op;
use crate::tensor::Tensor;

/// A function of one element.
pub(crate) type Function = Box<dyn Fn(f64) -> f64>;

/// Computes a layer that is a function of each element.
pub(super) fn compute(layer: &Layer, bottoms: &[&Mat]) -> Result<Mat> {
    let bottom = bottom(bottoms, 0)?;
    match layer {
        Layer::PReLU(l) => prelu(&l.slope_data, bottom),
        _ => Ok(bottom.mapv(function(layer)?)),
    }
}

/// Returns the activation of a layer with an `activation_type`.
pub(crate) fn fused(kind: i32, params: &[f32]) -> Result<Function> {
    Ok(match (kind, params) {
        (0, _) => Box::new(|x| x),
        (1, _) => Box::new(|x| leaky(x, 0.0)),
        (2, &[slope, ..]) => Box::new(move |x| leaky(x, slope.into())),
        (3, &[min, max, ..]) => clip(min, max),
        (4, _) => Box::new(sigmoid),
        (5, _) => Box::new(mish),
        (6, &[alpha, beta, ..]) => Box::new(move |x| x * hard_sigmoid(x, alpha, beta)),
        (2 | 3 | 6, _) => invalid!("activation {kind} with {} params", params.len()),
        _ => unsupported!("activation {kind}"),
    })
}

/// Returns the function of a layer.
fn function(layer: &Layer) -> Result<Function> {
    Ok(match layer {
        Layer::AbsVal(_) => Box::new(f64::abs),
        Layer::BNLL(_) | Layer::Softplus(_) => Box::new(softplus),
        Layer::CELU(l) => {
            let alpha = f64::from(l.alpha);
            Box::new(move |x| if x < 0.0 { alpha * libm::expm1(x / alpha) } else { x })
        }
        Layer::Clip(l) => clip(l.min, l.max),
        Layer::Dropout(l) => {
            let scale = f64::from(l.scale);
            Box::new(move |x| x * scale)
        }
        Layer::ELU(l) => elu(l.alpha.into(), 1.0),
        Layer::Erf(_) => Box::new(libm::erf),
        Layer::Exp(l) => exp(l.base.into(), l.scale.into(), l.shift.into()),
        Layer::GELU(l) if l.fast_gelu != 0 => {
            Box::new(|x| 0.5 * x * (1.0 + libm::tanh(FRAC_2_PI.sqrt() * (x + 0.044715 * x.powi(3)))))
        }
        Layer::GELU(_) => Box::new(|x| 0.5 * x * libm::erfc(-FRAC_1_SQRT_2 * x)),
        Layer::HardSigmoid(l) => {
            let (alpha, beta) = (l.alpha, l.beta);
            Box::new(move |x| hard_sigmoid(x, alpha, beta))
        }
        Layer::HardSwish(l) => {
            let (alpha, beta) = (l.alpha, l.beta);
            Box::new(move |x| x * hard_sigmoid(x, alpha, beta))
        }
        Layer::Log(l) => log(l.base.into(), l.scale.into(), l.shift.into()),
        Layer::Mish(_) => Box::new(mish),
        Layer::Power(l) => {
            let (power, scale, shift) = (f64::from(l.power), f64::from(l.scale), f64::from(l.shift));
            Box::new(move |x| libm::pow(shift + x * scale, power))
        }
        Layer::ReLU(l) => {
            let slope = f64::from(l.slope);
            Box::new(move |x| leaky(x, slope))
        }
        Layer::SELU(l) => elu(l.alpha.into(), l.lambda.into()),
        Layer::Shrink(l) => shrink(l.bias.into(), l.lambd.into()),
        Layer::Sigmoid(_) => Box::new(sigmoid),
        Layer::Swish(_) => Box::new(|x| x * sigmoid(x)),
        Layer::TanH(_) => Box::new(libm::tanh),
        Layer::Threshold(l) => {
            let threshold = f64::from(l.threshold);
            Box::new(move |x| if x > threshold { 1.0 } else { 0.0 })
        }
        Layer::UnaryOp(l) => Box::new(unary(l.op_type)?),
        _ => unsupported!("{} as a function of each element", layer.type_name()),
    })
}

/// Returns the function of a UnaryOp.
fn unary(op_type: i32) -> Result<fn(f64) -> f64> {
    Ok(match op_type {
        unary_op::ABS => f64::abs,
        unary_op::NEG => |x| -x,
        unary_op::FLOOR => f64::floor,
        unary_op::CEIL => f64::ceil,
        unary_op::SQUARE => |x| x * x,
        unary_op::SQRT => f64::sqrt,
        unary_op::RSQRT => |x| x.sqrt().recip(),
        unary_op::EXP => libm::exp,
        unary_op::LOG => libm::log,
        unary_op::SIN => libm::sin,
        unary_op::COS => libm::cos,
        unary_op::TAN => libm::tan,
        unary_op::ASIN => libm::asin,
        unary_op::ACOS => libm::acos,
        unary_op::ATAN => libm::atan,
        unary_op::RECIPROCAL => f64::recip,
        unary_op::TANH => libm::tanh,
        unary_op::LOG10 => libm::log10,
        unary_op::ROUND => f64::round_ties_even,
        unary_op::TRUNC => f64::trunc,
        unary_op::SIGN => |x| f64::from(i8::from(x > 0.0) - i8::from(x < 0.0)),
        unary_op::EXPM1 => libm::expm1,
        unary_op::SINH => libm::sinh,
        unary_op::ASINH => libm::asinh,
        unary_op::COSH => libm::cosh,
        unary_op::ACOSH => libm::acosh,
        unary_op::ATANH => libm::atanh,
        unary_op::LOG1P => libm::log1p,
        _ => invalid!("a UnaryOp of type {op_type}"),
    })
}

/// Computes PReLU, with one slope, or one for each index of the outermost axis.
fn prelu(slope: &Option<Tensor>, bottom: &Mat) -> Result<Mat> {
    let slope = along_outermost(slope, bottom, true)?;
    let mut top = bottom.clone();
    Zip::from(&mut top).and_broadcast(&slope).for_each(|x, slope| *x = leaky(*x, *slope));
    Ok(top)
}

/// Returns `x` multiplied by `slope` if it is negative; a slope of 0 gives 0 for negative infinity too.
fn leaky(x: f64, slope: f64) -> f64 {
    match x < 0.0 {
        true if slope == 0.0 => 0.0,
        true => slope * x,
        false => x,
    }
}

/// Returns the function that clips to bounds; the upper one has precedence, and NaN stays.
fn clip(min: f32, max: f32) -> Function {
    let (min, max) = (f64::from(min), f64::from(max));
    Box::new(move |x| {
        let x = if x < min { min } else { x };
        if x > max { max } else { x }
    })
}

fn sigmoid(x: f64) -> f64 {
    1.0 / (1.0 + libm::exp(-x))
}

/// Returns `log(1 + exp(x))`.
fn softplus(x: f64) -> f64 {
    log_add_exp(x, 0.0)
}

fn mish(x: f64) -> f64 {
    x * libm::tanh(softplus(x))
}

fn hard_sigmoid(x: f64, alpha: f32, beta: f32) -> f64 {
    (x * f64::from(alpha) + f64::from(beta)).clamp(0.0, 1.0)
}

/// Returns ELU with its results multiplied by `lambda`.
fn elu(alpha: f64, lambda: f64) -> Function {
    Box::new(move |x| lambda * if x < 0.0 { alpha * libm::expm1(x) } else { x })
}

/// Returns the exponential function of a linear one; a base of -1 is e.
fn exp(base: f64, scale: f64, shift: f64) -> Function {
    if base == -1.0 {
        Box::new(move |x| libm::exp(shift + x * scale))
    } else {
        Box::new(move |x| libm::pow(base, shift + x * scale))
    }
}

/// Returns the logarithm of a linear function; a base of -1 is e.
fn log(base: f64, scale: f64, shift: f64) -> Function {
    let divisor = if base == -1.0 { 1.0 } else { libm::log(base) };
    Box::new(move |x| libm::log(shift + x * scale) / divisor)
}

/// Returns the function that moves elements towards 0 by `bias`, and those up to `lambd` to 0.
fn shrink(bias: f64, lambd: f64) -> Function {
    Box::new(move |x| match x {
        _ if x < -lambd => x + bias,
        _ if x > lambd => x - bias,
        _ => 0.0,
    })
}
