//! Products whose inputs onnxruntime rounds to int8, as their attribute permits.

use super::pattern::int;
use crate::graph::{Graph, NodeId};

/// The attribute that permits rounding, and the value that permits int8 (`contrib_ops/cpu/quantization`).
const LEVEL: &str = "accuracy_level";
const INT8: i64 = 4;

/// Returns the nodes whose inputs onnxruntime rounds.
pub(crate) fn rounded_nodes(graph: &Graph) -> Vec<NodeId> {
    let rounded = graph.nodes().filter(|(_, node)| int(node, LEVEL) == Some(INT8));
    rounded.map(|(id, _)| id).collect()
}

/// Changes nodes so that onnxruntime rounds no input of them.
pub(crate) fn permit_no_rounding(graph: &mut Graph) {
    for id in rounded_nodes(graph) {
        if let Some(node) = graph.node_mut(id) {
            node.attributes.remove(LEVEL);
        }
    }
}
