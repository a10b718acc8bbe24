//! Statements of the facts on which lowerings rely.

use super::assumption::{may_round, named};
use super::{AssumedFact, Lower, State};
use crate::graph::{Graph, Node, ValueId};
use crate::op::range::range;
use crate::op::{Access, Call, Op};
use crate::tensor::DType;

impl Lower<'_> {
    /// States that the layers of the node rely on a fact of input `index`, unless it is proved.
    pub fn assume(&self, index: usize, fact: AssumedFact) {
        if !fact.is_proved(self, index) {
            self.add_assumption(index, fact);
        }
    }

    /// States that the integers which the node reads are exact, unless their rounding changes its result by
    /// no more than a rounding, or the result does not depend on them.
    pub(super) fn assume_exact_integers(&self, op: &Op) {
        let mut outputs = self.call.node().outputs.iter().flatten();
        if outputs.all(|id| range(self.call.graph(), *id).is_one_number()) {
            return;
        }
        let fact = AssumedFact::ExactInteger;
        for index in 0..self.input_count() {
            if !fact.is_proved(self, index) && !tolerates_rounding(self, op, index) {
                self.add_assumption(index, fact);
            }
        }
    }

    /// States that the floats of the net are finite, if the node needs finite ones.
    pub(super) fn assume_finite(&self, op: &Op) {
        if self.state().assumptions.needs_finite.is_none() && op.needs_finite() {
            let unproved = (0..self.input_count()).find(|index| !AssumedFact::Finite.is_proved(self, *index));
            let value = unproved.and_then(|index| self.input_id(index).ok());
            let needed = value.map(|value| (value, self.call.node().at()));
            self.state_mut().assumptions.needs_finite = needed;
        }
    }

    /// States that the floats of the net are finite, because the layers of the node need finite elements of
    /// input `index`.
    pub(super) fn need_finite(&self, index: usize) {
        if let Ok(value) = self.input_id(index) {
            let node = self.call.node().at();
            self.state_mut().assumptions.needs_finite.get_or_insert((value, node));
        }
    }

    fn add_assumption(&self, index: usize, fact: AssumedFact) {
        if let Ok(value) = self.input_id(index) {
            self.state_mut().assumptions.add(self.call.graph(), fact, value, Some(self.call.node().at()));
        }
    }
}

impl State {
    /// States that the elements which decide sizes give those of the net.
    pub(super) fn assume_fixed_sizes(&mut self, graph: &Graph) {
        for (id, at) in &graph.replaced_by_sizes {
            let value = graph.value(*id);
            if value.constant.is_none() && value.elements.is_none() {
                self.assumptions.add(graph, AssumedFact::FixedSizes, *id, Some(at.clone()));
            }
        }
    }

    /// States that the inputs of the net are finite, if a node needs finite floats; if no input is a float,
    /// that the first value is finite that a node needs to be so, or an output: constants may have made it
    /// infinite.
    pub(super) fn assume_finite_inputs(&mut self, graph: &Graph) {
        let Some((value, node)) = self.assumptions.needs_finite.take() else { return };
        let is_float = |id: &ValueId| graph.value(*id).dtype.is_some_and(DType::is_float);
        let inputs: Vec<ValueId> = graph.variable_inputs().into_iter().filter(is_float).collect();
        if inputs.is_empty() {
            // A value without a name may depend on constants alone.
            let value = named(graph, value).or(graph.outputs.first().copied()).unwrap_or(value);
            self.assumptions.add(graph, AssumedFact::Finite, value, Some(node));
        }
        for input in inputs {
            self.assumptions.add(graph, AssumedFact::Finite, input, None);
        }
    }

    /// States that the integers of an output of the net are exact.
    pub(super) fn assume_exact_output(&mut self, graph: &Graph, id: ValueId) {
        if may_round(graph, id) {
            let producer = graph.producer(id);
            self.assumptions.add(graph, AssumedFact::ExactInteger, id, producer.map(Node::at));
        }
    }
}

/// Returns whether an integer that is rounded to float32 changes the result of a node by no more than that:
/// the result is an element of an input, or rises with it.
fn tolerates_rounding(call: &Call, op: &Op, index: usize) -> bool {
    let moves = matches!(op.access, Access::View | Access::Selection | Access::Elementwise);
    let is_transparent =
        || op.transparent.is_some_and(|is_transparent_op| is_transparent_op(call.graph(), call.node()));
    op.tolerates_rounding.map_or_else(|| moves || is_transparent(), |rule| rule(call, index))
}
