//! `y = a * sigmoid(b)` with `a, b = split(x)`
//!
//! becomes `GLU(x)` of this program's own domain, if both parts have the same size.

use std::collections::BTreeSet;

use super::{Found, Matcher, first, fuse, orders};
use crate::error::Result;
use crate::graph::{Graph, Node, ValueId};
use crate::pass::pattern::axis;

pub(crate) fn fuse_glu(graph: &mut Graph) -> Result<bool> {
    fuse(graph, find, |made, (x, axis)| {
        Ok(made.own_op("GLU", [made.value(x)], [("axis", i64::try_from(axis)?.into())]))
    })
}

fn find(matcher: &Matcher, node: &Node) -> Option<Found<(ValueId, usize)>> {
    orders(node).filter(|_| node.is("Mul")).find_map(|(a, gate)| {
        let b = first(matcher.made_by(gate, "Sigmoid")?)?;
        let split = matcher.made_by(a, "Split")?;
        if *split.outputs != [Some(a), Some(b)] || !matcher.alike(a, b) {
            return None;
        }
        let x = first(split)?;
        let axis = axis(split, 0, matcher.rank(x)?)?;
        Some(Found { inner: BTreeSet::from([a, gate, b]), parts: (x, axis) })
    })
}
