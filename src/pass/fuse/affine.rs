//! `y = norm(x) * scale` and `y = norm(x) + bias` `y = transpose(norm(x)) * scale` and `y =
//! transpose(norm(x)) + bias`
//!
//! becomes `norm(x)`, or `transpose(norm(x))`, with scale or bias among the parameters of the normalization,
//! if they and the parameters are constants. A scale multiplies the bias that the normalization has.

use std::collections::BTreeSet;

use super::matcher::{Found, Matcher, fuse, orders};
use crate::error::Result;
use crate::graph::{Graph, Node, ValueId};
use crate::op;
use crate::pass::builder::{Builder, Expr};
use crate::pass::pattern::{axis, inverse, perm_of};

struct Parts {
    norm: Node,
    /// The permutation between the normalization and the arithmetic.
    perm: Option<Vec<usize>>,
    constant: ValueId,
    /// The sizes of the constant, extended to the rank of the result.
    extended: Vec<i64>,
    /// The shape of the parameter.
    shape: Vec<i64>,
    adds: bool,
}

pub(crate) fn fuse_norm_affine(graph: &mut Graph) -> Result<bool> {
    fuse(graph, find, build)
}

fn find(matcher: &Matcher, node: &Node) -> Option<Found<Parts>> {
    let adds = node.is("Add");
    let y = node.output(0).filter(|_| adds || node.is("Mul"))?;
    orders(node).find_map(|(value, constant)| {
        matcher.constant(constant)?;
        let mut inner = BTreeSet::from([value]);
        let mut norm = matcher.producer(value)?;
        let mut perm = None;
        if norm.is("Transpose") {
            perm = Some(perm_of(matcher.graph, norm)?);
            let normal = norm.input(0)?;
            inner.insert(normal);
            norm = matcher.producer(normal)?;
        }
        let sizes = matcher.sizes(constant)?;
        let mut extended = vec![1; matcher.rank(y)?.checked_sub(sizes.len())?];
        extended.extend(sizes);
        let before = match &perm {
            Some(perm) => {
                inverse(perm).iter().map(|axis| extended.get(*axis).copied()).collect::<Option<_>>()?
            }
            None => extended.clone(),
        };
        let shape = parameter_shape(matcher, norm, &before, adds)?;
        if !matcher.alike(value, y) || norm.outputs.iter().skip(1).any(Option::is_some) {
            return None;
        }
        Some(Found { inner, parts: Parts { norm: norm.clone(), perm, constant, extended, shape, adds } })
    })
}

/// The shape of a constant of these sizes as a parameter of a normalization, if it can be one.
fn parameter_shape(matcher: &Matcher, norm: &Node, sizes: &[i64], adds: bool) -> Option<Vec<i64>> {
    if !norm.domain.is_empty()
        || !norm.inputs.iter().skip(1).flatten().all(|id| matcher.constant(*id).is_some())
    {
        return None;
    }
    let since = op::find(norm)?.since_version(norm.version)?;
    let shape = matcher.shape(norm.input(0)?)?;
    let are_one = |sizes: &[i64]| sizes.iter().all(|size| *size == 1);
    match norm.op_type.as_str() {
        "RMSNormalization" if adds => None,
        "LayerNormalization" | "RMSNormalization" => {
            let axis = axis(norm, -1, shape.len())?;
            let (outer, inner) = (sizes.get(..axis)?, sizes.get(axis..)?);
            // The layer has one scale, or one for each normalized element.
            let is_whole = inner.iter().zip(shape.get(axis..)?).all(|(size, of_x)| of_x.is(*size));
            (are_one(outer) && (is_whole || are_one(inner))).then(|| inner.to_vec())
        }
        // Before version 21, the scale is one for each group.
        "GroupNormalization" if since < 21 => None,
        "InstanceNormalization" | "GroupNormalization" => {
            let [batch, channels, spatial @ ..] = sizes else { return None };
            let fits = *channels == 1 || shape.get(1)?.is(*channels);
            (*batch == 1 && fits && are_one(spatial)).then(|| vec![*channels])
        }
        _ => None,
    }
}

fn build<'b>(made: &'b Builder<'b>, parts: Parts) -> Result<Expr<'b>> {
    let Parts { norm, perm, constant, extended, shape, adds } = parts;
    let mut parameter = made.value(constant);
    if let Some(perm) = &perm {
        parameter = parameter.reshape(&extended).transpose(&inverse(perm));
    }
    parameter = parameter.reshape(&shape);
    let [x, mut scale, mut bias] = [0, 1, 2].map(|index| norm.input(index).map(|id| made.value(id)));
    if adds {
        bias = Some(bias.map_or(parameter, |bias| bias + parameter));
    } else {
        scale = scale.map(|scale| scale * parameter);
        bias = bias.map(|bias| bias * parameter);
    }
    let normal = made.only_copy_of(&norm, &[x, scale, bias])?;
    Ok(perm.map_or(normal, |perm| normal.transpose(&perm)))
}
