//! Rewritings of a net that users know by name: they leave what it computes and make it smaller and faster in the runtime.
//!
//! They run before [`Net::split`], while a blob may have any number of readers.

mod activation;
mod bias;
mod place;
mod slice;
mod state;
mod view;
mod wiring;

use std::collections::BTreeSet;

use super::layer::{
    BinaryOp, Clip, Convolution, Crop, GRU, HardSwish, LSTM, Mish, PReLU, RNN, ReLU, Sigmoid,
};
use super::{Layer, Net, NetLayer};
use crate::common::fixpoint::apply_to_fixpoint;
use crate::common::index::IndexSet;
use crate::error::Result;
use view::VIEWS;
use wiring::Wiring;

/// A rewriting of the whole net.
#[derive(Clone, Copy, Debug)]
pub struct NetPass {
    /// What users call it.
    pub name: &'static str,
    /// What it does, in a line.
    pub about: &'static str,
    /// Types of layers of which all that it finds has one; a net without any of them is not looked at.
    of: &'static [&'static str],
    /// Does it wherever it can, given the wiring of the net; the answer is whether anything changed. Layers that nobody reads any more
    /// may be left behind.
    apply: fn(&mut Net, &Wiring) -> Result<bool>,
}

/// All passes, in the order of their application.
pub const NET_PASSES: &[NetPass] = &[
    NetPass {
        name: "fuse_layer_activation",
        about: "functions of each element that the layer before applies itself",
        of: &[Clip::TYPE, HardSwish::TYPE, Mish::TYPE, PReLU::TYPE, ReLU::TYPE, Sigmoid::TYPE],
        apply: activation::fuse_activations,
    },
    NetPass {
        name: "fuse_layer_bias",
        about: "constants that the product before adds itself",
        of: &[BinaryOp::TYPE],
        apply: bias::fuse_biases,
    },
    NetPass {
        name: "join_crops",
        about: "crops that take a blob apart as one layer",
        of: &[Crop::TYPE],
        apply: slice::join_crops,
    },
    NetPass {
        name: "flatten_place",
        about: "convolutions of a single place as inner products",
        of: &[Convolution::TYPE],
        apply: place::convolutions_of_a_place,
    },
    NetPass {
        name: "broadcast_channels",
        about: "vectors lined up with channels by the arithmetic that reads them",
        of: &[BinaryOp::TYPE],
        apply: place::vectors_of_channels,
    },
    NetPass {
        name: "keep_state_forms",
        about: "states of recurrent layers in the form in which they are given",
        of: &[GRU::TYPE, LSTM::TYPE, RNN::TYPE],
        apply: state::keep_state_forms,
    },
    NetPass {
        name: "merge_reshapes",
        about: "reshapes of reshapes, and orders of axes that move nothing",
        of: VIEWS,
        apply: view::merge_views,
    },
    NetPass {
        name: "sink_reshapes",
        about: "functions of each element before a reshape that another one follows",
        of: VIEWS,
        apply: view::sink_views,
    },
];

impl Net {
    /// Applies the passes that are not left out until none finds anything to do. Gives those that did, and the layers that each left.
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

    /// The types of layers that there are.
    fn types(&self) -> BTreeSet<&'static str> {
        let mut types = BTreeSet::new();
        types.extend(self.layers.iter().map(|layer| layer.layer.type_name()));
        types
    }

    /// Removes layers whose results nobody reads.
    pub(crate) fn remove_unread(&mut self) {
        let mut read: IndexSet<_> = self.outputs.iter().map(|output| output.blob).collect();
        let is_needed = |layer: &NetLayer, read: &IndexSet<_>| {
            matches!(layer.layer, Layer::Input(_)) || layer.tops.iter().any(|top| read.contains(*top))
        };
        for layer in self.layers.iter().rev() {
            if is_needed(layer, &read) {
                read.extend(layer.bottoms.iter().copied());
            }
        }
        self.layers.retain(|layer| is_needed(layer, &read));
    }
}
