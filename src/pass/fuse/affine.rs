//! Scale and bias after a normalization, moved into the normalization.
//!
//! `norm(x) * scale + bias` to `norm(x, scale, bias)`, also with a Transpose between the two.

use std::collections::BTreeSet;

use super::layer_norm::{inverse, to_attribute};
use super::{Build, Found, Look, first, fuse, orders};
use crate::error::Result;
use crate::graph::{Attribute, Graph, Node, ValueId};
use crate::op;

/// The normalization, and the constant that is multiplied with it or added to it.
struct Parts {
    norm: Node,
    /// The permutation between the normalization and the arithmetic.
    perm: Option<Vec<usize>>,
    constant: ValueId,
    /// The shape of the constant, extended to the rank of the result.
    full: Vec<i64>,
    /// The shape that the parameter of the normalization gets.
    place: Vec<i64>,
    adds: bool,
}

pub(crate) fn fuse_affine(graph: &mut Graph) -> Result<bool> {
    fuse(graph, find, build)
}

fn find(look: &Look, node: &Node) -> Option<Found<Parts>> {
    if !node.is("Mul") && !node.is("Add") {
        return None;
    }
    let adds = node.is("Add");
    let result = node.outputs.first().copied().flatten()?;
    orders(node).find_map(|(value, constant)| {
        look.graph.value(constant).constant.as_ref()?;
        let mut inner = BTreeSet::from([value]);
        let mut norm = look.graph.node(look.graph.value(value).producer?)?;
        let mut perm = None;
        if norm.is("Transpose") {
            let Some(Attribute::Ints(axes)) = norm.attributes.get("perm") else { return None };
            let axes: Option<Vec<usize>> = axes.iter().map(|axis| usize::try_from(*axis).ok()).collect();
            perm = Some(axes?);
            let before = first(norm)?;
            inner.insert(before);
            norm = look.graph.node(look.graph.value(before).producer?)?;
        }
        let rank = look.rank(result)?;
        let given = look.sizes(constant)?;
        let mut full = vec![1; rank.checked_sub(given.len())?];
        full.extend(given);
        let seen = match &perm {
            Some(perm) => inverse(perm).iter().map(|axis| full.get(*axis).copied()).collect::<Option<_>>()?,
            None => full.clone(),
        };
        let place = place(look, norm, &seen, adds)?;
        if !look.alike(value, result) || norm.outputs.iter().skip(1).any(Option::is_some) {
            return None;
        }
        let parts = Parts { norm: norm.clone(), perm, constant, full, place, adds };
        Some(Found { inner, parts })
    })
}

/// Returns the shape of a constant as a parameter of a normalization, if it can be one.
fn place(look: &Look, norm: &Node, seen: &[i64], adds: bool) -> Option<Vec<i64>> {
    let is_constant =
        |input: &Option<ValueId>| input.is_none_or(|id| look.graph.value(id).constant.is_some());
    if !norm.domain.is_empty() || !norm.inputs.iter().skip(1).all(is_constant) {
        return None;
    }
    let since = op::find(norm)?.since_version(norm.version)?;
    let x = first(norm)?;
    let shape = look.shape(x)?;
    match norm.op_type.as_str() {
        "LayerNormalization" | "RMSNormalization" => {
            if adds && norm.is("RMSNormalization") {
                return None;
            }
            let axis = match norm.attributes.get("axis") {
                Some(Attribute::Int(axis)) => op::resolve_axis(*axis, shape.len()).ok()?,
                _ => shape.len().checked_sub(1)?,
            };
            let (outer, rows) = (seen.get(..axis)?, seen.get(axis..)?);
            // One element, or one for each position of a row: the layer has no other form.
            let whole = rows.iter().zip(shape.get(axis..)?).all(|(a, b)| b.is(*a));
            let is_one = rows.iter().all(|size| *size == 1);
            (outer.iter().all(|size| *size == 1) && (whole || is_one)).then(|| rows.to_vec())
        }
        "InstanceNormalization" | "GroupNormalization" => {
            // Before version 21 the scale has an element for each group, not for each channel.
            if norm.is("GroupNormalization") && since < 21 {
                return None;
            }
            let [batch, channels, spatial @ ..] = seen else { return None };
            let fits = *channels == 1 || shape.get(1)?.is(*channels);
            (*batch == 1 && fits && spatial.iter().all(|size| *size == 1)).then(|| vec![*channels])
        }
        _ => None,
    }
}

fn build(made: &mut Build, parts: Parts) -> Result<()> {
    let Parts { norm, perm, constant, full, place, adds } = parts;
    let mut parameter = constant;
    if let Some(perm) = &perm {
        let full = made.ints(&full)?;
        parameter = made.op("Reshape", &[parameter, full], &[])?;
        parameter = made.op("Transpose", &[parameter], &[("perm", to_attribute(&inverse(perm))?)])?;
    }
    let shape = made.ints(&place)?;
    parameter = made.op("Reshape", &[parameter, shape], &[])?;
    let input = |index: usize| norm.inputs.get(index).copied().flatten();
    let (x, mut scale, mut bias) = (input(0), input(1), input(2));
    if adds {
        bias = Some(match bias {
            Some(bias) => made.op("Add", &[bias, parameter], &[])?,
            None => parameter,
        });
    } else {
        for factor in [&mut scale, &mut bias].into_iter().flatten() {
            *factor = made.op("Mul", &[*factor, parameter], &[])?;
        }
    }
    let inputs: Vec<ValueId> = [x, scale, bias].into_iter().flatten().collect();
    let attributes: Vec<(&str, Attribute)> =
        norm.attributes.iter().map(|(name, a)| (name.as_str(), a.clone())).collect();
    match perm {
        None => made.last(&norm.op_type, &inputs, &attributes),
        Some(perm) => {
            let normal = made.op(&norm.op_type, &inputs, &attributes)?;
            made.last("Transpose", &[normal], &[("perm", to_attribute(&perm)?)]);
        }
    }
    Ok(())
}
