//! Guards for the operands of Where that may be NaN if they are not chosen.
//!
//! In ncnn a NaN of the operand that is not chosen survives the selection by products and sums. Operators
//! whose result is NaN for some inputs therefore get a harmless input for each element that is not chosen.

use super::nan::expand_choice_with_nan;
use super::nonzero::excludes_zero;
use crate::error::Result;
use crate::graph::{Graph, Node, ValueId};
use crate::op::{self, Access};
use crate::pass::expand::{Expand, Operand};
use crate::tensor::{Array, DType};

/// The maximum number of operators between the Where and the one that is guarded.
const MAX_DEPTH: usize = 6;

/// Returns the index of an input of which some values give NaN, and a value that does not.
pub(in crate::ops) fn nan_input(graph: &Graph, node: &Node) -> Option<(usize, f32)> {
    let (index, safe) = op::find(node)?.nan?(graph, node)?;
    let value = graph.value(node.inputs.get(index).copied().flatten()?);
    value.dtype.filter(|dtype| dtype.is_float()).map(|_| (index, safe))
}

/// Replaces the operands of a Where by guarded ones.
pub(super) fn expand_where(x: &mut Expand) -> Result<bool> {
    if expand_choice_with_nan(x)? {
        return Ok(true);
    }
    let (condition, chosen, other) = (x.operand(0)?, x.operand(1)?, x.operand(2)?);
    let node = x.node();
    let a = guarded(x, 1, chosen, Some((node, 1)), MAX_DEPTH)?;
    let b = guarded(x, 2, other, Some((node, 2)), MAX_DEPTH)?;
    if a.is_none() && b.is_none() {
        return Ok(false);
    }
    let result = x.op("Where", &[condition, a.unwrap_or(chosen), b.unwrap_or(other)], &[])?;
    x.output(0, result)?;
    Ok(true)
}

/// Emits a copy of `operand`, input `side` of the Where, with guarded inputs; `None` if it needs no guard. `choice`
/// is a Where that reads it, and as which input.
fn guarded(
    x: &mut Expand,
    side: usize,
    operand: Operand,
    choice: Option<(&Node, usize)>,
    depth: usize,
) -> Result<Option<Operand>> {
    let graph = x.graph();
    let Operand::Value(value) = operand else { return Ok(None) };
    let producer = graph.value(value).producer.and_then(|id| graph.node(id));
    // Booleans are never NaN.
    let forwards_nan = |node: &&Node| {
        matches!(op::access(node), Access::Elementwise | Access::Broadcast)
            && graph.value(value).dtype != Some(DType::Bool)
    };
    let Some(node) = producer.filter(|_| depth > 0).filter(forwards_nan) else { return Ok(None) };
    let divides_by = |divisor| node.is("Div") && node.inputs.get(1) == Some(&Some(divisor));
    // A quotient of which only elements by numbers other than 0 are chosen needs no guard.
    let is_safe = |at: usize| {
        choice.zip(node.inputs.get(at).copied().flatten()).is_some_and(|((choice, side), divisor)| {
            divides_by(divisor) && excludes_zero(graph, choice, side, divisor)
        })
    };
    let nan_input = nan_input(graph, node).filter(|(at, _)| !is_safe(*at));
    let (mut inputs, mut changed) = (Vec::new(), false);
    for (index, input) in node.inputs.iter().enumerate() {
        let Some(input) = *input else {
            inputs.push(None);
            continue;
        };
        let operand = Operand::Value(input);
        let guard = match nan_input {
            Some((at, safe)) if at == index && !is_chosen_by(graph, input, x.node()) => {
                Some(harmless(x, side, input, safe)?)
            }
            _ => {
                let choice = (node.is("Where") && index > 0).then_some((node, index));
                guarded(x, side, operand, choice, depth - 1)?
            }
        };
        changed |= guard.is_some();
        inputs.push(Some(guard.unwrap_or(operand)));
    }
    if changed { x.clone_with_inputs(node, inputs).map(Some) } else { Ok(None) }
}

/// Returns whether a value is the result of a Where on the same condition.
fn is_chosen_by(graph: &Graph, value: ValueId, choice: &Node) -> bool {
    let producer = graph.value(value).producer.and_then(|id| graph.node(id));
    producer.is_some_and(|node| node.is("Where") && node.inputs.first() == choice.inputs.first())
}

/// Emits `value` at elements at which input `side` is chosen, and `safe` elsewhere.
fn harmless(x: &mut Expand, side: usize, value: ValueId, safe: f32) -> Result<Operand> {
    let condition = x.operand(0)?;
    let safe = x.literal(&scalar_like(x.graph(), value, safe)?)?;
    let value = Operand::Value(value);
    let sides = if side == 1 { [condition, value, safe] } else { [condition, safe, value] };
    x.op("Where", &sides, &[])
}

/// Returns a scalar of the type of `value`.
pub(in crate::ops) fn scalar_like(graph: &Graph, value: ValueId, number: f32) -> Result<Array> {
    let scalar = Array::f32(ndarray::ArrayD::from_elem(ndarray::IxDyn(&[]), number));
    match graph.value(value).dtype {
        Some(dtype) => scalar.cast(dtype),
        None => Ok(scalar),
    }
}
