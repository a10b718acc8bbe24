//! Conditions that imply that a value is not 0.

use crate::lower::OverZero;
use crate::ops::prelude::*;
use crate::pass::pattern::scalar;

/// The maximum number of operators between a comparison and Where.
const MAX_DEPTH: usize = 4;

/// Returns the requirement of the readers of `quotient` where `divisor` is 0; one of them, or of the
/// readers of its forwarded elements, is a Where.
pub(in crate::ops) fn over_zero_of(graph: &Graph, quotient: ValueId, divisor: ValueId) -> OverZero {
    let readers = || graph.nodes().map(|(_, node)| node).filter(|node| node.inputs.contains(&Some(quotient)));
    let sides = |node: &Node| [1, 2].into_iter().filter(|side| node.input(*side) == Some(quotient)).collect();
    let each = |condition: &dyn Fn(&Node, usize) -> bool| {
        readers().all(|node| {
            let sides: Vec<usize> = sides(node);
            node.is("Where")
                && node.input(0) != Some(quotient)
                && sides.iter().all(|side| condition(node, *side))
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
        let guard = graph.producer(divisor);
        guard.is_some_and(|guard| guard.is("Where") && guard.input(0) == node.input(0))
    };
    if each(&|node, _| is_guarded(node)) { OverZero::Exact } else { OverZero::NeverNan }
}

/// Returns whether a Where takes its input `side` only where `value` is not 0.
pub(super) fn excludes_zero(graph: &Graph, choice: &Node, side: usize, value: ValueId) -> bool {
    choice.input(0).is_some_and(|condition| implies(graph, condition, side == 1, value, MAX_DEPTH))
}

/// Returns whether `value` is not 0 where a condition is `truth`.
fn implies(graph: &Graph, condition: ValueId, truth: bool, value: ValueId, depth: usize) -> bool {
    let Some(node) = graph.producer(condition) else { return false };
    let Some(depth) = depth.checked_sub(1) else { return false };
    let Some(first) = node.input(0) else { return false };
    match (node.op_type.as_str(), truth) {
        ("Not", _) => implies(graph, first, !truth, value, depth),
        ("And", true) | ("Or", false) => {
            node.inputs.iter().flatten().any(|input| implies(graph, *input, truth, value, depth))
        }
        ("Cast", true) => is_value(graph, first, value),
        (op_type, _) => {
            let Some(second) = node.input(1) else { return false };
            let Some(compare) = comparison(op_type) else { return false };
            // The comparison with 0 instead of the value.
            let side = |id| if is_value(graph, id, value) { Some(0.0) } else { scalar(graph, id) };
            let at_zero = side(first).zip(side(second)).map(|(a, b)| compare(&a, &b));
            let reads_value = [first, second].into_iter().any(|id| is_value(graph, id, value));
            reads_value && at_zero.is_some_and(|at_zero| at_zero != truth)
        }
    }
}

/// Returns the comparison of an operator.
fn comparison(op_type: &str) -> Option<fn(&f64, &f64) -> bool> {
    Some(match op_type {
        "Equal" => f64::eq,
        "Less" => f64::lt,
        "LessOrEqual" => f64::le,
        "Greater" => f64::gt,
        "GreaterOrEqual" => f64::ge,
        _ => return None,
    })
}

/// Returns whether `found` is the value or, zero at the same elements, its magnitude.
fn is_value(graph: &Graph, found: ValueId, value: ValueId) -> bool {
    found == value || graph.producer(found).is_some_and(|node| node.is("Abs") && node.input(0) == Some(value))
}
