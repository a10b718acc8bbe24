//! The activation functions of the cells.

use crate::error::{Error, Result};
use crate::graph::Attribute;
use crate::op::Attributes;
use crate::pass::expand::{Expand, Operand};

/// A function with its parameters.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Activation {
    Affine { alpha: f32, beta: f32 },
    Elu { alpha: f32 },
    HardSigmoid { alpha: f32, beta: f32 },
    LeakyRelu { alpha: f32 },
    Relu,
    ScaledTanh { alpha: f32, beta: f32 },
    Sigmoid,
    Softplus,
    Softsign,
    Tanh,
    ThresholdedRelu { alpha: f32 },
}

/// Reads the functions of each direction. The values of `activation_alpha` and `activation_beta` belong to
/// the functions that have such a parameter, in order.
pub(super) fn read_activations(
    attributes: &Attributes,
    defaults: &[&str],
    directions: usize,
) -> Result<Vec<Vec<Activation>>> {
    let names = match attributes.strings("activations")? {
        Some(names) if !names.is_empty() => names,
        _ => defaults.repeat(directions),
    };
    if names.len() != defaults.len() * directions {
        let message = format!("{} functions, expected {}", names.len(), defaults.len() * directions);
        return Err(Error::invalid(message).at_part("attribute activations"));
    }
    let mut alphas = attributes.floats("activation_alpha")?.unwrap_or_default().into_iter();
    let mut betas = attributes.floats("activation_beta")?.unwrap_or_default().into_iter();
    let mut read = Vec::with_capacity(names.len());
    for name in names {
        let given = |value: Option<f32>| {
            // The default is 0 in onnxruntime, and that of the operator in the specification.
            let message = format!("function {name} without its parameters");
            value.ok_or_else(|| Error::unsupported(message).at_part("attribute activations"))
        };
        // As in onnxruntime, names are case-insensitive.
        read.push(match name.to_ascii_lowercase().as_str() {
            "affine" => {
                Activation::Affine { alpha: given(alphas.next())?, beta: betas.next().unwrap_or(0.0) }
            }
            "elu" => Activation::Elu { alpha: alphas.next().unwrap_or(1.0) },
            "hardsigmoid" => Activation::HardSigmoid {
                alpha: alphas.next().unwrap_or(0.2),
                beta: betas.next().unwrap_or(0.5),
            },
            "leakyrelu" => Activation::LeakyRelu { alpha: alphas.next().unwrap_or(0.01) },
            "relu" => Activation::Relu,
            "scaledtanh" => {
                Activation::ScaledTanh { alpha: given(alphas.next())?, beta: given(betas.next())? }
            }
            "sigmoid" => Activation::Sigmoid,
            "softplus" => Activation::Softplus,
            "softsign" => Activation::Softsign,
            "tanh" => Activation::Tanh,
            "thresholdedrelu" => Activation::ThresholdedRelu { alpha: given(alphas.next())? },
            _ => {
                return Err(Error::unsupported(format!("function {name}")).at_part("attribute activations"));
            }
        });
    }
    Ok(read.chunks(defaults.len()).map(<[Activation]>::to_vec).collect())
}

impl Activation {
    /// Emits the function of `x`.
    pub fn apply(self, expand: &mut Expand, x: Operand) -> Result<Operand> {
        let scaled = |expand: &mut Expand, op: &'static str, x: Operand, by: f32| {
            let by = expand.scalar_like(0, by)?;
            expand.op(op, &[x, by], &[])
        };
        let alpha_of = |alpha: f32| ("alpha", Attribute::Float(alpha));
        match self {
            Activation::Affine { alpha, beta } => {
                let x = scaled(expand, "Mul", x, alpha)?;
                scaled(expand, "Add", x, beta)
            }
            Activation::ScaledTanh { alpha, beta } => {
                let x = scaled(expand, "Mul", x, beta)?;
                let x = expand.op("Tanh", &[x], &[])?;
                scaled(expand, "Mul", x, alpha)
            }
            Activation::Elu { alpha } => expand.op("Elu", &[x], &[alpha_of(alpha)]),
            Activation::HardSigmoid { alpha, beta } => {
                expand.op("HardSigmoid", &[x], &[alpha_of(alpha), ("beta", Attribute::Float(beta))])
            }
            Activation::LeakyRelu { alpha } => expand.op("LeakyRelu", &[x], &[alpha_of(alpha)]),
            Activation::ThresholdedRelu { alpha } => expand.op("ThresholdedRelu", &[x], &[alpha_of(alpha)]),
            Activation::Relu => expand.op("Relu", &[x], &[]),
            Activation::Sigmoid => expand.op("Sigmoid", &[x], &[]),
            Activation::Softplus => expand.op("Softplus", &[x], &[]),
            Activation::Softsign => expand.op("Softsign", &[x], &[]),
            Activation::Tanh => expand.op("Tanh", &[x], &[]),
        }
    }
}
