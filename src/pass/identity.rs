//! Removes nodes that hand on their input as it is.

use std::collections::{BTreeMap, BTreeSet};

use crate::error::Result;
use crate::graph::Graph;
use crate::ops;
use crate::pass::pattern::Readers;

/// Makes readers of such a node read its input. A graph output keeps its own node, and so its name.
pub fn remove_identities(graph: &mut Graph) -> Result<bool> {
    let readers = Readers::of(graph);
    let mut map = BTreeMap::new();
    let mut removed = BTreeSet::new();
    for (id, node) in graph.nodes() {
        let hands_on = ops::find(node).is_some_and(|op| op.identity.is_some_and(|holds| holds(graph, node)));
        let (Some(Some(input)), Some(Some(output))) = (node.inputs.first(), node.outputs.first()) else {
            continue;
        };
        if hands_on && node.outputs.iter().skip(1).all(Option::is_none) {
            let is_output = readers.is_output(*output);
            if !is_output {
                removed.insert(id);
            }
            if !is_output || !readers.all(*output).is_empty() {
                map.insert(*output, *input);
            }
        }
    }
    graph.redirect(&map);
    graph.remove_nodes(&removed);
    Ok(!map.is_empty())
}
