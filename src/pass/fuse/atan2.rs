//! `t = atan(y / x)`
//! `z = where(x < 0, where(y > 0, t + pi, t - pi), t)`
//! `z = where(isnan(z), 0, z)`
//!
//! becomes `Atan2(y, x)` of this program's own domain, with or without the last line.

use std::collections::BTreeSet;
use std::f64::consts::PI;

use super::matcher::{Found, Matcher, first, fuse, output, two};
use crate::error::Result;
use crate::graph::{Graph, Node, ValueId};
use crate::pass::pattern::input;

pub(crate) fn fuse_atan2(graph: &mut Graph) -> Result<bool> {
    fuse(graph, find, |made, [y, x]| Ok(made.op("ncnn.Atan2", [made.value(y), made.value(x)], [])))
}

fn find(matcher: &Matcher, node: &Node) -> Option<Found<[ValueId; 2]>> {
    let z = output(node).filter(|_| node.is("Where"))?;
    match defined(matcher, node) {
        Some(angle) => {
            let mut found = of_quadrants(matcher, matcher.made_by(angle, "Where")?)?;
            found.inner.extend([Some(angle), input(node, 0)].into_iter().flatten());
            Some(found)
        }
        // The next Where replaces NaN, and is the last node.
        None if is_tested(matcher, z) => None,
        None => of_quadrants(matcher, node),
    }
}

/// Returns `z` of `where(isnan(z), 0, z)`.
fn defined(matcher: &Matcher, node: &Node) -> Option<ValueId> {
    let (condition, zero, z) = (input(node, 0)?, input(node, 1)?, input(node, 2)?);
    let tested = first(matcher.made_by(condition, "IsNaN")?)?;
    (tested == z && matcher.is_scalar(zero, 0.0)).then_some(z)
}

/// Returns whether a reader replaces the NaN of a value by 0.
fn is_tested(matcher: &Matcher, z: ValueId) -> bool {
    let readers = matcher.graph.nodes().map(|(_, node)| node).filter(|node| node.is("Where"));
    readers.filter(|node| input(node, 2) == Some(z)).any(|node| defined(matcher, node).is_some())
}

fn of_quadrants(matcher: &Matcher, node: &Node) -> Option<Found<[ValueId; 2]>> {
    let (left, turned, t) = (input(node, 0)?, input(node, 1)?, input(node, 2)?);
    let [y, x] = two(matcher.made_by(first(matcher.made_by(t, "Atan")?)?, "Div")?)?;
    let turn = matcher.made_by(turned, "Where")?;
    let (upper, plus, minus) = (input(turn, 0)?, input(turn, 1)?, input(turn, 2)?);
    let holds = is_above(matcher, upper, y)
        && is_below(matcher, left, x)
        && matcher.beside_scalar(matcher.made_by(plus, "Add")?, PI) == Some(t)
        && is_minus_pi(matcher, minus, t)
        && matcher.is_float(t);
    holds.then_some(Found { inner: BTreeSet::from([t, turned, plus, minus]), parts: [y, x] })
}

/// Returns whether a value is `t - pi`.
fn is_minus_pi(matcher: &Matcher, value: ValueId, t: ValueId) -> bool {
    let difference = || {
        let [a, b] = two(matcher.made_by(value, "Sub")?)?;
        Some(a == t && matcher.is_scalar(b, PI))
    };
    let sum = || Some(matcher.beside_scalar(matcher.made_by(value, "Add")?, -PI)? == t);
    difference().or_else(sum) == Some(true)
}

/// Returns whether a condition is `value > 0`.
fn is_above(matcher: &Matcher, condition: ValueId, value: ValueId) -> bool {
    compares(matcher, condition, "Greater", [Some(value), None])
        || compares(matcher, condition, "Less", [None, Some(value)])
}

/// Returns whether a condition is `value < 0`.
fn is_below(matcher: &Matcher, condition: ValueId, value: ValueId) -> bool {
    compares(matcher, condition, "Less", [Some(value), None])
        || compares(matcher, condition, "Greater", [None, Some(value)])
}

/// Returns whether a comparison has these sides; `None` stands for 0.
fn compares(matcher: &Matcher, condition: ValueId, op_type: &str, sides: [Option<ValueId>; 2]) -> bool {
    matcher.made_by(condition, op_type).and_then(two).is_some_and(|found| {
        found.iter().zip(sides).all(|(found, side)| match side {
            Some(value) => *found == value,
            None => matcher.is_scalar(*found, 0.0),
        })
    })
}
