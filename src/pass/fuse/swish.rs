//! Swish: `x * sigmoid(alpha * x)`, and Sigmoid: `1 / (1 + exp(-x))`.

use std::collections::BTreeSet;

use super::terms::{polynomial, product};
use super::{Build, Found, Look, first, fuse, orders, two};
use crate::error::Result;
use crate::graph::{Attribute, Graph, Node, ValueId};

/// Fuses `1 / (1 + exp(-x))`, and `x` divided by that sum.
pub(crate) fn fuse_sigmoid(graph: &mut Graph) -> Result<bool> {
    fuse(graph, find_sigmoid, |made: &mut Build, x: ValueId| {
        made.last("Sigmoid", &[x], &[]);
        Ok(())
    })
}

fn find_sigmoid(look: &Look, node: &Node) -> Option<Found<ValueId>> {
    let result = node.outputs.first().copied().flatten()?;
    let mut inner = BTreeSet::new();
    let under = if node.is("Reciprocal") {
        first(node)?
    } else {
        let [one, under] = two(node).filter(|_| node.is("Div"))?;
        look.is_number(one, 1.0).then_some(under)?
    };
    let x = one_and_exp(look, under, &mut inner)?;
    look.alike(x, result).then_some(Found { inner, parts: x })
}

/// Returns `x` of `1 + exp(-x)`.
fn one_and_exp(look: &Look, sum: ValueId, inner: &mut BTreeSet<ValueId>) -> Option<ValueId> {
    let node = look.made_by(sum, "Add")?;
    let exp = orders(node).find_map(|(exp, one)| look.is_number(one, 1.0).then_some(exp))?;
    let negative = first(look.made_by(exp, "Exp")?)?;
    let node = look.graph.node(look.graph.value(negative).producer?)?;
    inner.extend([sum, exp, negative]);
    if node.is("Neg") {
        return first(node);
    }
    orders(node).find_map(|(x, minus)| (node.is("Mul") && look.number(minus) == Some(-1.0)).then_some(x))
}

/// Fuses `x * sigmoid(alpha * x)`.
pub(crate) fn fuse_swish(graph: &mut Graph) -> Result<bool> {
    fuse(graph, find, |made: &mut Build, (x, alpha): (ValueId, f32)| {
        let alpha = if alpha == 1.0 { Vec::new() } else { vec![("alpha", Attribute::Float(alpha))] };
        made.last("Swish", &[x], &alpha);
        Ok(())
    })
}

fn find(look: &Look, node: &Node) -> Option<Found<(ValueId, f32)>> {
    let result = node.outputs.first().copied().flatten()?;
    if node.is("Div") {
        let [x, under] = two(node)?;
        let mut inner = BTreeSet::new();
        let of = one_and_exp(look, under, &mut inner)?;
        return (x == of && look.alike(x, result)).then_some(Found { inner, parts: (x, 1.0) });
    }
    let product = product(look, node)?;
    let [a, b] = *product.values.as_slice() else { return None };
    if product.number != 1.0 {
        return None;
    }
    [(a, b), (b, a)].into_iter().find_map(|(x, gate)| {
        let of = first(look.made_by(gate, "Sigmoid")?)?;
        let mut inner = product.inner.clone();
        inner.insert(gate);
        let [c0, alpha, c2, c3] = polynomial(look, of, x, &mut inner)?;
        let is_scaled = [c0, c2, c3] == [0.0; 3] && alpha != 0.0 && look.alike(x, result);
        is_scaled.then(|| Found { inner, parts: (x, single(alpha)) })
    })
}

/// Rounds a number to float32, the type of attributes.
pub(super) fn single(x: f64) -> f32 {
    num_traits::AsPrimitive::<f32>::as_(x)
}
