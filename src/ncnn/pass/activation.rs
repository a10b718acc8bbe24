//! Fusion of activation functions into convolutions and inner products.

use super::super::layer::{Clip, HardSwish, PReLU, ReLU};
use super::super::{Layer, Net};
use super::Wiring;
use super::wiring::fuse_into;
use crate::error::Result;

/// Values of `activation_type`, the same in all supported releases (`fused_activation.h`).
pub(super) mod activation_type {
    pub const RELU: i32 = 1;
    pub const LEAKY_RELU: i32 = 2;
    pub const CLIP: i32 = 3;
    pub const SIGMOID: i32 = 4;
    pub const MISH: i32 = 5;
    pub const HARD_SWISH: i32 = 6;
}

/// The `activation_type` and `activation_params` of a function.
type Activation = (i32, Vec<f32>);

pub(super) fn fuse_layer_activation(net: &mut Net, wiring: &Wiring) -> Result<bool> {
    let find = |net: &Net, index: usize| {
        let Some(layer) = net.layers.get(index) else { return Ok(None) };
        let [bottom] = layer.bottoms.as_slice() else { return Ok(None) };
        let producer = wiring.producer(*bottom).filter(|_| wiring.only_reader(*bottom) == Some(index));
        Ok(producer.zip(activation_of(&layer.layer)?))
    };
    fuse_into(net, find, |layer, activation| Ok(set_activation(layer, activation)))
}

fn activation_of(layer: &Layer) -> Result<Option<Activation>> {
    use activation_type::*;
    let leaky = |slope: f32| if slope == 0.0 { (RELU, Vec::new()) } else { (LEAKY_RELU, vec![slope]) };
    Ok(match layer {
        Layer::ReLU(layer) => {
            let ReLU { slope } = **layer;
            Some(leaky(slope))
        }
        Layer::PReLU(layer) => match &**layer {
            PReLU { slope_data: Some(slope) } if slope.len() == 1 => {
                Some(leaky(slope.load_listed()?.scalar_f32()?))
                    .filter(|(_, params)| params.iter().all(|x| x.is_finite()))
            }
            _ => None,
        },
        Layer::Clip(layer) => {
            let Clip { min, max } = **layer;
            Some((CLIP, vec![min, max]))
        }
        Layer::Sigmoid(_) => Some((SIGMOID, Vec::new())),
        Layer::Mish(_) => Some((MISH, Vec::new())),
        Layer::HardSwish(layer) => {
            let HardSwish { alpha, beta } = **layer;
            // If it is not positive, the bounds of the linear part are undefined or swapped.
            Some((HARD_SWISH, vec![alpha, beta])).filter(|_| alpha > 0.0)
        }
        _ => None,
    })
}

/// Sets the activation of a layer without one; returns `false` if it cannot have one.
fn set_activation(layer: &mut Layer, activation: Activation) -> bool {
    macro_rules! slots {
        ($($name:ident),*) => {
            match layer {
                $( Layer::$name(layer) => Some((&mut layer.activation_type, &mut layer.activation_params)), )*
                _ => None,
            }
        };
    }
    let slots = slots!(
        Convolution1D,
        Convolution,
        ConvolutionDepthWise,
        Convolution3D,
        ConvolutionDepthWise3D,
        DeformableConv2D,
        Deconvolution1D,
        Deconvolution,
        DeconvolutionDepthWise,
        Deconvolution3D,
        DeconvolutionDepthWise3D,
        InnerProduct
    );
    match slots {
        Some((kind, params)) if *kind == 0 => {
            (*kind, *params) = activation;
            true
        }
        _ => false,
    }
}
