//! Passes over the net, which make it smaller and faster and keep its results.
//!
//! They run before [`Net::split`], so a blob may have any number of readers.

mod activation;
mod bias;
#[cfg(test)]
mod cases;
mod int8;
mod pad;
mod single_position;
mod slice;
mod state;
mod unread;
mod view;
mod window;
mod wiring;

use std::collections::BTreeSet;

use super::Net;
use super::layer::{
    BinaryOp, Clip, Convolution, ConvolutionDepthWise, Crop, ExpandDims, Flatten, GRU, HardSwish, LSTM, Mish,
    PReLU, Permute, RNN, ReLU, Reshape, Sigmoid, Squeeze,
};
use crate::common::fixpoint::apply_to_fixpoint;
use crate::error::Result;
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

/// A row of the list of passes: the function, which has the name of the pass; the layer types; the
/// description.
macro_rules! pass {
    ($module:ident::$name:ident [$($layer:ident)*] $about:literal) => {
        NetPass { name: stringify!($name), about: $about, of: &[$($layer::TYPE),*], apply: $module::$name }
    };
}

/// All passes, in the order of their application.
pub const NET_PASSES: &[NetPass] = &[
    pass!(activation::fuse_layer_activation [Clip HardSwish Mish PReLU ReLU Sigmoid]
        "elementwise functions, fused into the layer before"),
    pass!(bias::fuse_layer_bias [BinaryOp] "constant terms, fused into the product before"),
    pass!(slice::join_crops [Crop] "crops that partition a blob, as one layer"),
    pass!(single_position::flatten_position [Convolution] "convolutions at a single position, as inner products"),
    pass!(single_position::broadcast_channels [BinaryOp]
        "reshapes of vectors along the channels that arithmetic broadcasts"),
    pass!(int8::remove_int8_bounds [Clip] "bounds beyond those to which int8 layers round"),
    pass!(int8::fuse_requantization [Convolution ConvolutionDepthWise]
        "int8 values between convolutions in int8"),
    pass!(int8::use_all_int8_values [Convolution ConvolutionDepthWise]
        "all integers of eight bits for values on one side of zero"),
    pass!(state::keep_state_forms [GRU LSTM RNN] "reshapes of the states of recurrent layers"),
    pass!(view::merge_reshapes [ExpandDims Flatten Permute Reshape Squeeze]
        "reshapes of reshapes, and permutations that move no elements"),
    pass!(view::merge_permutes [Permute] "consecutive permutations, as one"),
    pass!(view::sink_reshapes [ExpandDims Flatten Permute Reshape Squeeze]
        "elementwise functions between two reshapes, moved before both"),
    pass!(window::transpose_few_outputs [Convolution] "convolutions of few outputs, as transposed ones"),
    pass!(window::split_depthwise [ConvolutionDepthWise]
        "depthwise convolutions of several outputs for each channel, as one for each"),
    pass!(pad::pad_channels [Convolution] "channels between convolutions, padded for packed code"),
];

/// The passes that replace convolutions by layers of other types or other outputs.
pub(crate) const OTHER_CONVOLUTIONS: [&str; 3] = ["transpose_few_outputs", "split_depthwise", "pad_channels"];

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
