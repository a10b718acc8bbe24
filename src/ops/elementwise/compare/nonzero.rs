//! Conditions that imply that a value is not 0.

use crate::graph::{Graph, Node, ValueId};
use crate::lower::OverZero;
use crate::op::identity::operand;
use crate::pass::pattern::scalar;

/// The maximum number of operators between a comparison and Where.
const MAX_DEPTH: usize = 4;

/// Returns what the readers of `quotient` need where `divisor` is 0; one of them, or of those of its forwarded
/// elements, is a Where.
pub(in crate::ops) fn over_zero_of(graph: &Graph, quotient: ValueId, divisor: ValueId) -> OverZero {
    let readers = || graph.nodes().map(|(_, node)| node).filter(|node| node.inputs.contains(&Some(quotient)));
    let sides =
        |node: &Node| [1, 2].into_iter().filter(|side| operand(node, *side) == Some(quotient)).collect();
    let each = |holds: &dyn Fn(&Node, usize) -> bool| {
        readers().all(|node| {
            let sides: Vec<usize> = sides(node);
            node.is("Where")
                && operand(node, 0) != Some(quotient)
                && sides.iter().all(|side| holds(node, *side))
        })
    };
    if readers().next().is_none() || graph.outputs.contains(&quotient) {
        return OverZero::NeverNan;
    }
    if each(&|node, side| excludes_zero(graph, node, side, divisor)) {
        return OverZero::Dropped;
    }
    // Where has replaced the divisors of the elements that it drops.
    let is_guarded = |node: &Node| {
        let guard = graph.value(divisor).producer.and_then(|id| graph.node(id));
        guard.is_some_and(|guard| guard.is("Where") && operand(guard, 0) == operand(node, 0))
    };
    if each(&|node, _| is_guarded(node)) { OverZero::Exact } else { OverZero::NeverNan }
}

/// Returns whether a Where takes its input `side` only where `value` is not 0.
pub(super) fn excludes_zero(graph: &Graph, choice: &Node, side: usize, value: ValueId) -> bool {
    operand(choice, 0).is_some_and(|condition| implies(graph, condition, side == 1, value, MAX_DEPTH))
}

/// Returns whether `value` is not 0 where a condition is `truth`.
fn implies(graph: &Graph, condition: ValueId, truth: bool, value: ValueId, depth: usize) -> bool {
    let Some(node) = graph.value(condition).producer.and_then(|id| graph.node(id)) else { return false };
    let Some(depth) = depth.checked_sub(1) else { return false };
    let any = || node.inputs.iter().flatten().any(|input| implies(graph, *input, truth, value, depth));
    let (Some(a), b) = (operand(node, 0), operand(node, 1)) else { return false };
    // The comparison with the value on the left: `value < bound` and so on.
    let order = |left: bool| -> Option<(bool, f64)> {
        let (side, bound) = if left { (a, b?) } else { (b?, a) };
        Some((is_value(graph, side, value), scalar(graph, bound)?))
    };
    let compared = |holds: fn(f64) -> bool, reversed: fn(f64) -> bool| {
        matches!(order(true), Some((true, bound)) if holds(bound))
            || matches!(order(false), Some((true, bound)) if reversed(bound))
    };
    let (above, from, below, to): (fn(f64) -> bool, fn(f64) -> bool, fn(f64) -> bool, fn(f64) -> bool) =
        (|bound| bound >= 0.0, |bound| bound > 0.0, |bound| bound <= 0.0, |bound| bound < 0.0);
    match (truth, node.op_type.as_str()) {
        (_, "Not") => implies(graph, a, !truth, value, depth),
        (true, "And") | (false, "Or") => any(),
        (true, "Cast") => is_value(graph, a, value),
        (true, "Equal") => compared(|bound| bound != 0.0, |bound| bound != 0.0),
        (false, "Equal") => compared(|bound| bound == 0.0, |bound| bound == 0.0),
        (true, "Greater") | (false, "LessOrEqual") => compared(above, below),
        (true, "GreaterOrEqual") | (false, "Less") => compared(from, to),
        (true, "Less") | (false, "GreaterOrEqual") => compared(below, above),
        (true, "LessOrEqual") | (false, "Greater") => compared(to, from),
        _ => false,
    }
}

/// Returns whether `found` is the value or, zero at the same elements, its magnitude.
fn is_value(graph: &Graph, found: ValueId, value: ValueId) -> bool {
    found == value
        || graph
            .value(found)
            .producer
            .and_then(|id| graph.node(id))
            .is_some_and(|node| node.is("Abs") && operand(node, 0) == Some(value))
}
