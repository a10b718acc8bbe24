//! The scores of attentions: the node that computes them, their Softmax, and the keys that they hide.

use std::collections::BTreeSet;

use super::matcher::{Matcher, first};
use crate::graph::{Node, ValueId};
use crate::op::OWN_DOMAIN;
use crate::pass::builder::Expr;
use crate::pass::pattern::axis;

/// Added to the scores of masked keys in place of minus infinity, which ncnn does not handle.
pub(super) const HIDDEN: f32 = -1e30;
/// A score below all others: a key with it is masked if another key is not.
pub(super) const FAR: f64 = -1e9;

/// The node of PlainAttention that computes a value.
pub(super) fn plain<'a>(matcher: &Matcher<'a>, value: ValueId) -> Option<&'a Node> {
    matcher.producer(value).filter(|node| node.domain == OWN_DOMAIN && node.op_type == "PlainAttention")
}

/// The Softmax along the last axis that computes a value, and whether NaN is replaced by 0 after it.
pub(super) fn softmax_of<'a>(
    matcher: &Matcher<'a>,
    value: ValueId,
    inner: &mut BTreeSet<ValueId>,
) -> Option<(&'a Node, bool)> {
    let of_rows = |softmax: &&Node| {
        // Before version 13, Softmax runs over all axes from the given one on.
        let default = if softmax.version < 13 { 1 } else { -1 };
        let rank = first(softmax).and_then(|x| matcher.rank(x));
        rank.is_some_and(|rank| axis(softmax, default, rank).is_some_and(|axis| axis + 1 == rank))
    };
    if let Some(softmax) = matcher.made_by(value, "Softmax") {
        return Some((softmax, false)).filter(|(softmax, _)| of_rows(softmax));
    }
    let [condition, zero, softmax] = *matcher.made_by(value, "Where")?.inputs.as_slice() else { return None };
    let (condition, softmax) = (condition?, softmax?);
    let is_guard = first(matcher.made_by(condition, "IsNaN")?)? == softmax && matcher.scalar(zero?)? == 0.0;
    inner.extend([condition, softmax]);
    Some((matcher.made_by(softmax, "Softmax").filter(of_rows).filter(|_| is_guard)?, true))
}

/// Values of which a condition hides some.
pub(super) struct Hidden {
    pub others: ValueId,
    pub condition: ValueId,
    /// The value of the condition where it hides.
    pub hides: bool,
    /// The number in place of hidden values.
    pub low: f64,
}

impl Hidden {
    /// The term that hides values if it is added to them.
    pub fn term<'b>(condition: Expr<'b>, hides: bool, lowest: f32, like: Expr<'b>) -> Expr<'b> {
        let (hidden, seen) = (like.filled(lowest, &[]), like.filled(0.0, &[]));
        let (yes, no) = if hides { (hidden, seen) } else { (seen, hidden) };
        condition.select(yes, no)
    }
}

/// Reads a Where as values of which a condition hides some, in both ways.
pub(super) fn hidden(matcher: &Matcher, node: &Node) -> impl Iterator<Item = Hidden> + use<> {
    let mut found = [None, None];
    if let [Some(condition), Some(yes), Some(no)] = *node.inputs.as_slice() {
        found = [(yes, no, true), (no, yes, false)].map(|(hidden, others, hides)| {
            let low = matcher.scalar(hidden).filter(|low| *low <= FAR)?;
            Some(Hidden { others, condition, hides, low })
        });
    }
    found.into_iter().flatten()
}
