//! Reductions and softmax with the operators before or after them.

use crate::error::Result;
use crate::graph::{Attribute, Graph, Node};
use crate::op;
use crate::pass::pattern::{Readers, producer};

use super::{int, only_output};

/// Merges a reduction and the Unsqueeze that restores its axes into a reduction that keeps them.
pub(crate) fn fuse_consecutive_reduce_unsqueeze(graph: &mut Graph) -> Result<bool> {
    let readers = Readers::of(graph);
    let find = |graph: &Graph, last: &Node| {
        let output = last.input(0).filter(|_| last.is("Unsqueeze"))?;
        let node = graph.producer(output).filter(|_| readers.only(output).is_some())?;
        let reduces = node.op_type.starts_with("Reduce") || node.is("ArgMax") || node.is("ArgMin");
        if !reduces || !node.domain.is_empty() || int(node, "keepdims") != Some(0) {
            return None;
        }
        only_output(node)?;
        let mut kept = Node { outputs: last.outputs.clone(), ..node.clone() };
        kept.attributes.insert("keepdims".into(), Attribute::Int(1));
        let shape = only_output(last).and_then(|output| graph.value(output).shape.clone());
        (shape.is_some() && op::infer_shape(graph, &kept) == shape).then_some(kept)
    };
    graph.replace_nodes(find, |_, _, kept| Ok(Some(vec![kept])))
}

/// Replaces Log of Softmax by LogSoftmax, which does not underflow.
pub(crate) fn fuse_consecutive_log_softmax(graph: &mut Graph) -> Result<bool> {
    let readers = Readers::of(graph);
    let find = |graph: &Graph, last: &Node| {
        let output = last.input(0).filter(|output| last.is("Log") && readers.only(*output).is_some())?;
        let softmax = producer(graph, output, "Softmax")?;
        Some(Node { op_type: "LogSoftmax".into(), outputs: last.outputs.clone(), ..softmax.clone() })
    };
    graph.replace_nodes(find, |_, _, fused| Ok(Some(vec![fused])))
}
