//! Slice, Split and Concat in a row.

use std::collections::BTreeMap;

use smallvec::smallvec;

use crate::common::index::IndexMap;
use crate::error::Result;
use crate::graph::{Graph, Ids, Node, Value, ValueId};
use crate::op;
use crate::pass::pattern::{Readers, constant_ints, producer};

use super::{Edits, axis, input, int, only_output, replace_nodes};

/// The operator set from which the bounds of Slice are inputs.
const SLICE_INPUTS: i64 = 10;

/// The bounds of a Slice, with axes counted from the front.
#[derive(Clone, Debug, Default)]
struct Bounds {
    starts: Vec<i64>,
    ends: Vec<i64>,
    axes: Vec<i64>,
    steps: Vec<i64>,
}

impl Bounds {
    /// Returns the constant bounds of a node.
    fn of(graph: &Graph, node: &Node) -> Option<Bounds> {
        if !node.is("Slice") || node.version < SLICE_INPUTS {
            return None;
        }
        let rank = i64::try_from(graph.value(input(node, 0)?).shape.as_ref()?.len()).ok()?;
        let list = |index| constant_ints(graph, input(node, index)?);
        let (starts, ends) = (list(1)?, list(2)?);
        let count = i64::try_from(starts.len()).ok()?;
        let axes = match input(node, 3) {
            Some(_) => list(3)?,
            None => (0..count).collect(),
        };
        let steps = match input(node, 4) {
            Some(_) => list(4)?,
            None => vec![1; starts.len()],
        };
        let axes = axes.into_iter().map(|axis| if axis < 0 { axis + rank } else { axis }).collect();
        Some(Bounds { starts, ends, axes, steps })
    }

    /// Joins bounds of disjoint axes.
    fn and(mut self, other: Bounds) -> Option<Bounds> {
        if other.axes.iter().any(|axis| self.axes.contains(axis)) {
            return None;
        }
        self.starts.extend(other.starts);
        self.ends.extend(other.ends);
        self.axes.extend(other.axes);
        self.steps.extend(other.steps);
        Some(self)
    }

    /// The bounds of each axis, sorted by axis.
    fn one_by_one(&self) -> Vec<Bounds> {
        let ends = self.ends.iter().zip(&self.steps);
        let mut parts: Vec<Bounds> = self
            .axes
            .iter()
            .zip(self.starts.iter().zip(ends))
            .map(|(axis, (start, (end, step)))| Bounds {
                starts: vec![*start],
                ends: vec![*end],
                axes: vec![*axis],
                steps: vec![*step],
            })
            .collect();
        parts.sort_by_key(Bounds::key);
        parts
    }

    /// Axis, start, end and step of bounds of one axis.
    fn key(&self) -> [i64; 4] {
        [&self.axes, &self.starts, &self.ends, &self.steps]
            .map(|list| list.first().copied().unwrap_or_default())
    }

    fn node(&self, graph: &mut Graph, node: &Node, data: ValueId) -> Result<Node> {
        let mut inputs: Ids = smallvec![Some(data)];
        for list in [&self.starts, &self.ends, &self.axes, &self.steps] {
            inputs.push(Some(graph.add_ints(list)?));
        }
        Ok(Node { inputs, ..node.clone() })
    }
}

/// Merges several Slice of different axes in a row.
pub(crate) fn fuse_slices(graph: &mut Graph) -> Result<bool> {
    let find = |graph: &Graph, node: &Node| {
        let inner = producer(graph, input(node, 0).filter(|_| node.is("Slice"))?, "Slice")?;
        Some((input(inner, 0)?, Bounds::of(graph, inner)?.and(Bounds::of(graph, node)?)?))
    };
    replace_nodes(graph, find, |graph, node, (data, bounds)| bounds.node(graph, node, data))
}

/// Splits Slices with steps along several axes into one for each axis, so that Slices share the first of
/// them: each axis with steps needs layers of its own in ncnn.
pub(crate) fn share_slices(graph: &mut Graph) -> Result<bool> {
    let mut found = Vec::new();
    for (id, node) in graph.nodes().filter(|(_, node)| node.is("Slice")) {
        let Some(bounds) = Bounds::of(graph, node) else { continue };
        if bounds.steps.iter().filter(|step| **step != 1).count() > 1 {
            found.push((id, bounds));
        }
    }
    let mut shared: BTreeMap<(ValueId, [i64; 4]), ValueId> = BTreeMap::new();
    let mut edits = Edits::default();
    for (id, bounds) in found {
        let Some(node) = graph.node(id).cloned() else { continue };
        let Some(mut data) = input(&node, 0) else { continue };
        let mut nodes = Vec::new();
        let mut axes = bounds.one_by_one();
        let Some(last) = axes.pop() else { continue };
        for bounds in axes {
            data = match shared.get(&(data, bounds.key())) {
                Some(known) => *known,
                None => {
                    let output = graph.add_value(Value::default());
                    let made = bounds.node(graph, &node, data)?;
                    nodes.push(Node { outputs: smallvec![Some(output)], ..made });
                    shared.insert((data, bounds.key()), output);
                    output
                }
            };
        }
        nodes.push(last.node(graph, &node, data)?);
        edits.replace(&[id], nodes);
    }
    edits.apply(graph)
}

/// Replaces a Slice of a Concat that keeps elements of only one part by a Slice of that part.
pub(crate) fn fuse_slices_of_concats(graph: &mut Graph) -> Result<bool> {
    replace_nodes(graph, slice_of_part, |graph, node, (part, bounds)| bounds.node(graph, node, part))
}

fn slice_of_part(graph: &Graph, node: &Node) -> Option<(ValueId, Bounds)> {
    let concat = producer(graph, input(node, 0).filter(|_| node.is("Slice"))?, "Concat")?;
    let mut bounds = Bounds::of(graph, node)?;
    let axis = concat_axis(graph, concat)?;
    let at = bounds.axes.iter().position(|other| usize::try_from(*other) == Ok(axis))?;
    let size = |value: ValueId| graph.value(value).shape.as_ref()?.get(axis)?.known();
    let total = size(input(node, 0)?)?;
    let from_front = |bound: i64| if bound < 0 { bound.saturating_add(total) } else { bound }.clamp(0, total);
    let (start, end) = (from_front(*bounds.starts.get(at)?), from_front(*bounds.ends.get(at)?));
    if *bounds.steps.get(at)? < 1 || start >= end {
        return None;
    }
    let mut before = 0;
    for part in concat.inputs.iter().copied().flatten() {
        let after = before + size(part)?;
        if (before..after).contains(&start) && end <= after {
            *bounds.starts.get_mut(at)? = start - before;
            *bounds.ends.get_mut(at)? = end - before;
            return Some((part, bounds));
        }
        before = after;
    }
    None
}

fn concat_axis(graph: &Graph, node: &Node) -> Option<usize> {
    let rank = graph.value(input(node, 0)?).shape.as_ref()?.len();
    op::resolve_axis(int(node, "axis")?, rank).ok()
}

/// Flattens inputs of a Concat that are a Concat along the same axis without other readers, and replaces all
/// outputs of a Split in order by its input.
pub(crate) fn fuse_concats(graph: &mut Graph) -> Result<bool> {
    let readers = Readers::of(graph);
    let mut edits = Edits::default();
    // The flattened inputs of each Concat visited.
    let mut parts: BTreeMap<ValueId, Vec<Option<ValueId>>> = BTreeMap::new();
    for (id, node) in graph.nodes().filter(|(_, node)| node.is("Concat")) {
        let (Some(axis), Some(output)) = (concat_axis(graph, node), only_output(node)) else { continue };
        let mut inputs = Vec::new();
        for part in node.inputs.iter().copied().flatten() {
            let nested = producer(graph, part, "Concat")
                .filter(|inner| concat_axis(graph, inner) == Some(axis) && readers.only(part) == Some(id));
            match nested.and_then(|_| parts.get(&part)) {
                Some(nested) => inputs.extend(nested.iter().copied()),
                None => inputs.push(Some(part)),
            }
        }
        while let Some((range, whole)) = whole_split(graph, &inputs, axis) {
            inputs.splice(range, [Some(whole)]);
        }
        if *inputs != *node.inputs {
            edits.replace(&[id], vec![Node { inputs: inputs.clone().into(), ..node.clone() }]);
        }
        parts.insert(output, inputs);
    }
    edits.apply(graph)
}

/// The range of the inputs that are all outputs of a Split in order, and the input of the Split.
fn whole_split(
    graph: &Graph,
    inputs: &[Option<ValueId>],
    axis: usize,
) -> Option<(std::ops::Range<usize>, ValueId)> {
    inputs.iter().enumerate().find_map(|(at, part)| {
        let split = producer(graph, (*part)?, "Split")?;
        let whole = input(split, 0)?;
        let rank = graph.value(whole).shape.as_ref()?.len();
        let range = at..at.checked_add(split.outputs.len())?;
        let is_whole = self::axis(split, 0, rank)? == axis
            && inputs.get(range.clone()) == Some(split.outputs.as_slice());
        is_whole.then_some((range, whole))
    })
}

/// Removes a Split of a Concat into the inputs of the Concat.
pub(crate) fn remove_splits_of_concats(graph: &mut Graph) -> Result<bool> {
    let readers = Readers::of(graph);
    let mut map = IndexMap::default();
    for (_, node) in graph.nodes().filter(|(_, node)| node.is("Split")) {
        let Some(data) = input(node, 0) else { continue };
        let Some(concat) = producer(graph, data, "Concat") else { continue };
        let rank = graph.value(data).shape.as_ref().map_or(0, |shape| shape.len());
        let along = axis(node, 0, rank);
        let pairs: Vec<(ValueId, ValueId)> =
            node.outputs.iter().flatten().copied().zip(concat.inputs.iter().flatten().copied()).collect();
        let alike = |(output, part): &(ValueId, ValueId)| {
            let shape = &graph.value(*output).shape;
            shape.is_some() && *shape == graph.value(*part).shape && !readers.is_output(*output)
        };
        if along.is_some()
            && along == concat_axis(graph, concat)
            && pairs.len() == node.outputs.len()
            && pairs.len() == concat.inputs.len()
            && pairs.iter().all(alike)
        {
            map.extend(pairs);
        }
    }
    graph.redirect(&map);
    Ok(!map.is_empty())
}
