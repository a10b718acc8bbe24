//! Softmax: `exp(x - max(x)) / sum(exp(x - max(x)))`, also without the maximum.

use std::collections::BTreeSet;

use super::layer_norm::reduced;
use super::{Build, Found, Look, first, fuse, orders, two};
use crate::error::Result;
use crate::graph::{Attribute, Graph, Node, ValueId};

pub(crate) fn fuse_softmax(graph: &mut Graph) -> Result<bool> {
    fuse(graph, find, |made: &mut Build, (x, axis): (ValueId, usize)| {
        made.last("Softmax", &[x], &[("axis", Attribute::Int(i64::try_from(axis)?))]);
        Ok(())
    })
}

fn find(look: &Look, node: &Node) -> Option<Found<(ValueId, usize)>> {
    let result = node.outputs.first().copied().flatten()?;
    let mut inner = BTreeSet::new();
    let (exp, sum) = if node.is("Mul") {
        orders(node).find_map(|(exp, inverse)| {
            let sum = first(look.made_by(inverse, "Reciprocal")?)?;
            inner.insert(inverse);
            Some((exp, sum))
        })?
    } else {
        let [exp, sum] = two(node).filter(|_| node.is("Div"))?;
        (exp, sum)
    };
    let (of, axes) = reduced(look, sum, "ReduceSum")?;
    let [axis] = *axes.as_slice() else { return None };
    inner.extend([exp, sum]);
    let power = first(look.made_by(exp, "Exp")?)?;
    // Without the maximum the result differs only for sums that overflow.
    let x = match shifted(look, power, axis) {
        Some((x, max)) => {
            inner.extend([power, max]);
            x
        }
        None => power,
    };
    (of == exp && look.alike(x, result)).then_some(Found { inner, parts: (x, axis) })
}

/// Returns `x` and `max(x)` of `x - max(x)` along an axis.
fn shifted(look: &Look, power: ValueId, axis: usize) -> Option<(ValueId, ValueId)> {
    let [x, max] = two(look.made_by(power, "Sub")?)?;
    let (of, axes) = reduced(look, max, "ReduceMax")?;
    (of == x && axes == [axis]).then_some((x, max))
}
