//! The body of a loop: values that are the same in each step, counters, states, and elements of sequences.

use std::collections::{BTreeMap, BTreeSet};

use super::super::branch::inferred;
use super::super::unroll::{MAX_VIEWS, whole};
use crate::graph::Capture;
use crate::op::range::range;
use crate::ops::prelude::*;
use crate::pass::pattern::{axis, constant_ints, number, producer, scalar};
use crate::tensor::Shape;

/// The most nodes of a body that is read: formulas are followed node by node, and cells have less than a
/// hundred.
const MAX_NODES: usize = 1000;

/// A value that a step gives to the next one.
#[derive(Clone, Copy)]
pub(super) struct State {
    pub input: ValueId,
    pub next: ValueId,
    /// The value of the graph before the first step.
    pub start: ValueId,
    /// The output of the node that is the last state.
    pub output: usize,
}

/// A value that is the same in each step: one of the graph, or a constant of the body.
#[derive(Clone)]
pub(super) enum Fixed {
    Outer(ValueId),
    Inner(Tensor),
}

/// What ends a loop.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Test {
    Never,
    /// A counter that reaches the length of the sequence.
    AtEnd,
}

pub(super) struct Body<'a> {
    pub x: &'a Expand<'a>,
    pub graph: Graph,
    /// The values of the graph that values of the body are.
    outer: BTreeMap<ValueId, ValueId>,
    /// The integers that are 0 in the first step, 1 in the second, and so on.
    pub counters: BTreeSet<ValueId>,
    pub states: Vec<State>,
    /// The sequences of which values of the body are elements.
    pub elements: BTreeMap<ValueId, ValueId>,
    /// The outputs of the node that have an element for each step, and these elements.
    pub scanned: Vec<(usize, ValueId)>,
    /// The states that do not change, and the states that count.
    pub plain: Vec<State>,
    /// Whether the last element is read first, and written last.
    pub is_reversed: bool,
}

impl<'a> Body<'a> {
    /// Reads a body with these states. Values that do not change are known, and constants are folded.
    /// `counters` are its inputs that count the steps; `None` if its values cannot be inferred.
    pub fn read(
        x: &'a Expand<'a>,
        graph: &Graph,
        states: Vec<State>,
        counters: impl IntoIterator<Item = ValueId>,
    ) -> Option<Body<'a>> {
        if graph.node_count() > MAX_NODES {
            return None;
        }
        let mut body = Body {
            x,
            graph: graph.clone(),
            outer: BTreeMap::new(),
            counters: counters.into_iter().collect(),
            states,
            elements: BTreeMap::new(),
            scanned: Vec::new(),
            plain: Vec::new(),
            is_reversed: false,
        };
        let is_same = |state: &State| body.root(state.next) == state.input;
        let (same, states): (Vec<State>, Vec<State>) = body.states.iter().partition(|state| is_same(state));
        let captures = same.iter().map(|state| Capture { outer: state.start, inner: state.input });
        body.graph.captures.extend(captures);
        body.graph.inputs.retain(|id| same.iter().all(|state| state.input != *id));
        body.graph = inferred(x, &body.graph).ok()?.0;
        body.outer = body.graph.captures.iter().map(|capture| (capture.inner, capture.outer)).collect();
        let is_counter = |state: &State| {
            let is_scalar = x.graph().value(state.start).shape.as_ref().is_some_and(|shape| shape.is_empty());
            is_scalar && body.succeeds(state.next, state.input) && scalar(x.graph(), state.start) == Some(0.0)
        };
        let (counted, states): (Vec<State>, Vec<State>) = states.iter().partition(|state| is_counter(state));
        body.counters.extend(counted.iter().map(|state| state.input));
        (body.plain, body.states) = ([same, counted].concat(), states);
        Some(body)
    }

    /// Returns the value that an Identity hands on.
    pub fn root(&self, mut id: ValueId) -> ValueId {
        while let Some(node) = producer(&self.graph, id, "Identity") {
            let Some(source) = node.input(0) else { break };
            id = source;
        }
        id
    }

    /// Returns the node that computes a value, if it is `op_type`.
    pub fn made_by(&self, id: ValueId, op_type: &str) -> Option<&Node> {
        producer(&self.graph, self.root(id), op_type)
    }

    /// Returns both operands of a node of two inputs, in both orders.
    pub fn operands(&self, id: ValueId, op_type: &str) -> [Option<[ValueId; 2]>; 2] {
        let node = self.made_by(id, op_type);
        let pair = node.and_then(|node| Some([node.input(0)?, node.input(1)?]));
        [pair, pair.map(|[a, b]| [b, a])]
    }

    /// Returns a value that is the same in each step.
    pub fn fixed(&self, id: ValueId) -> Option<Fixed> {
        let id = self.root(id);
        if let Some(outer) = self.outer.get(&id) {
            return Some(Fixed::Outer(*outer));
        }
        if let Some(tensor) = &self.graph.value(id).constant {
            return Some(Fixed::Inner(tensor.clone()));
        }
        // Weights may be stored in another precision than the cell computes in.
        let source = self.fixed(producer(&self.graph, id, "Cast")?.input(0)?)?;
        self.dtype_of(&source).is_some_and(DType::is_float).then_some(source)
    }

    /// Returns the sequence of which a value is the element of the step, along the first axis.
    pub fn sequence(&self, id: ValueId) -> Option<ValueId> {
        let id = self.root(id);
        if let Some(sequence) = self.elements.get(&id) {
            return Some(*sequence);
        }
        let node = producer(&self.graph, id, "Gather")?;
        let Some(Fixed::Outer(sequence)) = self.fixed(node.input(0)?) else { return None };
        let rank = self.x.graph().value(sequence).shape.as_ref()?.len();
        let index = self.root(node.input(1)?);
        // A list of one index would leave an axis.
        let is_scalar = self.graph.value(index).shape.as_ref().is_none_or(|shape| shape.is_empty());
        (axis(node, 0, rank)? == 0 && is_scalar && self.counters.contains(&index)).then_some(sequence)
    }

    /// Returns the first size of a value of the graph.
    pub fn length(&self, sequence: ValueId) -> Option<&'a Dim> {
        self.x.graph().value(sequence).shape.as_ref()?.first()
    }

    /// Returns whether a value of the graph is 0 everywhere.
    pub fn is_zero(&self, outer: ValueId) -> bool {
        let range = range(self.x.graph(), outer);
        range.least == 0.0 && range.most == 0.0
    }

    /// Returns the numbers of a constant of the body or of the graph.
    pub fn ints(&self, id: ValueId) -> Option<Vec<i64>> {
        match self.fixed(id)? {
            Fixed::Outer(outer) => constant_ints(self.x.graph(), outer),
            Fixed::Inner(tensor) => tensor.load_listed().ok()?.int_list().ok(),
        }
    }

    /// Returns the numbers of a small constant of the body or of the graph.
    pub fn floats(&self, id: ValueId) -> Option<Vec<f32>> {
        let tensor = match self.fixed(id)? {
            Fixed::Outer(outer) => self.x.graph().value(outer).constant.clone()?,
            Fixed::Inner(tensor) => tensor,
        };
        if tensor.len() > limits::LOOKED_AT {
            return None;
        }
        tensor.load_listed().ok()?.float_list().ok()
    }

    /// Returns the shape of a value that is the same in each step.
    pub fn shape_of(&self, fixed: &Fixed) -> Option<Shape> {
        match fixed {
            Fixed::Outer(id) => self.x.graph().value(*id).shape.clone(),
            Fixed::Inner(tensor) => Some(tensor.shape().into()),
        }
    }

    /// Returns the element type of a value that is the same in each step.
    pub fn dtype_of(&self, fixed: &Fixed) -> Option<DType> {
        match fixed {
            Fixed::Outer(id) => self.x.graph().value(*id).dtype,
            Fixed::Inner(tensor) => Some(tensor.dtype()),
        }
    }

    /// Returns a value that is the same in each step.
    pub fn expr(&self, fixed: &Fixed) -> Expr<'a> {
        match fixed {
            Fixed::Outer(id) => self.x.make.value(*id),
            Fixed::Inner(tensor) => self.x.make.tensor(tensor.clone()),
        }
    }

    /// Returns whether `next` is `counter + 1`.
    fn succeeds(&self, next: ValueId, counter: ValueId) -> bool {
        self.operands(next, "Add")
            .into_iter()
            .flatten()
            .any(|[from, by]| self.root(from) == counter && self.ints(by).is_some_and(|list| list == [1]))
    }

    /// Returns the test that ends the loop: the condition of the body is met until then. `None` for others.
    pub fn last_test(&self, steps: &Dim) -> Option<Test> {
        self.test(*self.graph.outputs.first()?, steps)
    }

    fn test(&self, condition: ValueId, steps: &Dim) -> Option<Test> {
        let condition = self.root(condition);
        if self.graph.inputs.get(1) == Some(&condition) && !self.counters.contains(&condition) {
            return Some(Test::Never);
        }
        if let Some(node) = producer(&self.graph, condition, "Cast") {
            return self.test(node.input(0)?, steps);
        }
        if let [Some([a, b]), _] = self.operands(condition, "And") {
            return Some(self.test(a, steps)?.max(self.test(b, steps)?));
        }
        if let [Some([count, bound]), _] = self.operands(condition, "Less") {
            if self.bound(bound)? != *steps {
                return None;
            }
            let count = self.uncast(count);
            if self.counters.contains(&count) {
                return Some(Test::Never);
            }
            let is_next = |counter: &ValueId| self.succeeds(count, *counter);
            return self.counters.iter().any(is_next).then_some(Test::AtEnd);
        }
        self.ints(condition).is_some_and(|list| list == [1]).then_some(Test::Never)
    }

    /// Returns a size that is the same in each step.
    fn bound(&self, id: ValueId) -> Option<Dim> {
        let id = self.uncast(id);
        match self.fixed(id)? {
            Fixed::Outer(outer) => number(self.x.graph(), outer),
            Fixed::Inner(_) => whole(f64::from(*self.floats(id)?.first()?)),
        }
    }

    fn uncast(&self, id: ValueId) -> ValueId {
        let mut id = self.root(id);
        while let Some(from) = producer(&self.graph, id, "Cast").and_then(|node| node.input(0)) {
            id = self.root(from);
        }
        id
    }
}

/// Returns whether a condition of the graph, before the first step, is true: 0 is less than a size.
pub(super) fn is_met_at_first(graph: &Graph, condition: ValueId, steps: &Dim) -> bool {
    is_met(graph, condition, steps, MAX_VIEWS)
}

/// As [`is_met_at_first`], for a condition of at most so many conditions in each other.
fn is_met(graph: &Graph, condition: ValueId, steps: &Dim, depth: usize) -> bool {
    if let Some(number) = scalar(graph, condition) {
        return number != 0.0;
    }
    let operands =
        |op_type| producer(graph, condition, op_type).and_then(|node| Some([node.input(0)?, node.input(1)?]));
    if let Some([a, b]) = operands("And") {
        let is_met = |condition| is_met(graph, condition, steps, depth - 1);
        return depth > 0 && is_met(a) && is_met(b);
    }
    operands("Less")
        .is_some_and(|[a, b]| scalar(graph, a) == Some(0.0) && number(graph, b).as_ref() == Some(steps))
}
