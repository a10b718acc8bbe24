//! GLU: `a * sigmoid(b)` for the two halves `a`, `b` of an axis.

use std::collections::BTreeSet;

use super::{Build, Found, Look, first, fuse, orders};
use crate::error::Result;
use crate::graph::{Attribute, Graph, Node, ValueId};
use crate::op::resolve_axis;

pub(crate) fn fuse_glu(graph: &mut Graph) -> Result<bool> {
    fuse(graph, find, |made: &mut Build, (x, axis): (ValueId, usize)| {
        made.own("GLU", &[x], &[("axis", Attribute::Int(i64::try_from(axis)?))]);
        Ok(())
    })
}

fn find(look: &Look, node: &Node) -> Option<Found<(ValueId, usize)>> {
    orders(node).filter(|_| node.is("Mul")).find_map(|(value, gate)| {
        let closed = first(look.made_by(gate, "Sigmoid")?)?;
        let split = look.made_by(value, "Split")?;
        if *split.outputs != [Some(value), Some(closed)] || !look.alike(value, closed) {
            return None;
        }
        let x = first(split)?;
        let axis = match split.attributes.get("axis") {
            Some(Attribute::Int(axis)) => *axis,
            _ => 0,
        };
        let axis = resolve_axis(axis, look.rank(x)?).ok()?;
        Some(Found { inner: BTreeSet::from([value, gate, closed]), parts: (x, axis) })
    })
}
