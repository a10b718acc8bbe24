//! Normalize, an operator of ncnn's domain: `x / sqrt(sum(x^2) + eps)`, `x / max(sqrt(sum(x^2)), eps)` and `x
//! / sqrt(max(sum(x^2), eps))` along an axis.

use std::collections::BTreeSet;

use super::layer_norm::{quotient, reduced, squared};
use super::swish::single;
use super::terms::bounded;
use super::{Build, Found, Look, first, fuse, orders, two};
use crate::error::Result;
use crate::graph::{Attribute, Graph, Node, ValueId};

/// The place of the epsilon.
#[derive(Clone, Copy)]
enum Bound {
    /// Added to the sum of squares.
    Added,
    /// The lower bound of the norm.
    Norm,
    /// The lower bound of the sum of squares.
    Squares,
}

struct Parts {
    x: ValueId,
    axis: usize,
    epsilon: f64,
    bound: Bound,
}

pub(crate) fn fuse_l2_normalize(graph: &mut Graph) -> Result<bool> {
    fuse(graph, find, |made: &mut Build, parts: Parts| {
        // The codes of ncnn.
        let bound = match parts.bound {
            Bound::Added => 0,
            Bound::Norm => 1,
            Bound::Squares => 2,
        };
        let attributes = [
            ("axis", Attribute::Int(i64::try_from(parts.axis)?)),
            ("epsilon", Attribute::Float(single(parts.epsilon))),
            ("eps_mode", Attribute::Int(bound)),
        ];
        made.own("Normalize", &[parts.x], &attributes);
        Ok(())
    })
}

fn find(look: &Look, node: &Node) -> Option<Found<Parts>> {
    let result = node.outputs.first().copied().flatten()?;
    let mut inner = BTreeSet::new();
    let found = match quotient(look, node, &mut inner) {
        Some((x, squares)) => of_squares(look, x, squares, &mut inner),
        None => {
            inner.clear();
            of_norm(look, node, &mut inner)
        }
    };
    let parts = found.filter(|parts| look.alike(parts.x, result) && parts.epsilon > 0.0)?;
    inner.remove(&result);
    Some(Found { inner, parts })
}

/// Matches `x / sqrt(squares)` with bounded squares.
fn of_squares(look: &Look, x: ValueId, squares: ValueId, inner: &mut BTreeSet<ValueId>) -> Option<Parts> {
    inner.insert(squares);
    let (sum, epsilon, bound) = if let Some(node) = look.made_by(squares, "Add") {
        let (sum, epsilon) = orders(node).find_map(|(sum, epsilon)| Some((sum, look.number(epsilon)?)))?;
        (sum, epsilon, Bound::Added)
    } else {
        let held = bounded(look, squares).filter(|held| held.high == f64::INFINITY)?;
        inner.extend(held.inner);
        (held.value, held.low, Bound::Squares)
    };
    let axis = sum_of_squares(look, sum, x, inner)?;
    Some(Parts { x, axis, epsilon, bound })
}

/// Matches `x / max(norm, epsilon)`.
fn of_norm(look: &Look, node: &Node, inner: &mut BTreeSet<ValueId>) -> Option<Parts> {
    let [x, mut under] = two(node).filter(|_| node.is("Div"))?;
    if let Some(expand) = look.made_by(under, "Expand") {
        inner.insert(under);
        under = first(expand)?;
    }
    let held = bounded(look, under).filter(|held| held.high == f64::INFINITY)?;
    inner.extend(held.inner);
    let (norm, epsilon) = (held.value, held.low);
    inner.insert(norm);
    let axis = match look.made_by(norm, "Sqrt") {
        Some(root) => sum_of_squares(look, first(root)?, x, inner)?,
        None => {
            let (of, axes) = reduced(look, norm, "ReduceL2")?;
            let [axis] = *axes.as_slice() else { return None };
            (of == x).then_some(axis)?
        }
    };
    Some(Parts { x, axis, epsilon, bound: Bound::Norm })
}

/// Returns the axis along which `sum` is the sum of the squares of `x`.
fn sum_of_squares(look: &Look, sum: ValueId, x: ValueId, inner: &mut BTreeSet<ValueId>) -> Option<usize> {
    inner.insert(sum);
    let (of, axes) = match reduced(look, sum, "ReduceSumSquare") {
        Some(found) => found,
        None => {
            let (square, axes) = reduced(look, sum, "ReduceSum")?;
            inner.insert(square);
            (squared(look, square)?, axes)
        }
    };
    let [axis] = *axes.as_slice() else { return None };
    (of == x).then_some(axis)
}
