//! Removal of nodes that forward an input.

use crate::common::index::{IndexMap, IndexSet};
use crate::error::Result;
use crate::graph::Graph;
use crate::op;
use crate::pass::pattern::Readers;

/// Removes nodes of these operators that forward an input; their readers read the input. A graph output keeps
/// its node, and so its name.
pub fn remove_identities(graph: &mut Graph, op_types: &[&str]) -> Result<bool> {
    let mut found = Vec::new();
    for (id, node) in graph.nodes() {
        if !node.domain.is_empty() || !op_types.contains(&node.op_type.as_str()) {
            continue;
        }
        let forwarded = op::find(node).and_then(|op| op.identity).and_then(|rule| rule(graph, node));
        let (Some(input), Some(Some(output))) = (forwarded, node.outputs.first()) else { continue };
        if node.outputs.iter().skip(1).all(Option::is_none) {
            found.push((id, input, *output));
        }
    }
    if found.is_empty() {
        return Ok(false);
    }
    let readers = Readers::of(graph);
    let mut map = IndexMap::default();
    let mut removed = IndexSet::default();
    for (id, input, output) in found {
        let is_output = readers.is_output(output);
        if !is_output {
            removed.insert(id);
        }
        if !is_output || !readers.all(output).is_empty() {
            map.insert(output, input);
        }
    }
    graph.redirect(&map);
    graph.remove_nodes(&removed);
    Ok(!map.is_empty())
}
