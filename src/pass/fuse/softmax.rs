//! `y = exp(x) / sum(exp(x))`
//! `y = exp(x - max(x)) / sum(exp(x - max(x)))`
//!
//! becomes `Softmax(x)`, if sum and maximum are taken along one and the same axis.

use std::collections::BTreeSet;

use super::matcher::{Found, Matcher, fuse, two};
use super::terms::{quotients, reduced_axis};
use crate::error::Result;
use crate::graph::{Graph, Node, ValueId};

pub(crate) fn fuse_softmax(graph: &mut Graph) -> Result<bool> {
    fuse(graph, find, |made, (x, axis)| Ok(made.value(x).softmax(i64::try_from(axis)?)))
}

fn find(matcher: &Matcher, node: &Node) -> Option<Found<(ValueId, usize)>> {
    let y = node.output(0)?;
    let quotient = quotients(matcher, node).next()?;
    let (exp, sum) = (quotient.dividend, quotient.divisor);
    let mut inner = BTreeSet::from([exp, sum]);
    inner.extend(quotient.inverse);
    let power = matcher.made_by(exp, "Exp")?.input(0)?;
    let (summed, axis) = reduced_axis(matcher, sum, "ReduceSum")?;
    // Without its maximum, x gives the same, except for sums that overflow.
    let x = match shifted(matcher, power, axis) {
        Some((x, max)) => {
            inner.extend([power, max]);
            x
        }
        None => power,
    };
    (summed == exp && matcher.alike(x, y)).then_some(Found { inner, parts: (x, axis) })
}

/// `x` and `max(x)`, if a value is `x - max(x)`.
fn shifted(matcher: &Matcher, value: ValueId, axis: usize) -> Option<(ValueId, ValueId)> {
    let [x, max] = two(matcher.made_by(value, "Sub")?)?;
    (reduced_axis(matcher, max, "ReduceMax")? == (x, axis)).then_some((x, max))
}
