//! LayerNormalization and InstanceNormalization: `(x - mean(x)) / sqrt(mean((x - mean(x))^2) + eps)`;
//! RMSNormalization: `x / sqrt(mean(x^2) + eps)`.
//!
//! [`affine`](super::affine) adds scale and bias.

use std::collections::BTreeSet;

use super::swish::single;
use super::{Build, Found, Look, first, fuse, orders, two};
use crate::error::Result;
use crate::graph::{Attribute, Graph, Node, ValueId};
use crate::op;

/// A normalization without scale and bias.
struct Parts {
    x: ValueId,
    /// The axes, in order.
    axes: Vec<usize>,
    rank: usize,
    epsilon: f64,
    /// Whether the mean is subtracted.
    centered: bool,
}

pub(crate) fn fuse_layer_norm(graph: &mut Graph) -> Result<bool> {
    fuse(graph, |look, node| find(look, node).filter(|found| found.parts.centered), build)
}

pub(crate) fn fuse_rms_norm(graph: &mut Graph) -> Result<bool> {
    fuse(graph, |look, node| find(look, node).filter(|found| !found.parts.centered), build)
}

fn find(look: &Look, node: &Node) -> Option<Found<Parts>> {
    let result = node.outputs.first().copied().flatten()?;
    let mut inner = BTreeSet::new();
    let (value, squares) = quotient(look, node, &mut inner)?;
    let sum = look.made_by(squares, "Add")?;
    let (mean_of_squares, epsilon) =
        orders(sum).find_map(|(mean, epsilon)| Some((mean, look.number(epsilon)?)))?;
    inner.extend([squares, mean_of_squares]);
    let (square, axes) = mean(look, mean_of_squares)?;
    inner.insert(square);
    let squared = squared(look, square)?;
    let (x, centered) = match (centered(look, value, &axes), centered(look, squared, &axes)) {
        (Some(a), Some(b)) if a.x == b.x => {
            inner.extend([value, squared, a.mean, b.mean]);
            (a.x, true)
        }
        _ if value == squared => (value, false),
        _ => return None,
    };
    let shape = look.shape(x)?;
    // The layers need the sizes.
    let fixed = axes.iter().all(|axis| shape.get(*axis).is_some_and(|size| size.known().is_some()));
    let (rank, is_alike) = (shape.len(), look.alike(x, result));
    (fixed && is_alike && epsilon > 0.0)
        .then_some(Found { inner, parts: Parts { x, axes, rank, epsilon, centered } })
}

/// Returns `a` and `b` of `a / sqrt(b)`, in any of its notations.
pub(super) fn quotient(
    look: &Look,
    node: &Node,
    inner: &mut BTreeSet<ValueId>,
) -> Option<(ValueId, ValueId)> {
    if node.is("Div") {
        let [a, root] = two(node)?;
        inner.insert(root);
        return Some((a, under_root(look, root)?));
    }
    if !node.is("Mul") {
        return None;
    }
    orders(node).find_map(|(a, inverse)| {
        let found = if let Some(power) = look.made_by(inverse, "Pow") {
            let [base, exponent] = two(power)?;
            (look.number(exponent) == Some(-0.5)).then_some((None, base))?
        } else {
            let root = match look.made_by(inverse, "Reciprocal") {
                Some(reciprocal) => first(reciprocal)?,
                None => {
                    let [one, root] = two(look.made_by(inverse, "Div")?)?;
                    look.is_number(one, 1.0).then_some(root)?
                }
            };
            (Some(root), under_root(look, root)?)
        };
        inner.insert(inverse);
        inner.extend(found.0);
        Some((a, found.1))
    })
}

fn under_root(look: &Look, root: ValueId) -> Option<ValueId> {
    if let Some(node) = look.made_by(root, "Sqrt") {
        return first(node);
    }
    let [base, exponent] = two(look.made_by(root, "Pow")?)?;
    (look.number(exponent) == Some(0.5)).then_some(base)
}

/// Returns `x` of `x^2`.
pub(super) fn squared(look: &Look, square: ValueId) -> Option<ValueId> {
    if let Some(node) = look.made_by(square, "Pow") {
        let [base, exponent] = two(node)?;
        return (look.number(exponent) == Some(2.0)).then_some(base);
    }
    let [a, b] = two(look.made_by(square, "Mul")?)?;
    (a == b).then_some(a)
}

struct Centered {
    x: ValueId,
    mean: ValueId,
}

/// Returns `x` of `x - mean(x)` along these axes.
fn centered(look: &Look, value: ValueId, axes: &[usize]) -> Option<Centered> {
    let [x, of] = two(look.made_by(value, "Sub")?)?;
    let (averaged, along) = mean(look, of)?;
    (averaged == x && along == axes).then_some(Centered { x, mean: of })
}

/// Returns the operand and the axes of a mean that keeps its axes.
fn mean(look: &Look, value: ValueId) -> Option<(ValueId, Vec<usize>)> {
    reduced(look, value, "ReduceMean")
}

/// Returns the operand and the axes of a reduction that keeps its axes.
pub(super) fn reduced(look: &Look, value: ValueId, op_type: &str) -> Option<(ValueId, Vec<usize>)> {
    let node = look.made_by(value, op_type)?;
    let x = first(node)?;
    let rank = look.rank(x)?;
    let given: Vec<i64> = match node.inputs.get(1).copied().flatten() {
        Some(axes) => look.graph.value(axes).constant.as_ref()?.load_listed().ok()?.int_list().ok()?,
        None => match node.attributes.get("axes") {
            Some(Attribute::Ints(axes)) => axes.clone(),
            _ => return None,
        },
    };
    if matches!(node.attributes.get("keepdims"), Some(Attribute::Int(0))) {
        return None;
    }
    let axes: Option<BTreeSet<usize>> = given.iter().map(|axis| op::resolve_axis(*axis, rank).ok()).collect();
    let axes: Vec<usize> = axes?.into_iter().collect();
    (!axes.is_empty()).then_some((x, axes))
}

fn build(made: &mut Build, parts: Parts) -> Result<()> {
    let Parts { x, axes, rank, epsilon, centered } = parts;
    let epsilon = ("epsilon", Attribute::Float(single(epsilon)));
    let sizes = made.known_sizes(x);
    let is_spatial = rank >= 4 && axes.iter().copied().eq(2..rank);
    if let Some(channels) = sizes.get(1).copied().flatten().filter(|_| centered && is_spatial) {
        let (scale, bias) = (made.filled(1.0, &[channels], x)?, made.filled(0.0, &[channels], x)?);
        made.last("InstanceNormalization", &[x, scale, bias], &[epsilon]);
        return Ok(());
    }
    // One element is broadcast, and is not a weight.
    let scale = made.filled(1.0, &[1], x)?;
    let op_type = if centered { "LayerNormalization" } else { "RMSNormalization" };
    let axis = ("axis", Attribute::Int(-i64::try_from(axes.len())?));
    if axes.iter().copied().eq(rank - axes.len()..rank) {
        made.last(op_type, &[x, scale], &[axis, epsilon]);
        return Ok(());
    }
    let mut perm: Vec<usize> = (0..rank).filter(|axis| !axes.contains(axis)).collect();
    perm.extend(&axes);
    let moved = made.op("Transpose", &[x], &[("perm", to_attribute(&perm)?)])?;
    let normal = made.op(op_type, &[moved, scale], &[axis, epsilon])?;
    made.last("Transpose", &[normal], &[("perm", to_attribute(&inverse(&perm))?)]);
    Ok(())
}

/// Returns a list of indices as an attribute.
pub(super) fn to_attribute(places: &[usize]) -> Result<Attribute> {
    let list: std::result::Result<Vec<i64>, _> = places.iter().map(|place| i64::try_from(*place)).collect();
    Ok(Attribute::Ints(list?))
}

/// Returns the inverse of a permutation.
pub(super) fn inverse(perm: &[usize]) -> Vec<usize> {
    (0..perm.len()).map(|axis| perm.iter().position(|from| *from == axis).unwrap_or(axis)).collect()
}
