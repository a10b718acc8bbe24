//! Mish: `x * tanh(softplus(x))`.

use super::terms::product;
use super::{Build, Found, Look, first, fuse, orders};
use crate::error::Result;
use crate::graph::{Graph, Node, ValueId};

pub(crate) fn fuse_mish(graph: &mut Graph) -> Result<bool> {
    fuse(graph, find, |made: &mut Build, x: ValueId| {
        made.last("Mish", &[x], &[]);
        Ok(())
    })
}

fn find(look: &Look, node: &Node) -> Option<Found<ValueId>> {
    let result = node.outputs.first().copied().flatten()?;
    let product = product(look, node)?;
    let [a, b] = *product.values.as_slice() else { return None };
    if product.number != 1.0 {
        return None;
    }
    [(a, b), (b, a)].into_iter().find_map(|(x, gate)| {
        let soft = first(look.made_by(gate, "Tanh")?)?;
        let mut inner = product.inner.clone();
        inner.extend([gate, soft]);
        let of = match look.made_by(soft, "Softplus") {
            Some(softplus) => first(softplus)?,
            // In `log(1 + exp(x))` an infinite exponential gives a tanh of 1, as the tanh of x is.
            None => {
                let sum = first(look.made_by(soft, "Log")?)?;
                let node = look.made_by(sum, "Add")?;
                let exp = orders(node).find_map(|(exp, one)| look.is_number(one, 1.0).then_some(exp))?;
                inner.extend([sum, exp]);
                first(look.made_by(exp, "Exp")?)?
            }
        };
        (of == x && look.alike(x, result)).then_some(Found { inner, parts: x })
    })
}
