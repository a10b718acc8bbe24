//! The activation functions of the cells.

use crate::ops::prelude::*;

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
    call: &Call,
    defaults: &[&str],
    directions: usize,
) -> Result<Vec<Vec<Activation>>> {
    let names = match call.optional_strings("activations")? {
        Some(names) if !names.is_empty() => names,
        _ => defaults.repeat(directions),
    };
    if names.len() != defaults.len() * directions {
        let message = format!("{} functions, expected {}", names.len(), defaults.len() * directions);
        return Err(Error::invalid(message).at_part("attribute activations"));
    }
    let mut alphas = call.optional_floats("activation_alpha")?.unwrap_or_default().into_iter();
    let mut betas = call.optional_floats("activation_beta")?.unwrap_or_default().into_iter();
    let mut read = Vec::with_capacity(names.len());
    for name in names {
        let required = |value: Option<f32>| {
            // The default is 0 in onnxruntime; in the specification it is the default of the operator.
            let message = format!("function {name} without its parameters");
            value.ok_or_else(|| Error::unsupported(message).at_part("attribute activations"))
        };
        // As in onnxruntime, names are case-insensitive.
        read.push(match name.to_ascii_lowercase().as_str() {
            "affine" => {
                Activation::Affine { alpha: required(alphas.next())?, beta: betas.next().unwrap_or(0.0) }
            }
            "elu" => Activation::Elu { alpha: alphas.next().unwrap_or(1.0) },
            "hardsigmoid" => Activation::HardSigmoid {
                alpha: alphas.next().unwrap_or(0.2),
                beta: betas.next().unwrap_or(0.5),
            },
            "leakyrelu" => Activation::LeakyRelu { alpha: alphas.next().unwrap_or(0.01) },
            "relu" => Activation::Relu,
            "scaledtanh" => {
                Activation::ScaledTanh { alpha: required(alphas.next())?, beta: required(betas.next())? }
            }
            "sigmoid" => Activation::Sigmoid,
            "softplus" => Activation::Softplus,
            "softsign" => Activation::Softsign,
            "tanh" => Activation::Tanh,
            "thresholdedrelu" => Activation::ThresholdedRelu { alpha: required(alphas.next())? },
            _ => {
                return Err(Error::unsupported(format!("function {name}")).at_part("attribute activations"));
            }
        });
    }
    Ok(read.chunks(defaults.len()).map(<[Activation]>::to_vec).collect())
}

impl Activation {
    /// Returns the function of `x`.
    pub fn apply(self, x: Expr) -> Expr {
        let alpha_of = |alpha: f32| ("alpha", alpha.into());
        match self {
            Activation::Affine { alpha, beta } => x * alpha + beta,
            Activation::ScaledTanh { alpha, beta } => (x * beta).tanh() * alpha,
            Activation::Elu { alpha } => x.builder.op("Elu", [x], [alpha_of(alpha)]),
            Activation::HardSigmoid { alpha, beta } => {
                x.builder.op("HardSigmoid", [x], [alpha_of(alpha), ("beta", beta.into())])
            }
            Activation::LeakyRelu { alpha } => x.builder.op("LeakyRelu", [x], [alpha_of(alpha)]),
            Activation::ThresholdedRelu { alpha } => x.builder.op("ThresholdedRelu", [x], [alpha_of(alpha)]),
            Activation::Relu => x.relu(),
            Activation::Sigmoid => x.sigmoid(),
            Activation::Softplus => x.builder.op("Softplus", [x], []),
            Activation::Softsign => x.builder.op("Softsign", [x], []),
            Activation::Tanh => x.tanh(),
        }
    }
}
