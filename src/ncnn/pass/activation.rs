//! Fusion of activation functions into convolutions and inner products.

use smallvec::smallvec;

use super::super::layer::{Clip, HardSwish, PReLU, ReLU};
use super::super::{Layer, Net};
use super::Wiring;
use super::wiring::Edits;
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

pub(super) fn fuse_activations(net: &mut Net, wiring: &Wiring) -> Result<bool> {
    let mut edits = Edits::default();
    for index in 0..net.layers.len() {
        let Some(layer) = net.layers.get(index) else { continue };
        let (Some(activation), [bottom], [top]) =
            (activation_of(&layer.layer)?, layer.bottoms.as_slice(), layer.tops.as_slice())
        else {
            continue;
        };
        let (bottom, top) = (*bottom, *top);
        let Some(place) = wiring.producer(bottom) else { continue };
        if wiring.only_reader(bottom) != Some(index) || edits.removes(place) {
            continue;
        }
        let Some(producer) = net.layers.get_mut(place) else { continue };
        if set_activation(&mut producer.layer, activation) {
            producer.tops = smallvec![top];
            edits.remove(index, Some(place));
        }
    }
    Ok(edits.apply(net))
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ncnn::layer::{Convolution, Gemm, Sigmoid, UnaryOp};
    use crate::ncnn::pass::wiring::apply;

    fn kinds(net: &Net) -> Vec<String> {
        let text = |layer: &Layer| {
            let mut text = layer.type_name().to_owned();
            for (id, param) in layer.params() {
                if id == 9 || id == 10 {
                    text += &format!(" {id}={param:?}");
                }
            }
            text
        };
        net.layers.iter().map(|layer| text(&layer.layer)).collect()
    }

    /// Returns the layers of a convolution, these functions in sequence, and an absolute value.
    fn fused(functions: Vec<Layer>) -> Vec<String> {
        let mut net = Net::default();
        let x = net.push_input("x", &[1, 2, 2]);
        let mut blob = net.push("conv", Convolution::default(), &[x], &[1, 2, 2]);
        for function in functions {
            blob = net.push("f", function, &[blob], &[1, 2, 2]);
        }
        let y = net.push_abs("y", blob);
        net.push_output("y", y);
        let all: Vec<usize> = (0..net.layers.len()).collect();
        apply(fuse_activations, &mut net).unwrap();
        net.name(&[]).unwrap();
        net.check_flow().unwrap();
        let done = net.layers.iter().flat_map(|layer| layer.provenance.iter());
        assert_eq!(done.collect::<Vec<_>>(), all);
        kinds(&net)
    }

    #[test]
    fn functions_are_fused() {
        let leaky = |slope: f32| {
            let slope_data = Some(crate::tensor::Tensor::from_f32(&[1], vec![slope]).unwrap());
            Layer::from(PReLU { slope_data })
        };
        for (function, expected) in [
            (ReLU { slope: 0.0 }.into(), "9=Int(1)"),
            (ReLU { slope: 0.5 }.into(), "9=Int(2) 10=Floats([0.5])"),
            (leaky(0.25), "9=Int(2) 10=Floats([0.25])"),
            (Clip { min: 0.0, max: 6.0 }.into(), "9=Int(3) 10=Floats([0.0, 6.0])"),
            (Sigmoid {}.into(), "9=Int(4)"),
            (crate::ncnn::layer::Mish {}.into(), "9=Int(5)"),
            (HardSwish { alpha: 0.25, beta: 0.5 }.into(), "9=Int(6) 10=Floats([0.25, 0.5])"),
        ] {
            assert_eq!(fused(vec![function]), ["Input", &format!("Convolution {expected}"), "UnaryOp"]);
        }
    }

    #[test]
    fn only_one_function_is_fused() {
        let two = vec![ReLU { slope: 0.0 }.into(), Clip { min: 0.0, max: 6.0 }.into()];
        assert_eq!(fused(two), ["Input", "Convolution 9=Int(1)", "Clip", "UnaryOp"]);
        let other = vec![UnaryOp { op_type: 1 }.into(), ReLU { slope: 0.0 }.into()];
        assert_eq!(fused(other), ["Input", "Convolution", "UnaryOp", "ReLU", "UnaryOp"]);
    }

    #[test]
    fn blob_with_other_readers_stays() {
        let mut net = Net::default();
        let x = net.push_input("x", &[1, 2, 2]);
        let conv = net.push("conv", Convolution::default(), &[x], &[1, 2, 2]);
        let y = net.push("y", ReLU { slope: 0.0 }, &[conv], &[1, 2, 2]);
        net.push_output("y", y);
        net.push_output("conv", conv);
        assert!(!apply(fuse_activations, &mut net).unwrap());
        net.outputs.pop();
        let z = net.push_abs("z", conv);
        net.push_output("z", z);
        assert!(!apply(fuse_activations, &mut net).unwrap());
    }

    #[test]
    fn gemm_has_no_activation() {
        let mut net = Net::default();
        let x = net.push_input("x", &[2, 2]);
        let y = net.push("product", Gemm::default(), &[x], &[2, 2]);
        let y = net.push("y", ReLU { slope: 0.0 }, &[y], &[2, 2]);
        net.push_output("y", y);
        assert!(!apply(fuse_activations, &mut net).unwrap());
    }
}
