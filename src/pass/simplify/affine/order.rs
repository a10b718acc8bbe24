//! Channels in another order before a convolution: the weight takes the order.

use crate::error::Result;
use crate::graph::{Graph, Node, ValueId};
use crate::pass::pattern::{Readers, constant_ints, producer};

use super::super::{int, only_output};
use crate::op::NEWEST_OPSET;
use crate::pass::builder::replacement_of;

/// A Conv and the Gather before it.
struct Found {
    data: ValueId,
    weight: ValueId,
    /// The index in the weight of each channel of `data`.
    positions: Vec<i64>,
}

/// Merges a Gather that only reorders channels into the weight of the Conv after it.
pub(crate) fn fuse_channel_order_into_conv(graph: &mut Graph) -> Result<bool> {
    let readers = Readers::of(graph);
    let find = |graph: &Graph, node: &Node| find(graph, &readers, node);
    graph.replace_nodes(find, |graph, conv, Found { data, weight, positions }| {
        replacement_of(graph, conv, NEWEST_OPSET, |made| {
            let reordered = made.value(weight).gather(made.ints(&positions), 1).named_after(weight);
            let bias = conv.input(2).map(|bias| made.value(bias));
            let inputs = [Some(made.value(data)), Some(reordered)].into_iter().chain(bias.map(Some));
            made.only_copy_of(conv, &inputs.collect::<Vec<_>>()).map(Some)
        })
    })
}

fn find(graph: &Graph, readers: &Readers, node: &Node) -> Option<Found> {
    if !node.is("Conv") || int(node, "group").unwrap_or(1) != 1 || only_output(node).is_none() {
        return None;
    }
    let (value, weight) = (node.input(0)?, node.input(1)?);
    let gather = producer(graph, value, "Gather").filter(|_| readers.only(value).is_some())?;
    let (data, indices) = (gather.input(0)?, gather.input(1)?);
    let channels = *graph.value(weight).constant.as_ref()?.shape().get(1)?;
    let order = constant_ints(graph, indices).filter(|order| order.len() == channels)?;
    let is_list = graph.value(indices).shape.as_deref().is_some_and(|shape| shape.len() == 1);
    if int(gather, "axis") != Some(1) || !is_list || graph.value(data).constant.is_some() {
        return None;
    }
    let position_of = |channel| order.iter().position(|from| usize::try_from(*from) == Ok(channel));
    let positions =
        (0..channels).map(|channel| i64::try_from(position_of(channel)?).ok()).collect::<Option<_>>()?;
    Some(Found { data, weight, positions })
}
