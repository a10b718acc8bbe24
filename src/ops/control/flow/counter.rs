//! Loop conditions that depend only on constants and counters: Keras exports recurrent layers as loops that
//! run while a counter is below the length of the sequence.

use std::collections::{BTreeMap, BTreeSet};

use ndarray::arr0;

use super::unroll::{check_unrolled, undecided};
use crate::graph::Attribute;
use crate::op::{self};
use crate::ops::prelude::*;

/// Operators that map single elements to single elements.
const COUNTING: &[&str] = &[
    "Abs",
    "Add",
    "And",
    "Cast",
    "CastLike",
    "Div",
    "Equal",
    "Greater",
    "GreaterOrEqual",
    "Identity",
    "Less",
    "LessOrEqual",
    "Max",
    "Min",
    "Mod",
    "Mul",
    "Neg",
    "Not",
    "Or",
    "Reshape",
    "Squeeze",
    "Sub",
    "Unsqueeze",
    "Where",
];

/// The part of a loop's body that computes the condition, evaluated iteration by iteration.
pub(super) struct Counter<'a> {
    body: &'a Graph,
    /// The nodes on which the condition depends, in topological order.
    nodes: Vec<&'a Node>,
    /// The values that are the same in each iteration.
    constants: BTreeMap<ValueId, Array>,
    /// The states that the condition needs: input and output of the body, and the value before the next
    /// iteration.
    states: Vec<(ValueId, ValueId, Array)>,
}

impl<'a> Counter<'a> {
    /// Returns the counter of a Loop with this body; `None` if the condition depends on unknown values.
    pub fn new(x: &Expand, body: &'a Graph) -> Result<Option<Counter<'a>>> {
        let mut counter = Counter { body, nodes: Vec::new(), constants: BTreeMap::new(), states: Vec::new() };
        let captures: BTreeMap<ValueId, ValueId> =
            body.captures.iter().map(|capture| (capture.inner, capture.outer)).collect();
        let mut needed = BTreeSet::new();
        let mut producers = BTreeSet::new();
        let mut open: Vec<ValueId> = body.outputs.first().copied().into_iter().collect();
        while let Some(id) = open.pop() {
            if !needed.insert(id) {
                continue;
            }
            let outer = captures.get(&id).and_then(|outer| x.graph().value(*outer).constant.as_ref());
            if let Some(index) = body.inputs.iter().position(|input| *input == id) {
                // Iteration number and condition are set in each iteration.
                if index >= 2 {
                    let Some(start) = single_element(x.constant(index))? else { return Ok(None) };
                    let next = *body.outputs.at(index - 1)?;
                    counter.states.push((id, next, start));
                    open.push(next);
                }
            } else if let Some(constant) = single_element(outer.or(body.value(id).constant.as_ref()))? {
                counter.constants.insert(id, constant);
            } else {
                let producer = body.value(id).producer;
                let Some(node) = producer.and_then(|producer| body.node(producer)) else { return Ok(None) };
                if let ("Constant", Some(Attribute::Tensor(tensor))) =
                    (node.op_type.as_str(), node.attributes.get("value"))
                {
                    let Some(constant) = single_element(Some(tensor))? else { return Ok(None) };
                    counter.constants.insert(id, constant);
                    continue;
                }
                if !node.domain.is_empty() || !COUNTING.contains(&node.op_type.as_str()) {
                    return Ok(None);
                }
                open.extend(node.inputs.iter().flatten().copied());
                producers.extend(producer);
            }
        }
        let nodes = body.nodes().filter(|(id, _)| producers.contains(id));
        counter.nodes = nodes.map(|(_, node)| node).collect();
        Ok(Some(counter))
    }

    /// Returns the number of iterations, at most `most`. Fails if they are too many to unroll.
    pub fn count(mut self, most: i64) -> Result<i64> {
        for iteration in 0..most {
            check_unrolled(iteration, self.body)?;
            if !self.continues(iteration)? {
                return Ok(iteration + 1);
            }
        }
        Ok(most.max(0))
    }

    /// Evaluates the condition after `iteration`.
    fn continues(&mut self, iteration: i64) -> Result<bool> {
        let mut values = self.constants.clone();
        let leading = [Array::i64(arr0(iteration).into_dyn()), Array::bool(arr0(true).into_dyn())];
        values.extend(self.body.inputs.iter().copied().zip(leading));
        values.extend(self.states.iter().map(|(input, _, value)| (*input, value.clone())));
        for node in &self.nodes {
            let op = op::find_handled(node)?;
            if op.fold.is_none() {
                return Err(undecided());
            }
            let inputs: Vec<Option<Array>> =
                node.inputs.iter().map(|id| id.and_then(|id| values.get(&id).cloned())).collect();
            let made = op.evaluate(node, inputs).map_err(|e| e.at_node(|| node.at()))?;
            // A body could add an axis in each iteration.
            if made.iter().any(|array| array.shape().len() > limits::AXES) {
                return Err(undecided());
            }
            for (output, array) in node.outputs.iter().zip(made) {
                values.extend(output.map(|id| (id, array)));
            }
        }
        for (_, output, state) in &mut self.states {
            *state = values.get(output).cloned().ok_or_else(undecided)?;
        }
        let condition = self.body.outputs.first().and_then(|id| values.get(id)).ok_or_else(undecided)?;
        Ok(condition.scalar_i64()? != 0)
    }
}

/// Loads a constant if it has one element.
fn single_element(tensor: Option<&Tensor>) -> Result<Option<Array>> {
    let one = |tensor: &&Tensor| tensor.shape().iter().all(|size| *size == 1);
    tensor.filter(one).map(Tensor::load).transpose()
}
