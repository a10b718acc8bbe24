//! Activations.
//!
//! Softplus becomes BNLL, which does not overflow as ncnn's Softplus does. The layer Shrink keeps elements
//! that it should set to 0 before 2024-08.
//! The result for NaN is not defined.
//!
//! Spec: <https://onnx.ai/onnx/operators/onnx__Relu.html> and so on.

mod clip;
mod function;
mod prelu;

use super::broadcast::LOSES_NAN;
use crate::ncnn::layer::{
    BNLL, CELU, ELU, GELU, HardSigmoid, HardSwish, Mish, ReLU, SELU, Sigmoid, Swish, TanH,
};
use crate::op::range;
use crate::ops::prelude::*;

pub(in crate::ops) use clip::{AT_LEAST, AT_MOST};
use clip::{fold_clip, infer_clip, lower_clip, range_clip};
use function::evaluate;
use prelu::{fold_prelu, infer_prelu, lower_prelu};

/// A row of an activation, which a function reads from the attributes.
macro_rules! activation {
    ($name:literal, $read:expr) => {
        Row::new($name, Access::Elementwise, infer_same)
            .fold(|call| fold_activation($read, call))
            .lower(|lower| lower_activation($read, lower))
    };
}

pub(in crate::ops) const OPS: &[Row] = &[
    activation!("Celu", read_celu).lowers_to("CELU"),
    Row::new("Clip", Access::Elementwise, infer_clip)
        .fold(fold_clip)
        .lower(lower_clip)
        .range(range_clip)
        .lowers_to(
            "Clip; ReLU for a lower bound of 0; BinaryOp for one bound, and for bounds computed at run time",
        )
        .differs(LOSES_NAN),
    activation!("Elu", |a| Ok(Activation::Elu { alpha: a.float("alpha")? })).lowers_to("ELU"),
    activation!("Gelu", |a| Ok(Activation::Gelu { tanh: read_approximate(a)? }))
        .lowers_to("GELU")
        .differs("magnitudes above 1e38, which become infinite"),
    activation!("HardSigmoid", |a| Ok(Activation::HardSigmoid {
        alpha: a.float("alpha")?,
        beta: a.float("beta")?
    }))
    .range(range::unit)
    .lowers_to("HardSigmoid; BinaryOp and Clip if alpha is not positive")
    .differs(LOSES_NAN),
    activation!("HardSwish", |_| Ok(Activation::HardSwish))
        .lowers_to("HardSwish")
        .differs("-inf, which becomes 0"),
    activation!("LeakyRelu", |a| Ok(Activation::LeakyRelu { alpha: a.float("alpha")? })).lowers_to("ReLU"),
    activation!("Mish", |_| Ok(Activation::Mish))
        .lowers_to("Mish")
        .differs("NaN; numbers below -1e6, which become positive"),
    Row::new("PRelu", Access::Broadcast, infer_prelu)
        .fold(fold_prelu)
        .lower(lower_prelu)
        .lowers_to("ReLU; PReLU for slopes along the outermost axis; BinaryOp for any other shape")
        .differs("infinities with a slope of 0; infinite slopes"),
    activation!("Relu", |_| Ok(Activation::LeakyRelu { alpha: 0.0 }))
        .range(|call, x| range::first(call, x).map(|x| x.max(0.0)))
        .exact()
        .lowers_to("ReLU"),
    activation!("Selu", |a| Ok(Activation::Selu { alpha: a.float("alpha")?, gamma: a.float("gamma")? }))
        .lowers_to("SELU"),
    activation!("Shrink", |a| Ok(Activation::Shrink { bias: a.float("bias")?, lambd: a.float("lambd")? }))
        .lowers_to("BinaryOp, Threshold")
        .limits("a negative `lambd`")
        .differs("NaN, which stays NaN"),
    activation!("Sigmoid", |_| Ok(Activation::Sigmoid))
        .range(range::unit)
        .lowers_to("Sigmoid")
        .differs(LOSES_NAN),
    activation!("Softplus", |_| Ok(Activation::Softplus))
        .range(|call, x| range::first(call, x).map(|x| x.max(0.0) + 1.0).union(Range::UNIT))
        .lowers_to("BNLL")
        .differs(LOSES_NAN),
    activation!("Softsign", |_| Ok(Activation::Softsign))
        .range(|_, _| Range::new(-1.0, 1.0))
        .lowers_to("UnaryOp, BinaryOp")
        .differs("magnitudes above 1e38, which become 0"),
    activation!("Swish", |a| Ok(Activation::Swish { alpha: a.float("alpha")? }))
        .lowers_to("Swish; BinaryOp and Sigmoid if `alpha` is not 1")
        .differs("-inf, which may stay -inf"),
    activation!("Tanh", |_| Ok(Activation::Tanh))
        .range(|_, _| Range::new(-1.0, 1.0))
        .lowers_to("TanH")
        .differs(LOSES_NAN),
    activation!("ThresholdedRelu", |a| Ok(Activation::ThresholdedRelu { alpha: a.float("alpha")? }))
        .lowers_to("Threshold, BinaryOp")
        .differs("NaN, which stays NaN"),
];

/// The factors by which a value can be multiplied and divided again without loss of range.
const GENTLE: std::ops::RangeInclusive<f32> = 1e-3..=1e3;

/// An activation with its constants.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Activation {
    Celu { alpha: f32 },
    Elu { alpha: f32 },
    Gelu { tanh: bool },
    HardSigmoid { alpha: f32, beta: f32 },
    HardSwish,
    LeakyRelu { alpha: f32 },
    Mish,
    Selu { alpha: f32, gamma: f32 },
    Shrink { bias: f32, lambd: f32 },
    Sigmoid,
    Softplus,
    Softsign,
    Swish { alpha: f32 },
    Tanh,
    ThresholdedRelu { alpha: f32 },
}

fn read_celu(call: &Call) -> Result<Activation> {
    match call.float("alpha")? {
        0.0 => unsupported!("alpha is 0, by which Celu divides"),
        alpha => Ok(Activation::Celu { alpha }),
    }
}

fn read_approximate(call: &Call) -> Result<bool> {
    call.word("approximate", &[("none", false), ("tanh", true)])
}

type Read = fn(&Call) -> Result<Activation>;

fn fold_activation(read: Read, call: &Call) -> Result<Vec<Array>> {
    let activation = read(call)?;
    Ok(vec![call.array(0)?.map(|x| evaluate(activation, x))?])
}

fn lower_activation(read: Read, lower: &Lower) -> Result<()> {
    let activation = read(lower)?;
    let x = lower.blob(0)?;
    let y = match activation {
        Activation::Celu { alpha } => x.map(CELU { alpha }),
        Activation::Elu { alpha } => x.map(ELU { alpha }),
        Activation::Gelu { tanh } => x.map(GELU { fast_gelu: i32::from(tanh) }),
        // The layer divides by alpha.
        Activation::HardSigmoid { alpha, beta } if alpha > 0.0 => x.map(HardSigmoid { alpha, beta }),
        Activation::HardSigmoid { alpha, beta } => (x * alpha + beta).clip(0.0, 1.0),
        Activation::HardSwish => x.map(HardSwish { alpha: 1.0 / 6.0, beta: 0.5 }),
        Activation::LeakyRelu { alpha } => x.map(ReLU { slope: alpha }),
        Activation::Mish => x.map(Mish::default()),
        Activation::Selu { alpha, gamma } => x.map(SELU { alpha, lambda: gamma }),
        Activation::Shrink { bias, lambd } => shrink(lower, x, bias, lambd)?.into(),
        Activation::Sigmoid => x.map(Sigmoid::default()),
        Activation::Softplus => x.map(BNLL::default()),
        Activation::Softsign => x / (x.abs() + 1.0),
        Activation::Swish { alpha: 1.0 } => x.map(Swish::default()),
        // `x * sigmoid(a * x)` is `swish(a * x) / a`, and no blob has two readers.
        Activation::Swish { alpha } if GENTLE.contains(&alpha.abs()) => {
            (x * alpha).map(Swish::default()) * (1.0 / alpha)
        }
        Activation::Swish { alpha } => x * (x * alpha).map(Sigmoid::default()),
        Activation::Tanh => x.map(TanH::default()),
        Activation::ThresholdedRelu { alpha } => {
            let passes = lower.compute(x.greater(alpha))?;
            // A product of -inf with 0 would be NaN.
            x.maximum(alpha) * passes
        }
    };
    lower.set(0, y)
}

/// Emits `x - bias` above `lambd`, `x + bias` below `-lambd`, otherwise 0.
fn shrink(lower: &Lower, x: BlobId, bias: f32, lambd: f32) -> Result<BlobId> {
    if lambd < 0.0 {
        unsupported!("lambd {lambd} is negative");
    }
    let (above, below) = (lower.compute(x.greater(lambd))?, lower.compute(x.less(-lambd))?);
    let kept = lower.compute(x * (above + below))?;
    if bias == 0.0 {
        return Ok(kept);
    }
    let shrunk = kept + (below - above) * bias;
    let dtype = lower.dtype(0)?;
    if dtype.is_int() { lower.wrap(shrunk.trunc(), dtype) } else { lower.compute(shrunk) }
}
