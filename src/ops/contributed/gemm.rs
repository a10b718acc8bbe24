//! FusedGemm: Gemm and an activation.

use crate::graph::Attribute;
use crate::ops::prelude::*;

/// The attributes of an operator, and their defaults.
type Parameters = &'static [(&'static str, f32)];

/// The activations, with their parameters.
const ACTIVATIONS: &[(&str, Parameters)] = &[
    ("Elu", &[("alpha", 1.0)]),
    ("HardSigmoid", &[("alpha", 0.2), ("beta", 0.5)]),
    ("LeakyRelu", &[("alpha", 0.01)]),
    ("Relu", &[]),
    ("Sigmoid", &[]),
    ("Softplus", &[]),
    ("Softsign", &[]),
    ("Tanh", &[]),
    ("ThresholdedRelu", &[("alpha", 1.0)]),
];

/// An operator and its attributes.
type Activation = (&'static str, Vec<(&'static str, Attribute)>);

/// Returns the operator of the activation, and its attributes.
fn read_activation(call: &Call) -> Result<Option<Activation>> {
    let activation = call.string_or("activation", "")?;
    let optional = [call.optional_float("activation_alpha")?, call.optional_float("activation_beta")?];
    if activation.is_empty() {
        return Ok(None);
    }
    let Some((operator, parameters)) = ACTIVATIONS.iter().find(|(name, _)| *name == activation) else {
        unsupported!("the activation {activation} is not supported");
    };
    let values = optional.into_iter().zip(*parameters);
    let attributes = values.map(|(value, (name, usual))| (*name, Attribute::Float(value.unwrap_or(*usual))));
    Ok(Some((operator, attributes.collect())))
}

pub(super) fn expand_fused_gemm<'x>(x: &'x Expand) -> Result<Expr<'x>> {
    let activation = read_activation(x)?;
    let inputs = [x.operand(0), x.operand(1)].into_iter().chain(x.optional(2));
    let attributes = [
        ("alpha", x.float("alpha")?.into()),
        ("beta", x.float("beta")?.into()),
        ("transA", x.int("transA")?.into()),
        ("transB", x.int("transB")?.into()),
    ];
    let mut result = x.make.op("Gemm", inputs, attributes);
    if let Some((activation, attributes)) = activation {
        result = x.make.op(activation, [result], attributes);
    }
    Ok(result)
}
