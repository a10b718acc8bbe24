//! Reductions and softmax with the operators before or after them.

use crate::error::Result;
use crate::graph::{Attribute, Graph, Node, NodeId};
use crate::op;
use crate::pass::pattern::Readers;

use super::{int, only_output, replace_patterns};

/// Merges a reduction and the Unsqueeze that restores its axes into a reduction that keeps them.
pub(crate) fn fuse_consecutive_reduce_unsqueeze(graph: &mut Graph) -> Result<bool> {
    let find = |graph: &Graph, readers: &Readers, id: NodeId, node: &Node| {
        let reduces = node.op_type.starts_with("Reduce") || node.is("ArgMax") || node.is("ArgMin");
        if !reduces || !node.domain.is_empty() || int(node, "keepdims") != Some(0) {
            return None;
        }
        let output = only_output(node)?;
        let reader = readers.only(output)?;
        let last = graph.node(reader).filter(|node| node.is("Unsqueeze") && node.input(0) == Some(output))?;
        let mut kept = Node { outputs: last.outputs.clone(), ..node.clone() };
        kept.attributes.insert("keepdims".into(), Attribute::Int(1));
        let shape = only_output(last).and_then(|output| graph.value(output).shape.clone());
        (shape.is_some() && op::infer_shape(graph, &kept) == shape).then_some((vec![id, reader], kept))
    };
    replace_patterns(graph, find, |_, kept| Ok(Some(vec![kept])))
}

/// Replaces Log of Softmax by LogSoftmax, which does not underflow.
pub(crate) fn fuse_consecutive_log_softmax(graph: &mut Graph) -> Result<bool> {
    let find = |graph: &Graph, readers: &Readers, id: NodeId, node: &Node| {
        let reader = readers.only(only_output(node).filter(|_| node.is("Softmax"))?)?;
        let last = graph.node(reader).filter(|node| node.is("Log"))?;
        let fused = Node { op_type: "LogSoftmax".into(), outputs: last.outputs.clone(), ..node.clone() };
        Some((vec![id, reader], fused))
    };
    replace_patterns(graph, find, |_, fused| Ok(Some(vec![fused])))
}
