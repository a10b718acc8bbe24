//! GroupNormalization: `reshape(instance_norm(reshape(x, [n, groups, ..])), shape(x))`.

use std::collections::BTreeSet;

use super::{Build, Found, Look, first, fuse};
use crate::error::Result;
use crate::graph::{Attribute, Graph, Node, ValueId};

struct Parts {
    x: ValueId,
    norm: Node,
    groups: i64,
    /// The number of channels of a group.
    inner: i64,
}

pub(crate) fn fuse_group_norm(graph: &mut Graph) -> Result<bool> {
    fuse(graph, find, build)
}

fn find(look: &Look, node: &Node) -> Option<Found<Parts>> {
    let result = node.outputs.first().copied().flatten()?;
    let normal = first(node).filter(|_| node.is("Reshape"))?;
    let norm = look.made_by(normal, "InstanceNormalization")?;
    let grouped = first(norm)?;
    let x = first(look.made_by(grouped, "Reshape")?)?;
    let (from, by_groups) = (look.shape(x)?, look.shape(grouped)?);
    let ([batch, channels, _, ..], [same_batch, groups, _, ..]) = (from, by_groups) else { return None };
    let (channels, groups) = (channels.known()?, groups.known()?);
    let is_constant =
        |input: &Option<ValueId>| input.is_some_and(|id| look.graph.value(id).constant.is_some());
    let fits = batch == same_batch
        && channels.checked_rem(groups) == Some(0)
        && look.alike(x, result)
        && norm.inputs.iter().skip(1).all(is_constant);
    let inner = BTreeSet::from([normal, grouped]);
    let parts = Parts { x, norm: norm.clone(), groups, inner: channels.checked_div(groups)? };
    fits.then_some(Found { inner, parts })
}

fn build(made: &mut Build, parts: Parts) -> Result<()> {
    let Parts { x, norm, groups, inner } = parts;
    let mut inputs = vec![x];
    // Scale and bias of a group, repeated for each of its channels.
    for parameter in norm.inputs.iter().skip(1).flatten() {
        let column = made.ints(&[groups, 1])?;
        let column = made.op("Reshape", &[*parameter, column], &[])?;
        let spread = made.ints(&[groups, inner])?;
        let spread = made.op("Expand", &[column, spread], &[])?;
        let list = made.ints(&[groups * inner])?;
        inputs.push(made.op("Reshape", &[spread, list], &[])?);
    }
    let mut attributes = vec![("num_groups", Attribute::Int(groups))];
    attributes.extend(norm.attributes.get("epsilon").map(|epsilon| ("epsilon", epsilon.clone())));
    made.last("GroupNormalization", &inputs, &attributes);
    Ok(())
}
