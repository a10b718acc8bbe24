//! Comparisons, logic, and Where.
//!
//! Where is `max(min(x, u), min(y, -u))` with an infinite `u` of either sign, which selects without
//! arithmetic on the elements. Comparisons and selections handle infinities as ONNX does. NaN in the operand
//! that is not selected is avoided; elsewhere NaN is assumed not to occur: it would equal everything.
//! Integers are compared in float32, up to 2^24 exactly.
//!
//! Spec: <https://onnx.ai/onnx/operators/onnx__Equal.html>, `onnx__Where.html` and so on.

mod fold;
mod guard;
mod nan;
mod nonzero;
mod select;

use super::broadcast::{LOSES_NAN, infer_broadcast, lower_bounded, lower_pair, refuse_nan};
use crate::lower::{Formula, ScalarOrBlob};
use crate::op::identity::{either_paired_with, is_as_output, is_filled_with};
use crate::op::{Fold, Infer, infer_test};
use crate::ops::prelude::*;

use fold::*;
use guard::expand_where;
use select::lower_where;

pub(in crate::ops) use guard::nan_input;
pub(in crate::ops) use nan::expand_table_with_nan;
pub(in crate::ops) use nonzero::over_zero_of;

/// The elements for which comparisons by a difference differ: a difference with NaN is not above 0.
const EQUALS_NAN: &str = "NaN, which equals every number";

pub(in crate::ops) const OPS: &[Row] = &[
    truth("And", |call| infer_decided(call, 0.0), |call| fold_comparison_of(call, &AND))
        .lower(|l| combine(l, |a, b| a * b))
        .identity(|graph, node| either_paired_with(graph, node, 1.0))
        .lowers_to("BinaryOp MUL"),
    truth("Equal", infer_truth, fold_equal)
        .expand(expand_test_of_nan)
        .lower(|l| refuse_nan(l).and_then(|()| combine(l, |a, b| !(a - b).nonzero())))
        .lowers_to("Threshold of the magnitude of the difference")
        .differs(EQUALS_NAN),
    truth("Greater", infer_truth, |call| fold_comparison_of(call, &GREATER))
        .lower(|l| compare(l, greater))
        .lowers_to("Threshold of one side, or of the difference"),
    truth("GreaterOrEqual", infer_truth, |call| fold_comparison_of(call, &GREATER_OR_EQUAL))
        .lower(|l| compare(l, greater_or_equal))
        .lowers_to("Threshold of one side, or of the difference")
        .differs(EQUALS_NAN),
    truth("Less", infer_truth, |call| fold_comparison_of(call, &LESS))
        .lower(|l| compare(l, |a, b| greater(b, a)))
        .lowers_to("Threshold of one side, or of the difference"),
    truth("LessOrEqual", infer_truth, |call| fold_comparison_of(call, &LESS_OR_EQUAL))
        .lower(|l| compare(l, |a, b| greater_or_equal(b, a)))
        .lowers_to("Threshold of one side, or of the difference")
        .differs(EQUALS_NAN),
    Row::new("Not", Access::Elementwise, infer_test)
        .fold(|call| Ok(vec![call.array(0)?.test(|x| x == 0.0)?]))
        .lower(|l| l.blob(0).and_then(|x| l.set(0, !x)))
        .lowers_to("BinaryOp: 1 - x"),
    truth("Or", |call| infer_decided(call, 1.0), |call| fold_comparison_of(call, &OR))
        .lower(|l| combine(l, |a, b| a.maximum(b)))
        .identity(|graph, node| either_paired_with(graph, node, 0.0))
        .lowers_to("BinaryOp MAX"),
    Row::new("Where", Access::Broadcast, infer_where)
        .fold(fold_where)
        .expand(expand_where)
        .lower(lower_where)
        .keeps_magnitude()
        .tolerates_rounding(|_, _| true)
        .range(|_, inputs| inputs.iter().skip(1).copied().reduce(Range::union).unwrap_or(Range::ANY))
        .identity(one_choice)
        .lowers_to("BinaryOp MIN and MAX with infinities; BinaryOp ADD of NaN")
        .differs(LOSES_NAN),
    truth("Xor", infer_truth, |call| fold_comparison_of(call, &XOR))
        .lower(|l| combine(l, |a, b| (a - b).abs()))
        .lowers_to("BinaryOp, UnaryOp"),
];

const fn truth(name: &'static str, infer: Infer, fold: Fold) -> Row {
    Row::new(name, Access::Broadcast, infer)
        .fold(fold)
        .discontinuous(|_, _| true)
        .tolerates_rounding(has_exact_operand)
}

/// Returns whether the other operand is closer to 0 than any integer that is rounded.
fn has_exact_operand(call: &Call, index: usize) -> bool {
    let limit = Range::EXACT_INTEGERS;
    let other = call.range(1 - index.min(1));
    limit.least < other.least && other.most < limit.most
}

/// Returns the selected operand if the condition is uniform.
fn one_choice(graph: &Graph, node: &Node) -> Option<ValueId> {
    let condition = node.input(0)?;
    let chosen = [(1.0, 1), (0.0, 2)]
        .into_iter()
        .find(|(truth, _)| is_filled_with(graph, condition, *truth))
        .and_then(|(_, index)| node.input(index));
    chosen.filter(|chosen| is_as_output(graph, node, *chosen))
}

fn infer_truth(call: &Call) -> Result<Vec<Fact>> {
    infer_broadcast(call, DType::Bool)
}

/// Infers the result of an operator of which one operand may decide the result, whatever the other one is.
fn infer_decided(call: &Call, decisive: f32) -> Result<Vec<Fact>> {
    let mut facts = infer_truth(call)?;
    let decides = |index| {
        call.node().input(index).is_some_and(|value| is_filled_with(call.graph(), value, decisive.into()))
    };
    if let [fact] = facts.as_mut_slice()
        && (decides(0) || decides(1))
        && let Some(sizes) = fact.shape.as_ref().and_then(Dim::known_sizes)
    {
        let element = Array::f32(ndarray::arr0(decisive).into_dyn()).cast(DType::Bool)?;
        fact.constant = Some(Tensor::filled(&element, sizes)?);
    }
    Ok(facts)
}

/// Expands the comparison of a float with itself: the elements that differ from themselves are NaN.
fn expand_test_of_nan(x: &Expand) -> Result<bool> {
    let is_test = x.node().input(0) == x.node().input(1) && x.dtype(0)?.is_float();
    if is_test {
        x.output(0, !x.operand(0).is_nan());
    }
    Ok(is_test)
}

fn infer_where(call: &Call) -> Result<Vec<Fact>> {
    if call.dtype(0)? != DType::Bool {
        invalid!("a condition of type {}", call.dtype(0)?);
    }
    infer_broadcast(call, call.dtype(1)?)
}

/// Lowers to a formula of both operands.
fn combine(lower: &Lower, formula: fn(ScalarOrBlob, ScalarOrBlob) -> Formula) -> Result<()> {
    let (a, b) = lower_pair(lower)?;
    lower.set(0, formula(a, b))
}

/// Lowers to a formula of both operands, which compares their order.
fn compare(lower: &Lower, formula: fn(ScalarOrBlob, ScalarOrBlob) -> Formula) -> Result<()> {
    refuse_nan(lower)?;
    let sides = lower_bounded(lower)?;
    lower.set(0, formula(*sides.at(0)?, *sides.at(1)?))
}

fn greater(a: ScalarOrBlob, b: ScalarOrBlob) -> Formula {
    match (a, b) {
        (ScalarOrBlob::Blob(a), ScalarOrBlob::Number(b)) => a.greater(b),
        (ScalarOrBlob::Number(a), ScalarOrBlob::Blob(b)) => b.less(a),
        (a, b) => (a - b).greater(0.0),
    }
}

fn greater_or_equal(a: ScalarOrBlob, b: ScalarOrBlob) -> Formula {
    match (a, b) {
        (ScalarOrBlob::Blob(a), ScalarOrBlob::Number(b)) => a.greater(next_below(b)),
        (ScalarOrBlob::Number(a), ScalarOrBlob::Blob(b)) => b.less(-next_below(-a)),
        (a, b) => !greater(b, a),
    }
}

/// Returns the next smaller float32 that ncnn distinguishes: it flushes subnormal numbers to 0.
fn next_below(x: f32) -> f32 {
    let below = x.next_down();
    if below.is_subnormal() || below == 0.0 { if x > 0.0 { 0.0 } else { -f32::MIN_POSITIVE } } else { below }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbours_are_normal_floats() {
        for (x, below) in [
            (1.0, 0.999_999_94),
            (-1.0, -1.000_000_1),
            (0.0, -f32::MIN_POSITIVE),
            (f32::MIN_POSITIVE, 0.0),
            (-f32::MIN_POSITIVE, (-f32::MIN_POSITIVE).next_down()),
        ] {
            assert_eq!(next_below(x), below, "{x}");
        }
    }
}
