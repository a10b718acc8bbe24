//! `y = reshape(InstanceNormalization(reshape(x, [n, groups, ...]), scale, bias), shape(x))`
//!
//! becomes `GroupNormalization(x, scale', bias')` with the scale and the bias of each group repeated for its
//! channels, if `groups` divides the channels and scale and bias are constants.

use std::sync::LazyLock;

use super::matcher::{Found, Matcher, fuse};
use super::text::Pattern;
use crate::error::Result;
use crate::graph::{Graph, Node, ValueId};
use crate::pass::builder::{Builder, Expr};

static NORMALIZED: LazyLock<Pattern> = LazyLock::new(|| {
    Pattern::of("Reshape(normal = InstanceNormalization(grouped = Reshape(x, groups), scale, bias), shape)")
});

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
    let found = NORMALIZED.matches(matcher, y).pop()?;
    let [x, grouped, normal, scale, bias] = found.values(["x", "grouped", "normal", "scale", "bias"])?;
    let [batch, channels, _, ..] = matcher.shape(x)? else { return None };
    let [same_batch, groups, _, ..] = matcher.shape(grouped)? else { return None };
    let (channels, groups) = (channels.known()?, groups.known()?);
    let fits = batch == same_batch
        && channels.checked_rem(groups) == Some(0)
        && matcher.alike(x, y)
        && [scale, bias].iter().all(|parameter| matcher.constant(*parameter).is_some());
    let channels_per_group = channels.checked_div(groups)?;
    let norm = matcher.producer(normal)?.clone();
    fits.then_some(Found { inner: found.inner, parts: Parts { x, norm, groups, channels_per_group } })
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
