//! Operators after a reduction or a softmax.

use crate::error::Result;
use crate::graph::{Attribute, Graph, Node};
use crate::op;
use crate::pass::pattern::{Readers, producer};

use super::{Edits, input, int, only_output};

/// Fuses a reduction and the Unsqueeze of its axes to a reduction with `keepdims`.
pub(crate) fn fuse_unsqueezes(graph: &mut Graph) -> Result<bool> {
    let readers = Readers::of(graph);
    let mut edits = Edits::default();
    for (id, node) in graph.nodes() {
        let reduces = node.op_type.starts_with("Reduce") || node.is("ArgMax") || node.is("ArgMin");
        if !reduces || !node.domain.is_empty() || int(node, "keepdims") != Some(0) {
            continue;
        }
        let Some(output) = only_output(node) else { continue };
        let Some(reader) = readers.only(output) else { continue };
        let Some(last) = graph.node(reader).filter(|node| node.is("Unsqueeze")) else { continue };
        if input(last, 0) != Some(output) {
            continue;
        }
        let mut kept = Node { outputs: last.outputs.clone(), ..node.clone() };
        kept.attributes.insert("keepdims".into(), Attribute::Int(1));
        let shape = only_output(last).and_then(|output| graph.value(output).shape.clone());
        if shape.is_some() && op::infer_shape(graph, &kept) == shape {
            edits.replace(&[id, reader], vec![kept]);
        }
    }
    edits.apply(graph)
}

/// Fuses Log of Softmax to LogSoftmax, which keeps small values.
pub(crate) fn fuse_log_softmax(graph: &mut Graph) -> Result<bool> {
    let readers = Readers::of(graph);
    let mut edits = Edits::default();
    for (id, node) in graph.nodes().filter(|(_, node)| node.is("Softmax")) {
        let Some(reader) = only_output(node).and_then(|output| readers.only(output)) else { continue };
        let Some(last) = graph.node(reader).filter(|node| node.is("Log")) else { continue };
        let fused = Node { op_type: "LogSoftmax".into(), outputs: last.outputs.clone(), ..node.clone() };
        edits.replace(&[id, reader], vec![fused]);
    }
    edits.apply(graph)
}

/// Removes a Softmax before ArgMax along the same axis: it does not change the index of the maximum.
pub(crate) fn remove_monotone(graph: &mut Graph) -> Result<bool> {
    let mut edits = Edits::default();
    for (id, node) in graph.nodes().filter(|(_, node)| node.is("ArgMax") || node.is("ArgMin")) {
        let Some(data) = input(node, 0) else { continue };
        let softmax = ["Softmax", "LogSoftmax"].iter().find_map(|op_type| producer(graph, data, op_type));
        let Some(softmax) = softmax.filter(|softmax| softmax.version >= 13) else { continue };
        let rank = graph.value(data).shape.as_ref().map_or(0, |shape| shape.len());
        let axis = |node, default| op::resolve_axis(int(node, "axis").unwrap_or(default), rank).ok();
        // ArgMin is not the same: elements that underflow to 0 are all minima.
        if node.is("ArgMax") && axis(node, 0).is_some() && axis(node, 0) == axis(softmax, -1) {
            let mut direct = node.clone();
            if let Some(slot) = direct.inputs.first_mut() {
                *slot = input(softmax, 0);
            }
            edits.replace(&[id], vec![direct]);
        }
    }
    edits.apply(graph)
}
