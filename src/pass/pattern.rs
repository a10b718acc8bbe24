//! What rewritings that look for a pattern ask of a graph.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::common::index::IndexLists;
use crate::graph::{Graph, Node, NodeId, ValueId};

/// Who reads each value of a graph. It tells of the graph that it was made from, not of later changes.
#[derive(Debug, Default)]
pub(crate) struct Readers {
    readers: Arc<IndexLists<ValueId, NodeId>>,
    outputs: BTreeSet<ValueId>,
}

impl Readers {
    /// The readers of every value; a node that reads a value twice is there twice.
    pub fn of(graph: &Graph) -> Readers {
        Readers { readers: graph.readers(), outputs: graph.outputs.iter().copied().collect() }
    }

    /// The nodes that read a value.
    pub fn all(&self, value: ValueId) -> &[NodeId] {
        self.readers.get(value)
    }

    /// Whether a value is an output of the graph.
    pub fn is_output(&self, value: ValueId) -> bool {
        self.outputs.contains(&value)
    }

    /// The one node that reads a value, where nothing else does, the outputs of the graph among it.
    pub fn only(&self, value: ValueId) -> Option<NodeId> {
        match self.all(value) {
            [reader] if !self.is_output(value) => Some(*reader),
            _ => None,
        }
    }
}

/// The number that a constant of one element is, however many axes it has.
pub(crate) fn scalar(graph: &Graph, value: ValueId) -> Option<f64> {
    let tensor = graph.value(value).constant.as_ref()?;
    if tensor.shape().iter().any(|size| *size != 1) {
        return None;
    }
    tensor.load_listed().ok()?.to_f64().ok()?.first().copied()
}

/// The node that computes a value, if it is this operator of ONNX's own domain.
pub(crate) fn producer<'a>(graph: &'a Graph, value: ValueId, op_type: &str) -> Option<&'a Node> {
    graph.node(graph.value(value).producer?).filter(|node| node.is(op_type))
}
