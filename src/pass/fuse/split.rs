//! `y1 = x[0:a], y2 = x[a:b], ..., yn = x[z:]` along one axis
//!
//! becomes `y1, ..., yn = Split(x)` in the place of the first Slice, if the Slices contain each element once.

use std::collections::{BTreeMap, BTreeSet};

use smallvec::smallvec;

use super::matcher::Matcher;
use crate::error::Result;
use crate::graph::{Attribute, AttributeMap, Graph, Node, NodeId, ValueId};
use crate::op::NEWEST_OPSET;
use crate::pass::pattern::{Cut, Readers, cuts};

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
    let mut splits: BTreeMap<NodeId, (ValueId, usize, Vec<Part>)> = BTreeMap::new();
    let mut removed = BTreeSet::new();
    for ((x, axis), parts) in parts {
        // The parts are in the order of the graph: nothing reads one before the first Slice.
        let Some(first) = parts.first().map(|part| part.node) else { continue };
        let mut sorted = parts.clone();
        sorted.sort();
        let whole = matcher.sizes(x).and_then(|sizes| sizes.get(axis).copied());
        let end = sorted.iter().try_fold(0, |end, part| (part.start == end).then_some(end + part.size));
        if sorted.len() > 1 && end.is_some() && end == whole {
            removed.extend(parts.iter().skip(1).map(|part| part.node));
            splits.insert(first, (x, axis, sorted));
        }
    }
    graph.rewrite_nodes(|graph, id| {
        if removed.contains(&id) {
            return Ok(Some(Vec::new()));
        }
        let Some((x, axis, parts)) = splits.get(&id) else { return Ok(None) };
        let Some(node) = graph.node(id).cloned() else { return Ok(None) };
        let sizes: Vec<i64> = parts.iter().map(|part| part.size).collect();
        let sizes = graph.add_ints(&sizes)?;
        Ok(Some(vec![Node {
            op_type: "Split".into(),
            version: NEWEST_OPSET,
            inputs: smallvec![Some(*x), Some(sizes)],
            outputs: parts.iter().map(|part| Some(part.output)).collect(),
            attributes: AttributeMap::from_iter([("axis".into(), Attribute::Int(i64::try_from(*axis)?))]),
            ..node
        }]))
    })?;
    Ok(!splits.is_empty())
}

/// Reads a Slice along one axis with step 1: its input, the axis and the part.
fn read_part(matcher: &Matcher, id: NodeId, node: &Node) -> Option<(ValueId, usize, Part)> {
    let (x, output) = (node.input(0)?, node.output(0)?);
    let [Cut { axis, start, step: 1, .. }] = *cuts(matcher.graph, node)? else { return None };
    let (from, to) = (matcher.sizes(x)?, matcher.sizes(output)?);
    let (whole, size) = (*from.get(axis)?, *to.get(axis)?);
    let start = if start < 0 { start.saturating_add(whole).max(0) } else { start };
    (matcher.is_float(x) && 0 < size && size < whole).then_some((
        x,
        axis,
        Part { start, size, node: id, output },
    ))
}
