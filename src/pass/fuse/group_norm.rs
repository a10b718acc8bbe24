//! `y = reshape(InstanceNormalization(reshape(x, [n, groups, ...]), scale, bias), shape(x))`
//!
//! becomes `GroupNormalization(x, scale', bias')` with the scale and the bias of each group repeated for its
//! channels, if `groups` divides the channels and scale and bias are constants.

use std::collections::BTreeSet;

use super::matcher::{Found, Matcher, fuse};
use crate::error::Result;
use crate::graph::{Graph, Node, ValueId};
use crate::pass::builder::{Builder, Expr};

struct Parts {
    x: ValueId,
    norm: Node,
    groups: i64,
    channels_per_group: i64,
}

pub(crate) fn fuse_group_norm(graph: &mut Graph) -> Result<bool> {
    fuse(graph, find, build)
}

fn find(matcher: &Matcher, node: &Node) -> Option<Found<Parts>> {
    let y = node.output(0)?;
    let normal = node.input(0).filter(|_| node.is("Reshape"))?;
    let norm = matcher.made_by(normal, "InstanceNormalization")?;
    let grouped = norm.input(0)?;
    let x = matcher.made_by(grouped, "Reshape")?.input(0)?;
    let [batch, channels, _, ..] = matcher.shape(x)? else { return None };
    let [same_batch, groups, _, ..] = matcher.shape(grouped)? else { return None };
    let (channels, groups) = (channels.known()?, groups.known()?);
    let fits = batch == same_batch
        && channels.checked_rem(groups) == Some(0)
        && matcher.alike(x, y)
        && norm.inputs.iter().skip(1).all(|input| input.is_some_and(|id| matcher.constant(id).is_some()));
    let channels_per_group = channels.checked_div(groups)?;
    let parts = Parts { x, norm: norm.clone(), groups, channels_per_group };
    fits.then_some(Found { inner: BTreeSet::from([normal, grouped]), parts })
}

fn build<'b>(made: &'b Builder<'b>, parts: Parts) -> Result<Expr<'b>> {
    let Parts { x, norm, groups, channels_per_group } = parts;
    let mut inputs = vec![made.value(x)];
    for parameter in norm.inputs.iter().skip(1).flatten() {
        let column = made.value(*parameter).reshape(&[groups, 1]);
        let repeated = column.broadcast_to(made.ints(&[groups, channels_per_group]));
        inputs.push(repeated.reshape(&[groups * channels_per_group]));
    }
    let epsilon = norm.attributes.get("epsilon").map(|epsilon| ("epsilon", epsilon.clone()));
    let attributes = [("num_groups", groups.into())].into_iter().chain(epsilon);
    Ok(made.op("GroupNormalization", inputs, attributes))
}
