//! Conditions of loops that depend only on constants and a counter: Keras writes its recurrent layers as
//! loops that run while a step counter is below the length of the sequence.

use std::collections::{BTreeMap, BTreeSet};

use super::undecided;
use crate::common::limits;
use crate::error::{At, Result};
use crate::graph::{Attribute, Graph, Node, ValueId};

use crate::op::{self, Attributes};
use crate::pass::expand::Expand;
use crate::tensor::{Array, DType, Tensor};

/// Operators that compute one element from one element.
const COUNTING: &[&str] = &[
    "Abs",
    "Add",
    "And",
    "Cast",
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

/// The condition of a loop, evaluated for each iteration.
pub(super) struct Counter<'a> {
    body: &'a Graph,
    /// The nodes on which the condition depends, in topological order.
    nodes: Vec<&'a Node>,
    /// Values that are the same in each iteration.
    constants: BTreeMap<ValueId, Array>,
    /// The states on which the condition depends: input and output of the body, and the value before the next
    /// iteration.
    states: Vec<(ValueId, ValueId, Array)>,
}

impl<'a> Counter<'a> {
    /// Returns the counter of a Loop with this body, or `None` if its condition depends on values that are
    /// not constant.
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
                // The iteration number and the condition itself are set in each iteration.
                if index >= 2 {
                    let Some(start) = number(x.constant(index))? else { return Ok(None) };
                    let next = *body.outputs.at(index - 1)?;
                    counter.states.push((id, next, start));
                    open.push(next);
                }
            } else if let Some(constant) = number(outer.or(body.value(id).constant.as_ref()))? {
                counter.constants.insert(id, constant);
            } else {
                let producer = body.value(id).producer;
                let Some(node) = producer.and_then(|producer| body.node(producer)) else { return Ok(None) };
                if let ("Constant", Some(Attribute::Tensor(tensor))) =
                    (node.op_type.as_str(), node.attributes.get("value"))
                {
                    let Some(constant) = number(Some(tensor))? else { return Ok(None) };
                    counter.constants.insert(id, constant);
                    continue;
                }
                if !node.domain.is_empty() || !COUNTING.contains(&node.op_type.as_str()) {
                    return Ok(None);
                }
                open.extend(read(node));
                producers.extend(producer);
            }
        }
        let nodes = body.nodes().filter(|(id, _)| producers.contains(id));
        counter.nodes = nodes.map(|(_, node)| node).collect();
        Ok(Some(counter))
    }

    /// Returns the number of iterations: `most`, unless the condition ends the loop earlier. Counting stops
    /// above the limit of unrolling.
    pub fn rounds(mut self, most: i64) -> Result<i64> {
        let mut round = 0;
        while round < most {
            super::check_rounds(round, self.body)?;
            let goes_on = self.goes_on(round)?;
            round += 1;
            if !goes_on {
                break;
            }
        }
        Ok(round)
    }

    /// Returns whether the loop continues after `round`.
    fn goes_on(&mut self, round: i64) -> Result<bool> {
        let mut values = self.constants.clone();
        let scalar = |value| Array::i64(ndarray::ArrayD::from_elem(ndarray::IxDyn(&[]), value));
        let told = [scalar(round), scalar(1).cast(DType::Bool)?];
        values.extend(self.body.inputs.iter().copied().zip(told));
        values.extend(self.states.iter().map(|(input, _, value)| (*input, value.clone())));
        for node in &self.nodes {
            let op = op::find_handled(node)?;
            let Some(evaluate) = op.fold else { return Err(undecided()) };
            let inputs: Vec<Option<Array>> =
                node.inputs.iter().map(|id| id.and_then(|id| values.get(&id).cloned())).collect();
            let made = evaluate(&Attributes::new(node, op), &inputs).map_err(|e| e.at_node(|| node.at()))?;
            // A value that gains an axis in each iteration.
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

fn read(node: &Node) -> impl Iterator<Item = ValueId> + '_ {
    node.inputs.iter().copied().flatten()
}

/// Returns the element of a constant of one element.
fn number(tensor: Option<&Tensor>) -> Result<Option<Array>> {
    let one = |tensor: &&Tensor| tensor.shape().iter().all(|size| *size == 1);
    tensor.filter(one).map(Tensor::load).transpose()
}
