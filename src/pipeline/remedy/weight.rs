//! The weights of a node.

use crate::common::index::IndexSet;
use crate::graph::{Attribute, Graph, Node, ValueId};
use crate::tensor::DType;

/// Returns whether a node computes only constants and sizes.
pub(super) fn is_folded(inferred: &Graph, node: &Node) -> bool {
    let is_known = |id: &ValueId| {
        let value = inferred.value(*id);
        value.constant.is_some() || value.elements.is_some()
    };
    node.outputs.iter().flatten().all(is_known)
}

/// Returns the number of elements of the weights that a node and its bodies read or, as classical models do,
/// have as attributes, without indices and sizes. Of a constant that is computed, those from which it is
/// count: a table of zeros has none.
pub(super) fn weights(graph: &Graph, inferred: &Graph, node: &Node) -> u64 {
    let count = |id: ValueId| {
        let tensor = inferred.value(id).constant.as_ref()?;
        let is_number = !matches!(tensor.dtype(), DType::I64 | DType::I32 | DType::Bool);
        let len = u64::try_from(tensor.len()).ok().filter(|len| is_number && *len > 1)?;
        Some(if graph.value(id).constant.is_some() { len } else { len.min(sources(graph, id)) })
    };
    let listed = node.attributes.values().map(|attribute| match attribute {
        Attribute::Floats(list) if list.len() > 1 => u64::try_from(list.len()).unwrap_or(u64::MAX),
        _ => 0,
    });
    let direct: u64 = node.reads().filter_map(count).chain(listed).sum();
    let inside = node.bodies().flat_map(|body| body.nodes().map(move |(_, node)| weights(body, body, node)));
    direct + inside.sum::<u64>()
}

/// Returns the number of elements of the constants from which a value is computed.
fn sources(graph: &Graph, id: ValueId) -> u64 {
    let (mut seen, mut stack, mut count) = (IndexSet::default(), vec![id], 0_u64);
    while let Some(id) = stack.pop() {
        let value = graph.value(id);
        match (&value.constant, value.producer.and_then(|node| graph.node(node))) {
            _ if !seen.insert(id) => {}
            (Some(tensor), _) => {
                count = count.saturating_add(u64::try_from(tensor.len()).unwrap_or(u64::MAX))
            }
            (None, Some(node)) => stack.extend(node.reads()),
            (None, None) => {}
        }
    }
    count
}
