//! Slice, Split and Concat in a row.

use std::collections::BTreeMap;

use smallvec::smallvec;

use crate::common::index::IndexMap;
use crate::common::int::Int;
use crate::error::Result;
use crate::graph::{Graph, Ids, Node, Value, ValueId};
use crate::op;
use crate::pass::pattern::{Readers, producer};
use crate::tensor::Span;

use super::{axis, int};

/// The elements of an axis that a Slice with constant bounds takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Cut {
    axis: usize,
    bounds: [i64; 2],
    step: i64,
}

/// Reads a value as a Slice: the sliced value, and the elements of its axes.
fn sliced(graph: &Graph, value: ValueId) -> Option<(ValueId, Vec<(usize, Span)>)> {
    producer(graph, value, "Slice")?;
    op::taken(graph, value)
}

/// Returns the bounds for axes of a value.
fn cuts(graph: &Graph, of: ValueId, spans: Vec<(usize, Span)>) -> Option<Vec<Cut>> {
    let shape = graph.value(of).shape.as_ref()?;
    let cut = |(axis, span): (usize, Span)| {
        Some(Cut { axis, bounds: span.bounds(shape.get(axis)?)?, step: span.step })
    };
    spans.into_iter().map(cut).collect()
}

/// Returns a Slice like `node` with other cuts of `data`.
fn slice(graph: &mut Graph, node: &Node, data: ValueId, cuts: &[Cut]) -> Result<Node> {
    let list = |part: fn(&Cut) -> i64| cuts.iter().map(part).collect::<Vec<i64>>();
    let starts = list(|cut| cut.bounds[0]);
    let mut inputs: Ids = smallvec![Some(data)];
    for list in [starts, list(|cut| cut.bounds[1]), list(|cut| cut.axis.int()), list(|cut| cut.step)] {
        inputs.push(Some(graph.add_ints(&list)?));
    }
    Ok(Node { inputs, ..node.clone() })
}

/// Merges several Slice of different axes in a row.
pub(crate) fn fuse_consecutive_slices(graph: &mut Graph) -> Result<bool> {
    let find = |graph: &Graph, node: &Node| {
        // Few Slices slice a Slice: the bounds of others are not read.
        producer(graph, node.input(0)?, "Slice")?;
        let (part, outer) = sliced(graph, node.output(0)?)?;
        let (data, mut spans) = sliced(graph, part)?;
        let are_disjoint = outer.iter().all(|(axis, _)| spans.iter().all(|(other, _)| other != axis));
        spans.extend(outer);
        are_disjoint.then_some((data, cuts(graph, data, spans)?))
    };
    graph.replace_nodes(find, |graph, node, (data, cuts)| Ok(Some(vec![slice(graph, node, data, &cuts)?])))
}

/// Splits Slices with steps along several axes into one for each axis, so that Slices share the first of
/// them: each axis with steps needs separate layers in ncnn.
pub(crate) fn share_slices(graph: &mut Graph) -> Result<bool> {
    let find = |graph: &Graph, node: &Node| {
        let (data, spans) = sliced(graph, node.output(0)?)?;
        let mut cuts = cuts(graph, data, spans)?;
        if cuts.iter().filter(|cut| cut.step != 1).count() < 2 {
            return None;
        }
        cuts.sort();
        Some((data, cuts.pop()?, cuts))
    };
    let mut shared: BTreeMap<(ValueId, Cut), ValueId> = BTreeMap::new();
    graph.replace_nodes(find, |graph, node, (mut data, last, cuts)| {
        let mut nodes = Vec::new();
        for cut in cuts {
            data = match shared.get(&(data, cut)) {
                Some(known) => *known,
                None => {
                    let output = graph.add_value(Value::default());
                    let made = slice(graph, node, data, &[cut])?;
                    nodes.push(Node { outputs: smallvec![Some(output)], ..made });
                    shared.insert((data, cut), output);
                    output
                }
            };
        }
        nodes.push(slice(graph, node, data, &[last])?);
        Ok(Some(nodes))
    })
}

/// Replaces a Slice of a Concat that keeps elements of only one part by a Slice of that part.
pub(crate) fn fuse_slice_of_concat(graph: &mut Graph) -> Result<bool> {
    graph.replace_nodes(slice_of_part, |graph, node, (part, cuts)| {
        Ok(Some(vec![slice(graph, node, part, &cuts)?]))
    })
}

fn slice_of_part(graph: &Graph, node: &Node) -> Option<(ValueId, Vec<Cut>)> {
    let concat = producer(graph, node.input(0)?, "Concat")?;
    let (_, mut spans) = sliced(graph, node.output(0)?)?;
    let axis = concat_axis(graph, concat)?;
    let (_, span) = spans.iter_mut().find(|(other, _)| *other == axis)?;
    let size = |value: ValueId| graph.value(value).shape.as_ref()?.get(axis)?.known();
    let (start, last) = (span.start.known()?, span.last().known()?);
    if span.step < 1 || last < start {
        return None;
    }
    let mut before = 0;
    for part in concat.inputs.iter().copied().flatten() {
        let after = before + size(part)?;
        if (before..after).contains(&start) && last < after {
            span.start -= before;
            return Some((part, cuts(graph, part, spans)?));
        }
        before = after;
    }
    None
}

fn concat_axis(graph: &Graph, node: &Node) -> Option<usize> {
    let rank = graph.value(node.input(0)?).shape.as_ref()?.len();
    op::resolve_axis(int(node, "axis")?, rank).ok()
}

/// Flattens inputs of a Concat that are a Concat along the same axis without other readers, and replaces all
/// outputs of a Split in order by its input.
pub(crate) fn fuse_consecutive_concats(graph: &mut Graph) -> Result<bool> {
    let readers = Readers::of(graph);
    let find = |graph: &Graph, node: &Node| {
        let axis = concat_axis(graph, node).filter(|_| node.is("Concat"))?;
        let is_along = |other: &Node| other.is("Concat") && concat_axis(graph, other) == Some(axis);
        let reader = readers.only(node.output(0)?).and_then(|reader| graph.node(reader));
        if reader.is_some_and(is_along) {
            // The reader takes its inputs: the last Concat of a chain, so that each input is moved once.
            return None;
        }
        let (mut inputs, mut open) = (Vec::new(), node.inputs.to_vec());
        open.reverse();
        while let Some(part) = open.pop() {
            let nested = part
                .and_then(|part| producer(graph, part, "Concat").filter(|_| readers.only(part).is_some()));
            match nested.filter(|inner| is_along(inner)) {
                Some(inner) => open.extend(inner.inputs.iter().rev().copied()),
                None => inputs.push(part),
            }
        }
        while let Some((range, whole)) = whole_split(graph, &inputs, axis) {
            inputs.splice(range, [Some(whole)]);
        }
        (*inputs != *node.inputs).then_some(inputs)
    };
    graph
        .replace_nodes(find, |_, node, inputs| Ok(Some(vec![Node { inputs: inputs.into(), ..node.clone() }])))
}

/// The range of the inputs that are all outputs of a Split in order, and the input of the Split.
fn whole_split(
    graph: &Graph,
    inputs: &[Option<ValueId>],
    axis: usize,
) -> Option<(std::ops::Range<usize>, ValueId)> {
    inputs.iter().enumerate().find_map(|(at, part)| {
        let split = producer(graph, (*part)?, "Split")?;
        let whole = split.input(0)?;
        let rank = graph.value(whole).shape.as_ref()?.len();
        let range = at..at.checked_add(split.outputs.len())?;
        let is_whole = self::axis(split, 0, rank)? == axis
            && inputs.get(range.clone()) == Some(split.outputs.as_slice());
        is_whole.then_some((range, whole))
    })
}

/// Removes a Split of a Concat into the inputs of the Concat.
pub(crate) fn eliminate_split_of_concat(graph: &mut Graph) -> Result<bool> {
    let readers = Readers::of(graph);
    let mut map = IndexMap::default();
    for (_, node) in graph.nodes().filter(|(_, node)| node.is("Split")) {
        let Some(data) = node.input(0) else { continue };
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
