//! `y = 1 / (1 + exp(-x))`
//!
//! becomes `Sigmoid(x)`.
//!
//! `y = x * sigmoid(alpha * x)`
//! `y = x / (1 + exp(-x))`
//!
//! becomes `Swish(x)`, if `alpha` is not 0.

use std::collections::BTreeSet;

use super::matcher::{Found, Matcher, fuse, orders, to_f32, two};
use super::terms::{one_plus_exp, polynomial, product, reciprocal};
use crate::error::Result;
use crate::graph::{Graph, Node, ValueId};

pub(crate) fn fuse_sigmoid(graph: &mut Graph) -> Result<bool> {
    fuse(graph, find_sigmoid, |made, x| Ok(made.value(x).sigmoid()))
}

fn find_sigmoid(matcher: &Matcher, node: &Node) -> Option<Found<ValueId>> {
    let y = node.output(0)?;
    let mut inner = BTreeSet::new();
    let x = one_plus_exp_neg(matcher, reciprocal(matcher, node)?, &mut inner)?;
    matcher.alike(x, y).then_some(Found { inner, parts: x })
}

/// `x`, if a value is `1 + exp(-x)`.
fn one_plus_exp_neg(matcher: &Matcher, sum: ValueId, inner: &mut BTreeSet<ValueId>) -> Option<ValueId> {
    let negative = one_plus_exp(matcher, sum, inner)?;
    inner.insert(negative);
    let node = matcher.producer(negative)?;
    if node.is("Neg") {
        return node.input(0);
    }
    let (x, _) = orders(node).find(|(_, factor)| matcher.scalar(*factor) == Some(-1.0))?;
    node.is("Mul").then_some(x)
}

pub(crate) fn fuse_swish(graph: &mut Graph) -> Result<bool> {
    fuse(graph, find_swish, |made, (x, alpha)| {
        Ok(made.value(x).apply("Swish", (alpha != 1.0).then_some(("alpha", alpha.into()))))
    })
}

fn find_swish(matcher: &Matcher, node: &Node) -> Option<Found<(ValueId, f32)>> {
    let y = node.output(0)?;
    if node.is("Div") {
        let [x, sum] = two(node)?;
        let mut inner = BTreeSet::new();
        let of = one_plus_exp_neg(matcher, sum, &mut inner)?;
        return (x == of && matcher.alike(x, y)).then_some(Found { inner, parts: (x, 1.0) });
    }
    let product = product(matcher, node).filter(|product| product.factor == 1.0)?;
    product.orders().find_map(|(x, gate)| {
        let scaled = matcher.made_by(gate, "Sigmoid")?.input(0)?;
        let mut inner = product.inner.clone();
        inner.insert(gate);
        let [c0, alpha, c2, c3] = polynomial(matcher, scaled, x, &mut inner)?;
        let fits = [c0, c2, c3] == [0.0; 3] && alpha != 0.0 && matcher.alike(x, y);
        fits.then(|| Found { inner, parts: (x, to_f32(alpha)) })
    })
}
