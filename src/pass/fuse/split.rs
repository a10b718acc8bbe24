//! `y1 = x[0:a], y2 = x[a:b], ..., yn = x[z:]` along one axis
//!
//! becomes `y1, ..., yn = Split(x)` instead of the first Slice, if the Slices contain each element once.

use std::collections::BTreeMap;

use smallvec::smallvec;

use super::matcher::Matcher;
use crate::common::index::IndexMap;
use crate::common::int::Int;
use crate::error::Result;
use crate::graph::{Attribute, AttributeMap, Graph, Node, NodeId, ValueId};
use crate::op::{self, NEWEST_OPSET};
use crate::pass::pattern::Readers;

/// A Slice of a part of an axis.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Part {
    start: i64,
    size: i64,
    node: NodeId,
    output: ValueId,
}

pub(crate) fn fuse_split(graph: &mut Graph) -> Result<bool> {
    let mut parts: BTreeMap<(ValueId, usize), Vec<Part>> = BTreeMap::new();
    let readers = Readers::of(graph);
    let matcher = Matcher { graph, readers: &readers };
    for (id, node) in graph.nodes().filter(|(_, node)| node.is("Slice")) {
        if let Some((x, axis, part)) = read_part(&matcher, id, node) {
            parts.entry((x, axis)).or_default().push(part);
        }
    }
    let mut found = IndexMap::default();
    for ((x, axis), mut parts) in parts {
        // The parts are in the order of the graph: nothing reads one before the first Slice.
        let slices: Vec<NodeId> = parts.iter().map(|part| part.node).collect();
        parts.sort();
        let whole = graph.value(x).shape.as_ref().and_then(|shape| shape.get(axis)?.known());
        let end = parts.iter().try_fold(0, |end, part| (part.start == end).then_some(end + part.size));
        if parts.len() < 2 || end.is_none() || end != whole {
            continue;
        }
        let Some(node) = slices.first().and_then(|first| graph.node(*first)).cloned() else { continue };
        let sizes: Vec<i64> = parts.iter().map(|part| part.size).collect();
        let split = Node {
            op_type: "Split".into(),
            version: NEWEST_OPSET,
            inputs: smallvec![Some(x), Some(graph.add_ints(&sizes)?)],
            outputs: parts.iter().map(|part| Some(part.output)).collect(),
            attributes: AttributeMap::from_iter([("axis".into(), Attribute::Int(axis.int()))]),
            ..node
        };
        let mut nodes = vec![vec![split]];
        nodes.resize(slices.len(), Vec::new());
        found.extend(slices.into_iter().zip(nodes));
    }
    graph.replace_found(found)
}

/// Reads a Slice along one axis with step 1: its input, the axis and the part.
fn read_part(matcher: &Matcher, id: NodeId, node: &Node) -> Option<(ValueId, usize, Part)> {
    let output = node.output(0)?;
    let (x, spans) = op::taken(matcher.graph, output)?;
    let [(axis, span)] = spans.as_slice() else { return None };
    let whole = *matcher.sizes(x)?.get(*axis)?;
    let (start, size) = (span.start.known()?, span.count.known()?);
    let is_part = matcher.is_float(x) && span.step == 1 && 0 < size && size < whole;
    is_part.then_some((x, *axis, Part { start, size, node: id, output }))
}
