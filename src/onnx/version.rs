//! The versions that a written model imports.

use std::collections::{BTreeMap, BTreeSet};

use super::Model;
use crate::error::{Error, Result};
use crate::graph::{Graph, Node};

/// Returns the since-version of a node's operator in an operator set; `None` for an unknown operator.
pub type Since<'a> = &'a dyn Fn(&Node, i64) -> Option<i64>;

/// The first operator set of ONNX's domain that needs each IR version (`VERSION_TABLE` in
/// `onnx/helper.py`). Version 4 is the lowest that is written: before it, every constant had to be an input
/// too.
const IR_VERSIONS: &[(i64, i64)] =
    &[(10, 5), (11, 6), (12, 7), (15, 8), (19, 9), (21, 10), (23, 11), (24, 12), (25, 13)];

/// Returns the lowest IR version that permits the operator sets, but not below that of the model.
pub(super) fn ir_version(model: &Model, versions: &BTreeMap<String, i64>) -> i64 {
    let opset = versions.get("").copied().unwrap_or(1);
    let needed = IR_VERSIONS.iter().filter(|(from, _)| *from <= opset).map(|(_, ir)| *ir).max();
    needed.unwrap_or(4).max(model.ir_version)
}

/// Returns one version of each domain in which no node changes its meaning.
pub(super) fn choose_versions(graph: &Graph, since: Since) -> Result<BTreeMap<String, i64>> {
    let mut nodes = Vec::new();
    collect_nodes(graph, &mut nodes);
    let mut candidates: BTreeMap<&str, BTreeSet<i64>> = BTreeMap::from([("", BTreeSet::new())]);
    for node in &nodes {
        let of_domain = candidates.entry(&node.domain).or_default();
        of_domain.insert(node.version);
        // Candidates are the versions that introduced a meaning: the last of these is the first version with
        // all of them.
        of_domain.extend(since(node, node.version));
    }
    // Unused imports of the model stay.
    let mut versions = graph.opsets.clone();
    for (domain, candidates) in candidates {
        let of_domain = || nodes.iter().copied().filter(|node| node.domain == domain);
        let fits = |version: i64| of_domain().all(|node| keeps_meaning(node, version, since));
        // The model's version is preferred, then the oldest, which most runtimes support.
        let declared = graph.opsets.get(domain).copied();
        let version = declared.into_iter().chain(candidates).find(|version| fits(*version));
        match version {
            Some(version) => versions.insert(domain.to_owned(), version),
            None if of_domain().next().is_none() => versions.insert(domain.to_owned(), 1),
            None => return Err(no_version(&of_domain().collect::<Vec<_>>(), since)),
        };
    }
    Ok(versions)
}

fn keeps_meaning(node: &Node, version: i64, since: Since) -> bool {
    node.version == version
        || since(node, node.version).is_some_and(|meaning| since(node, version) == Some(meaning))
}

/// Returns the error for a node that does not fit the newest version.
fn no_version(nodes: &[&Node], since: Since) -> Error {
    let newest = nodes.iter().map(|node| node.version).max().unwrap_or(1);
    let error = Error::unsupported(format!(
        "it changed its meaning before operator set {newest}, which other nodes need: no \
            operator set fits all nodes"
    ));
    match nodes.iter().find(|node| !keeps_meaning(node, newest, since)) {
        Some(node) => error.at_node(|| node.at()),
        None => error,
    }
}

fn collect_nodes<'g>(graph: &'g Graph, nodes: &mut Vec<&'g Node>) {
    for (_, node) in graph.nodes() {
        nodes.push(node);
        for body in node.bodies() {
            collect_nodes(body, nodes);
        }
    }
}
