//! The ranges of values, from constants, types and the rules of operators.

use num_traits::AsPrimitive;

use super::{Access, Call, RangeRule};
use crate::error::Result;
use crate::graph::{Graph, ValueId};
use crate::tensor::{Dim, Range};

impl Call<'_> {
    /// Returns the range of input `index`.
    pub fn range(&self, index: usize) -> Range {
        let id = self.node().input(index);
        id.map_or(Range::ANY, |id| range(self.graph(), id))
    }

    /// Returns whether elements of input `index` may be infinite.
    pub fn may_be_infinite(&self, index: usize) -> Result<bool> {
        Ok(self.dtype(index)?.is_float() && !self.range(index).is_finite())
    }
}

/// Returns the range of a value. It is computed once for each value on which it depends.
pub(crate) fn range(graph: &Graph, value: ValueId) -> Range {
    let mut pending = vec![value];
    while let Some(id) = pending.last().copied() {
        if graph.value(id).range.get().is_none() {
            let call = call(graph, id);
            let inputs = call.iter().flat_map(|(_, call)| call.node().inputs.iter().flatten().copied());
            let before = pending.len();
            pending.extend(inputs.filter(|input| graph.value(*input).range.get().is_none()));
            if pending.len() > before {
                continue;
            }
            // The range is computed once; a value that is set already has the same one.
            let _ = graph.value(id).range.set(compute(graph, id, call));
        }
        pending.pop();
    }
    graph.value(value).range.get().copied().unwrap_or(Range::ANY)
}

/// A rule, and the call to which it applies.
type Ruled<'a> = (RangeRule, Call<'a>);

/// Returns the rule for a value, if a call with a rule computes it.
fn call(graph: &Graph, id: ValueId) -> Option<Ruled<'_>> {
    let value = graph.value(id);
    let node =
        graph.node(value.producer.filter(|_| value.constant.is_none() && value.elements.is_none())?)?;
    let (op, call) = Call::of(graph, node)?;
    if node.outputs.first() != Some(&Some(id)) {
        return Some((op.further_range?, call));
    }
    let of_moves: Option<RangeRule> = match op.access {
        Access::View | Access::Selection => Some(first),
        _ => None,
    };
    Some((op.range.or(of_moves)?, call))
}

fn compute(graph: &Graph, id: ValueId, ruled: Option<Ruled>) -> Range {
    let value = graph.value(id);
    let of_type = value.dtype.map_or(Range::ANY, Range::of);
    if let Some(tensor) = &value.constant {
        return Range::of_tensor(tensor);
    }
    let Some((rule, call)) = ruled else { return of_type };
    let of = |input: &Option<ValueId>| input.and_then(|id| graph.value(id).range.get().copied());
    let inputs: Vec<Range> = call.node().inputs.iter().map(|id| of(id).unwrap_or(Range::ANY)).collect();
    let range = rule(&call, &inputs);
    // Integers outside of their type wrap around.
    if of_type.contains(range) { range } else { of_type }
}

/// The rule of operators whose result consists of elements of the first input.
pub(crate) fn first(_: &Call, inputs: &[Range]) -> Range {
    inputs.first().copied().unwrap_or(Range::ANY)
}

/// The rule of operators whose result consists of elements of all inputs.
pub(crate) fn all(_: &Call, inputs: &[Range]) -> Range {
    inputs.iter().copied().reduce(Range::union).unwrap_or(Range::ANY)
}

/// The rule of positions on an axis of the first input.
pub(crate) fn positions(call: &Call, _: &[Range]) -> Range {
    let mut sizes = call.shape(0).unwrap_or_default().iter().map(Dim::known);
    let longest = sizes.try_fold(0, |most: i64, size| Some(most.max(size?)));
    Range { least: 0.0, most: longest.map_or(Range::POSITIONS.most, AsPrimitive::as_) }
}

/// The rule of results from 0 to 1.
pub(crate) fn unit(_: &Call, _: &[Range]) -> Range {
    Range::UNIT
}
