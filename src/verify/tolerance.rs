//! The tolerance of a window, by how its net and its model round.

use super::compare::Tolerance;
use super::noise::rounds;
use super::window::Window;
use super::{Evaluator, Run};
use crate::graph::NodeId;
use crate::ncnn::{Layer, Net};
use crate::tensor::DType;

/// The tolerance relative to the largest magnitude: some units of float32, which the model computes in.
const RELATIVE: f64 = 1e-5;
/// The tolerance of windows whose weights are stored in float16.
const RELATIVE_HALF: f64 = 4e-3;
/// The operators of which onnxruntime rounds the angles to float32, as the weights of nets do.
const ROUGH: [&str; 2] = ["DFT", "STFT"];
/// The tolerance of these.
const RELATIVE_ANGLES: f64 = 1e-3;
/// The distance of the smallest numbers of float16.
const HALF_STEP: f64 = 6e-8;
/// The tolerance of values in bfloat16.
const RELATIVE_BFLOAT: f64 = 0.016;
/// The tolerance of windows whose weights are stored as integers.
const RELATIVE_INT8: f64 = 0.1;
/// The same for integers of 4 bits.
const RELATIVE_INT4: f64 = 0.3;
/// The rounding of a state of a recurrent operator, which is at most 1: some units of float32.
const STATE_STEP: f64 = 5e-7;
/// The operators with such states.
const RECURRENT: [&str; 3] = ["GRU", "LSTM", "RNN"];

/// How the weights of a window are stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stored {
    Single,
    Half,
    /// Integers of at least so many bits.
    Integers(usize),
}

impl Stored {
    fn relative(self) -> f64 {
        match self {
            Stored::Single => RELATIVE,
            Stored::Half => RELATIVE_HALF,
            Stored::Integers(4) => RELATIVE_INT4,
            Stored::Integers(_) => RELATIVE_INT8,
        }
    }
}

impl Window {
    /// Returns how the weights are stored.
    pub(super) fn stored(&self, net: &Net) -> Stored {
        let bits = |layer: &Layer| match layer.block_weight() {
            Some((format, _)) => Some(format.bits),
            // The tables of Embed, too.
            None => (!layer.int8_weights().is_empty()).then_some(8),
        };
        let mut weights = self.net_layers(net).flat_map(|layer| layer.layer.weights());
        if let Some(bits) = self.net_layers(net).filter_map(|layer| bits(&layer.layer)).min() {
            Stored::Integers(bits)
        } else if weights.any(|weight| weight.tensor.dtype() == DType::F16) {
            Stored::Half
        } else {
            Stored::Single
        }
    }

    /// Returns the tolerance of a value of a type.
    pub(super) fn tolerance(&self, run: &Run, dtype: DType) -> Tolerance {
        let graph = &run.subject.model.graph;
        // The model rounds to the types of its values.
        let outputs = self.graph_nodes(graph).flat_map(|node| &node.outputs).flatten();
        let computed = outputs.filter_map(|id| run.types.get(id).copied());
        let is_any_of = |names: &[&str]| self.graph_nodes(graph).any(|node| node.is_one_of(names));
        let mut relative = self.stored(run.subject.net).relative();
        for dtype in computed.chain([dtype]) {
            relative = relative.max(match dtype {
                DType::F16 => RELATIVE_HALF,
                DType::BF16 => RELATIVE_BFLOAT,
                _ => 0.0,
            });
        }
        if is_any_of(&ROUGH) {
            relative = relative.max(RELATIVE_ANGLES);
        }
        // The engine rounds inside of a node, where the net does not.
        let hides_rounding = |id: &NodeId| {
            graph.node(*id).is_some_and(|node| rounds(node) && !node.op_type.ends_with("QuantizeLinear"))
                && run.evaluators.get(id) == Some(&Evaluator::Engine)
        };
        if run.subject.drops_rounding && self.nodes.iter().flatten().any(hides_rounding) {
            relative = relative.max(RELATIVE_INT8);
        }
        let of_type = if dtype == DType::F16 { HALF_STEP } else { 0.0 };
        let of_state = if is_any_of(&RECURRENT) { STATE_STEP } else { 0.0 };
        Tolerance { relative, absolute: of_type.max(of_state), whole: !dtype.is_float() }
    }
}
