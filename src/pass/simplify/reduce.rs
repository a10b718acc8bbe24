//! Reductions and softmax with the operators before or after them.

use crate::error::Result;
use crate::graph::{Attribute, Graph, Node};
use crate::op;
use crate::pass::pattern::Readers;

use super::{Edits, input, int, only_output};

/// Merges a reduction and the Unsqueeze that restores its axes into a reduction that keeps them.
pub(crate) fn fuse_consecutive_reduce_unsqueeze(graph: &mut Graph) -> Result<bool> {
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

/// Replaces Log of Softmax by LogSoftmax, which does not underflow.
pub(crate) fn fuse_consecutive_log_softmax(graph: &mut Graph) -> Result<bool> {
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
