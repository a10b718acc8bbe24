//! `y = x * tanh(softplus(x))`
//! `y = x * tanh(log(1 + exp(x)))`
//!
//! becomes `Mish(x)`. If `exp(x)` overflows, tanh is 1 in both forms.

use super::matcher::{Found, Matcher, fuse};
use super::terms::{one_plus_exp, product};
use crate::error::Result;
use crate::graph::{Graph, Node, ValueId};

pub(crate) fn fuse_mish(graph: &mut Graph) -> Result<bool> {
    fuse(graph, find, |made, x| Ok(made.value(x).apply("Mish", [])))
}

fn find(matcher: &Matcher, node: &Node) -> Option<Found<ValueId>> {
    let y = node.output(0)?;
    let product = product(matcher, node).filter(|product| product.factor == 1.0)?;
    product.orders().find_map(|(x, tanh)| {
        let softplus = matcher.made_by(tanh, "Tanh")?.input(0)?;
        let mut inner = product.inner.clone();
        inner.extend([tanh, softplus]);
        let of = match matcher.made_by(softplus, "Softplus") {
            Some(softplus) => softplus.input(0)?,
            None => one_plus_exp(matcher, matcher.made_by(softplus, "Log")?.input(0)?, &mut inner)?,
        };
        (of == x && matcher.alike(x, y)).then_some(Found { inner, parts: x })
    })
}
