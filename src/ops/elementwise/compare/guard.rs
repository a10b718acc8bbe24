//! Guards for the operands of Where that may be NaN if they are not chosen.
//!
//! In ncnn a NaN of the operand that is not chosen survives the selection by products and sums. Operators
//! whose result is NaN for some inputs therefore get a harmless input for each element that is not chosen.

use super::nan::expand_choice_with_nan;
use super::nonzero::excludes_zero;
use crate::op::{self};
use crate::ops::prelude::*;

/// The maximum number of operators between the Where and the one that is guarded.
const MAX_DEPTH: usize = 6;

/// Returns the index of an input of which some values give NaN, and a value that does not.
pub(in crate::ops) fn nan_input(graph: &Graph, node: &Node) -> Option<(usize, f32)> {
    let (index, safe) = op::find(node)?.nan?(graph, node)?;
    let value = graph.value(node.input(index)?);
    value.dtype.filter(|dtype| dtype.is_float()).map(|_| (index, safe))
}

/// Replaces the operands of a Where by guarded ones.
pub(super) fn expand_where(x: &Expand) -> Result<bool> {
    if expand_choice_with_nan(x)? {
        return Ok(true);
    }
    let value = |side: usize| x.node().input(side);
    let guard = |side: usize| {
        value(side).and_then(|value| guarded(x, side, value, Some((x.node(), side)), MAX_DEPTH))
    };
    let (a, b) = (guard(1), guard(2));
    if a.is_none() && b.is_none() {
        return Ok(false);
    }
    let (a, b) = (a.unwrap_or_else(|| x.operand(1)), b.unwrap_or_else(|| x.operand(2)));
    x.output(0, x.operand(0).select(a, b));
    Ok(true)
}

/// Returns a copy of `value`, input `side` of the Where, with guarded inputs; `None` if it needs no guard.
/// `choice` is a Where that reads it, and as which input.
fn guarded<'x>(
    x: &'x Expand,
    side: usize,
    value: ValueId,
    choice: Option<(&Node, usize)>,
    depth: usize,
) -> Option<Expr<'x>> {
    let graph = x.graph();
    let producer = graph.producer(value);
    // Booleans are never NaN.
    let forwards_nan = |node: &&Node| {
        matches!(op::access(node), Access::Elementwise | Access::Broadcast)
            && graph.value(value).dtype != Some(DType::Bool)
    };
    let node = producer.filter(|_| depth > 0).filter(forwards_nan)?;
    let divides_by = |divisor| node.is("Div") && node.inputs.get(1) == Some(&Some(divisor));
    // A quotient of which only elements by numbers other than 0 are chosen needs no guard.
    let is_safe = |at: usize| {
        choice.zip(node.input(at)).is_some_and(|((choice, side), divisor)| {
            divides_by(divisor) && excludes_zero(graph, choice, side, divisor)
        })
    };
    let nan_input = nan_input(graph, node).filter(|(at, _)| !is_safe(*at));
    let mut changed = false;
    let inputs = node.inputs.iter().enumerate().map(|(index, input)| {
        let input = (*input)?;
        let guard = match nan_input {
            Some((at, safe)) if at == index && !is_chosen_by(graph, input, x.node()) => {
                Some(harmless(x, side, input, safe))
            }
            _ => {
                let choice = (node.is("Where") && index > 0).then_some((node, index));
                guarded(x, side, input, choice, depth - 1)
            }
        };
        changed |= guard.is_some();
        Some(guard.unwrap_or_else(|| x.make.value(input)))
    });
    let inputs: Vec<Option<Expr>> = inputs.collect();
    changed.then(|| x.make.only_copy_of(node, &inputs).unwrap_or_else(|error| x.make.fail(error)))
}

/// Returns whether a value is the result of a Where on the same condition.
fn is_chosen_by(graph: &Graph, value: ValueId, choice: &Node) -> bool {
    let producer = graph.producer(value);
    producer.is_some_and(|node| node.is("Where") && node.inputs.first() == choice.inputs.first())
}

/// Returns `value` at elements at which input `side` is chosen, and `safe` elsewhere.
fn harmless<'x>(x: &'x Expand, side: usize, value: ValueId, safe: f32) -> Expr<'x> {
    let (condition, value) = (x.operand(0), x.make.value(value));
    if side == 1 { condition.select(value, safe) } else { condition.select(safe, value) }
}
