//! How far the rounding of a model, and numbers that are not finite, change what follows from them.

use std::collections::BTreeSet;
use std::sync::Arc;

use ndarray::ArrayD;

use super::compare::EXACT;
use super::cut::{Reached, positions};
use super::draw::Random;
use super::tolerance::Stored;
use super::window::Window;
use super::{Assumed, Run, Values, all_floats, as_mat};
use crate::error::{Result, unsupported};
use crate::graph::{Node, NodeId, ValueId};
use crate::op;
use crate::reference::Mat;
use crate::tensor::{Array, DType, Range};

/// The part by which elements change to see how far their rounding changes those that follow.
const ROUNDING: f32 = 2e-7;
/// The same for weights that are stored in float16.
const ROUNDING_HALF: f32 = 5e-4;
/// The factor of that change in the tolerance.
const NOISE: f64 = 4.0;
/// Products of two numbers of this magnitude, 2^64, overflow in float32.
const OVERFLOW: f32 = 18_446_744_073_709_551_616.0;

/// The most times that they are changed.
const ROUNDED: u64 = 12;
/// The same where a node may jump: a step of Floor shows only if an element crosses it.
const ROUNDED_AT_JUMPS: u64 = 64;
/// The same for a value that is computed from the inputs of the model.
const ROUNDED_FROM_INPUTS: u64 = 8;

/// From what the nodes compute a value.
pub(super) struct Origin {
    nodes: Vec<NodeId>,
    /// Values with their elements, and whether these are rounded.
    inputs: Vec<(ValueId, Arc<Array>, bool)>,
    /// How many times they are changed.
    pub changes: u64,
}

impl Window {
    /// Returns the nodes between the inputs and the end of the window, or else those between the inputs
    /// of the model and the end.
    pub(super) fn origin(&self, run: &Run, inputs: &[Arc<Array>]) -> Origin {
        if let Some(nodes) = &self.nodes {
            let pairs = self.inputs.iter().zip(inputs);
            let inputs = pairs.map(|(input, array)| (input.value, Arc::clone(array), input.varies)).collect();
            let mut of_graph = nodes.iter().filter_map(|id| run.subject.model.graph.node(*id));
            let changes = if of_graph.any(is_discontinuous) { ROUNDED_AT_JUMPS } else { ROUNDED };
            return Origin { nodes: nodes.clone(), inputs, changes };
        }
        let graph = &run.subject.model.graph;
        let nodes = Reached::of(graph, |_| false, self.value).in_order(&positions(graph));
        let inputs = run.inputs.iter().map(|(value, array)| (*value, Arc::clone(array), true)).collect();
        Origin { nodes, inputs, changes: ROUNDED_FROM_INPUTS }
    }

    /// Changes the elements of the inputs, and the values of the nodes, by their rounding. `noise` becomes at
    /// least the change of each element of the value.
    pub(super) fn add_noise(
        &self,
        run: &Run,
        (origin, value): (&Origin, &ArrayD<f64>),
        seed: u64,
        noise: &mut ArrayD<f64>,
    ) -> Result<()> {
        let graph = &run.subject.model.graph;
        let (mut random, is_whole) = (Random::new(seed), seed < ROUNDED);
        let changed = origin.inputs.iter().map(|(value, array, is_rounded)| match is_rounded {
            true => (*value, Arc::new(random.rounded(array, ROUNDING, is_whole))),
            false => (*value, Arc::clone(array)),
        });
        let mut values = Values::new(graph, changed.collect::<Vec<_>>());
        if self.stored(run.subject.net) == Stored::Half {
            let read = origin.nodes.iter().filter_map(|id| graph.node(*id)).flat_map(Node::reads);
            for value in read.collect::<BTreeSet<_>>() {
                if let Some(constant) = &graph.value(value).constant {
                    let rounded = random.rounded(&constant.load()?, ROUNDING_HALF, is_whole);
                    values.arrays.insert(value, Arc::new(rounded));
                }
            }
        }
        let mut rounded = |array: Array| {
            // A net without the rounding of the model has no levels, which are whole numbers.
            if !run.subject.drops_rounding && is_exact(&array) {
                return array;
            }
            let array = random.rounded(&array, ROUNDING, is_whole);
            if run.subject.drops_rounding { random.dithered(&array) } else { array }
        };
        for id in &origin.nodes {
            values.compute(run.engine, *id, &mut rounded)?;
        }
        let other = as_mat(values.get(self.value)?.as_ref(), &self.sizes, self.order)?;
        noise.zip_mut_with(&(&other - value), |most: &mut f64, change: &f64| {
            // Rounding decides whether there is a number.
            *most = if change.is_nan() { f64::INFINITY } else { most.max(NOISE * change.abs()) };
        });
        Ok(())
    }

    /// Nets are right for finite floats.
    ///
    /// # Errors
    ///
    /// `Unsupported` if a node reads a constant that is not finite, or an element that is too large for sums
    /// of products, or if a node other than the last computes what is not finite from finite elements.
    pub(super) fn check_finite(&self, run: &Run, nodes: &[NodeId], inputs: &[Arc<Array>]) -> Result<()> {
        let graph = &run.subject.model.graph;
        let mut values = self.input_values(graph, inputs);
        for (id, node) in nodes.iter().filter_map(|id| Some((*id, graph.node(*id)?))) {
            values.compute(run.engine, id, &mut |array| array)?;
            let is_elementwise =
                op::find(node).is_some_and(|op| op.access == op::Access::Broadcast && op.differs.is_empty());
            let is_permitted = |x: f32| x.abs() < OVERFLOW || (is_elementwise && !x.is_nan());
            let mut is_finite = true;
            for value in node.reads() {
                let array = values.get(value)?;
                let are_finite = all_floats(&array, f32::is_finite);
                is_finite &= are_finite;
                let is_judged = are_finite || graph.value(value).constant.is_some();
                if is_judged && !all_floats(&array, is_permitted) {
                    unsupported!("elements of \"{}\" are too large", graph.value(value).name);
                }
            }
            let inner = node.outputs.iter().flatten().filter(|value| **value != self.value);
            for value in inner.filter(|_| is_finite) {
                if !all_floats(values.get(*value)?.as_ref(), f32::is_finite) {
                    unsupported!("\"{}\" is not finite", graph.value(*value).name);
                }
            }
        }
        Ok(())
    }
}

/// Returns whether all elements are whole numbers that float32 represents: counts, decisions and exponents,
/// which no rounding changes. Powers of negative numbers have whole exponents, and counts are compared.
fn is_exact(array: &Array) -> bool {
    all_floats(array, |x| x.fract() == 0.0 && f64::from(x.abs()) <= EXACT)
}

/// Returns whether rounding may change an element of a node by a whole step.
fn is_discontinuous(node: &Node) -> bool {
    node.is("Hardmax") || op::find(node).is_none_or(|op| op.discontinuous.is_some() || op.rounds)
}

/// Returns whether a node rounds to levels.
pub(super) fn rounds(node: &Node) -> bool {
    op::find(node).is_some_and(|op| op.rounds)
}

/// Returns whether numbers are beyond the range of a type of wide integers, where the model wraps them, or
/// beyond the integers that the net is assumed to have.
pub(super) fn overflows(numbers: &Mat, dtype: DType, assumed: Option<Assumed>) -> bool {
    let range = match assumed {
        Some(Assumed::Exact) => Range::EXACT_INTEGERS,
        _ if dtype.is_wide_int() => Range::of(dtype),
        _ => Range::ANY,
    };
    numbers.iter().any(|x| *x < range.least || *x > range.most)
}
