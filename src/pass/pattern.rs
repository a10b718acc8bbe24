//! Queries of a graph for passes that search for patterns.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::common::index::IndexLists;
use crate::graph::{Graph, Node, NodeId, ValueId};

/// The readers of each value of a graph, at the time of the construction.
#[derive(Debug, Default)]
pub(crate) struct Readers {
    readers: Arc<IndexLists<ValueId, NodeId>>,
    outputs: BTreeSet<ValueId>,
}

impl Readers {
    /// Collects the readers of every value; a node that reads a value twice is listed twice.
    pub fn of(graph: &Graph) -> Readers {
        Readers { readers: graph.readers(), outputs: graph.outputs.iter().copied().collect() }
    }

    /// Returns the nodes that read a value.
    pub fn all(&self, value: ValueId) -> &[NodeId] {
        self.readers.get(value)
    }

    /// Returns whether a value is an output of the graph.
    pub fn is_output(&self, value: ValueId) -> bool {
        self.outputs.contains(&value)
    }

    /// Returns the only reader of a value that is not an output of the graph.
    pub fn only(&self, value: ValueId) -> Option<NodeId> {
        match self.all(value) {
            [reader] if !self.is_output(value) => Some(*reader),
            _ => None,
        }
    }
}

/// Returns the element of a constant of one element, of any rank.
pub(crate) fn scalar(graph: &Graph, value: ValueId) -> Option<f64> {
    let tensor = graph.value(value).constant.as_ref()?;
    if tensor.shape().iter().any(|size| *size != 1) {
        return None;
    }
    tensor.load_listed().ok()?.to_f64().ok()?.first().copied()
}

/// Returns the producer of a value, if it is this operator of ONNX's own domain.
pub(crate) fn producer<'a>(graph: &'a Graph, value: ValueId, op_type: &str) -> Option<&'a Node> {
    graph.node(graph.value(value).producer?).filter(|node| node.is(op_type))
}
