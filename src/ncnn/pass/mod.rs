//! Passes over the net, which make it smaller and faster and keep its results.
//!
//! They run before [`Net::split`], so a blob may have any number of readers.

mod activation;
mod bias;
#[cfg(test)]
mod cases;
mod int8;
mod place;
mod slice;
mod state;
mod unread;
mod view;
mod wiring;

use std::collections::BTreeSet;

use super::Net;
use super::layer::{
    BinaryOp, Clip, Convolution, ConvolutionDepthWise, Crop, GRU, HardSwish, LSTM, Mish, PReLU, RNN, ReLU,
    Sigmoid,
};
use crate::common::fixpoint::apply_to_fixpoint;
use crate::error::Result;
use view::VIEWS;
use wiring::Wiring;

/// A pass over the net.
#[derive(Clone, Copy, Debug)]
pub struct NetPass {
    /// The name of the pass.
    pub name: &'static str,
    /// A summary in one line.
    pub about: &'static str,
    /// Layer types of which every match has at least one; a net without any of them is skipped.
    of: &'static [&'static str],
    /// Applies the pass wherever possible; returns whether the net changed. It may leave layers without
    /// readers.
    apply: fn(&mut Net, &Wiring) -> Result<bool>,
}

/// All passes, in the order of their application.
pub const NET_PASSES: &[NetPass] = &[
    NetPass {
        name: "fuse_layer_activation",
        about: "elementwise functions, fused into the layer before",
        of: &[Clip::TYPE, HardSwish::TYPE, Mish::TYPE, PReLU::TYPE, ReLU::TYPE, Sigmoid::TYPE],
        apply: activation::fuse_activations,
    },
    NetPass {
        name: "fuse_layer_bias",
        about: "constant terms, fused into the product before",
        of: &[BinaryOp::TYPE],
        apply: bias::fuse_biases,
    },
    NetPass {
        name: "join_crops",
        about: "crops that partition a blob, as one layer",
        of: &[Crop::TYPE],
        apply: slice::join_crops,
    },
    NetPass {
        name: "flatten_place",
        about: "convolutions at a single position, as inner products",
        of: &[Convolution::TYPE],
        apply: place::flatten_convolutions,
    },
    NetPass {
        name: "broadcast_channels",
        about: "reshapes of vectors along the channels that arithmetic broadcasts",
        of: &[BinaryOp::TYPE],
        apply: place::broadcast_vectors,
    },
    NetPass {
        name: "remove_int8_bounds",
        about: "bounds beyond those to which int8 layers round",
        of: &[Clip::TYPE],
        apply: int8::remove_bounds,
    },
    NetPass {
        name: "fuse_requantization",
        about: "int8 values between convolutions in int8",
        of: &[Convolution::TYPE, ConvolutionDepthWise::TYPE],
        apply: int8::fuse_requantization,
    },
    NetPass {
        name: "use_all_int8_values",
        about: "all integers of eight bits for values on one side of zero",
        of: &[Convolution::TYPE, ConvolutionDepthWise::TYPE],
        apply: int8::use_all_values,
    },
    NetPass {
        name: "keep_state_forms",
        about: "reshapes of the states of recurrent layers",
        of: &[GRU::TYPE, LSTM::TYPE, RNN::TYPE],
        apply: state::keep_state_forms,
    },
    NetPass {
        name: "merge_reshapes",
        about: "reshapes of reshapes, and permutations that move no elements",
        of: VIEWS,
        apply: view::merge_views,
    },
    NetPass {
        name: "sink_reshapes",
        about: "elementwise functions between two reshapes, moved before both",
        of: VIEWS,
        apply: view::sink_views,
    },
];

impl Net {
    /// Applies the passes that are not in `skip` to a fixpoint. Returns the passes that changed the net, each
    /// with the number of layers after it.
    pub(crate) fn optimise(&mut self, skip: &BTreeSet<String>) -> Result<Vec<(&'static str, usize)>> {
        let mut done = Vec::new();
        let tried: Vec<&NetPass> = NET_PASSES.iter().filter(|pass| !skip.contains(pass.name)).collect();
        let (mut types, mut wiring) = (self.types(), None);
        apply_to_fixpoint(&tried, |pass| {
            if !pass.of.iter().any(|type_name| types.contains(type_name)) {
                return Ok(false);
            }
            let wires = wiring.get_or_insert_with(|| Wiring::of(self));
            let changed = (pass.apply)(self, wires)?;
            if changed {
                self.remove_unread();
                (types, wiring) = (self.types(), None);
                done.push((pass.name, self.layers.len()));
            }
            Ok(changed)
        })?;
        Ok(done)
    }

    /// Returns the layer types in the net.
    fn types(&self) -> BTreeSet<&'static str> {
        self.layers.iter().map(|layer| layer.layer.type_name()).collect()
    }
}
