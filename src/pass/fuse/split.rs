//! Split, from Slices that partition an axis: `x[..a], x[a..b], x[b..]`.

use std::collections::{BTreeMap, BTreeSet};

use smallvec::smallvec;

use super::view::ints;
use super::{Look, first};
use crate::error::Result;
use crate::graph::{Attribute, AttributeMap, Graph, Node, NodeId, ValueId};
use crate::op::{NEWEST_OPSET, resolve_axis};
use crate::pass::pattern::Readers;
use crate::tensor::{Array, Tensor};

/// A part of an axis.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Part {
    start: i64,
    size: i64,
    node: NodeId,
    output: ValueId,
}

/// Fuses the Slices of one value along one axis that together are all of it, each element once.
pub(crate) fn fuse_split(graph: &mut Graph) -> Result<bool> {
    let mut parts: BTreeMap<(ValueId, usize), Vec<Part>> = BTreeMap::new();
    let readers = Readers::of(graph);
    let look = Look { graph, readers: &readers };
    for (id, node) in graph.nodes().filter(|(_, node)| node.is("Slice")) {
        if let Some((x, axis, part)) = read_part(&look, id, node) {
            parts.entry((x, axis)).or_default().push(part);
        }
    }
    let mut splits: BTreeMap<NodeId, (ValueId, usize, Vec<Part>)> = BTreeMap::new();
    let mut removed = BTreeSet::new();
    for ((x, axis), parts) in parts {
        // The Split stands at the first Slice in the order of the graph: no part is read before.
        let Some(place) = parts.first().map(|part| part.node) else { continue };
        let mut sorted = parts.clone();
        sorted.sort();
        let whole = look.sizes(x).and_then(|sizes| sizes.get(axis).copied());
        let end = sorted.iter().try_fold(0, |end, part| (part.start == end).then_some(end + part.size));
        if sorted.len() > 1 && end.is_some() && end == whole {
            removed.extend(parts.iter().skip(1).map(|part| part.node));
            splits.insert(place, (x, axis, sorted));
        }
    }
    graph.rewrite_nodes(|graph, id| {
        if removed.contains(&id) {
            return Ok(Some(Vec::new()));
        }
        let Some((x, axis, parts)) = splits.get(&id) else { return Ok(None) };
        let Some(node) = graph.node(id).cloned() else { return Ok(None) };
        let sizes: Vec<i64> = parts.iter().map(|part| part.size).collect();
        let sizes = Array::i64(ndarray::ArrayD::from_shape_vec(vec![sizes.len()], sizes)?);
        let sizes = graph.add_constant("", Tensor::from_array(&sizes)?)?;
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

/// Returns the part that a Slice along one axis with a step of 1 takes.
fn read_part(look: &Look, id: NodeId, node: &Node) -> Option<(ValueId, usize, Part)> {
    let x = first(node)?;
    let output = node.outputs.first().copied().flatten()?;
    let list = |index: usize| node.inputs.get(index).copied().flatten().map(|value| ints(look, value));
    let [start] = *list(1)??.as_slice() else { return None };
    let axis = match list(3) {
        Some(axes) => *axes?.first()?,
        None => 0,
    };
    if list(4).is_some_and(|steps| steps != Some(vec![1])) || !look.is_float(x) {
        return None;
    }
    let (from, to) = (look.sizes(x)?, look.sizes(output)?);
    let axis = resolve_axis(axis, from.len()).ok()?;
    let (whole, size) = (*from.get(axis)?, *to.get(axis)?);
    let start = if start < 0 { start.saturating_add(whole).max(0) } else { start };
    (0 < size && size < whole).then_some((x, axis, Part { start, size, node: id, output }))
}
