//! Transposes in a row.

use crate::error::Result;
use crate::graph::{Attribute, Graph, Node};
use crate::ops;
use crate::pass::pattern::producer;

use super::{Edits, input};

/// Two Transposes in a row become one.
pub(crate) fn fuse_transposes(graph: &mut Graph) -> Result<bool> {
    let mut edits = Edits::default();
    for (id, node) in graph.nodes().filter(|(_, node)| node.is("Transpose")) {
        let Some(inner) = input(node, 0).and_then(|data| producer(graph, data, "Transpose")) else {
            continue;
        };
        let (Some(first), Some(second)) = (perm_of(graph, inner), perm_of(graph, node)) else { continue };
        let both: Option<Vec<i64>> =
            second.iter().map(|axis| i64::try_from(*first.get(*axis)?).ok()).collect();
        let Some(both) = both else { continue };
        let mut made = Node { inputs: inner.inputs.clone(), ..node.clone() };
        made.attributes.insert("perm".to_owned(), Attribute::Ints(both));
        edits.replace(&[id], vec![made]);
    }
    edits.apply(graph)
}

/// The order of axes of a Transpose.
pub(super) fn perm_of(graph: &Graph, node: &Node) -> Option<Vec<usize>> {
    let rank = graph.value(input(node, 0)?).shape.as_ref()?.len();
    match node.attributes.get("perm") {
        None => Some((0..rank).rev().collect()),
        Some(Attribute::Ints(perm)) => perm.iter().map(|axis| ops::resolve_axis(*axis, rank).ok()).collect(),
        Some(_) => None,
    }
}
