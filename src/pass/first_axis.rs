//! Free first axes of inputs: whether they are a batch, which ncnn has no axis for.

use std::collections::{BTreeMap, BTreeSet};

use super::input_shape::substitute_symbols;
use crate::error::Result;
use crate::graph::{Graph, Node, ValueId};
use crate::pass::infer::infer_and_fold;
use crate::pass::pattern::{axis, constant_ints, int, ints, producer};
use crate::tensor::Dim;

/// The axes of images: a batch, channels, height and width.
const IMAGE_RANK: usize = 4;

/// The prefix of the symbol of a batch size.
const BATCH: &str = "batch";

/// Free first axes whose names count other things than batches, such as `num_nodes` and `seq_len`. Images are
/// a batch, whatever counts them: over several, convolutions are slow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Counts {
    /// They stay free.
    Free,
    /// They are set to 1 as a batch is.
    One,
}

/// Sets a free first axis of inputs of rank 2 or more to 1: ncnn has no batch axis. A symbol that also occurs
/// on another axis is not a batch, except by its name: states of recurrent layers have the batch as their
/// second axis. Neither is the axis of which computed indices select elements, such as the nodes that the
/// edges of a graph join, or constant indices select others than the only one of a batch of 1, nor that of
/// the steps of a recurrent layer or a Scan, nor one that Unique compares: elements of a batch are
/// independent. `mixed` has the sizes of such axes in the whole model, if the graph is a part of it. Sizes
/// that the user names stay free.
pub fn fix_batch(
    graph: &mut Graph,
    counts: Counts,
    named: &BTreeSet<Dim>,
    mixed: &BTreeSet<String>,
    warnings: &mut Vec<String>,
) -> Result<()> {
    let shapes = graph.inputs.iter().filter_map(|id| graph.value(*id).shape.as_deref());
    let mut others: BTreeSet<String> =
        shapes.flat_map(|shape| shape.iter().skip(1)).map(Dim::to_string).collect();
    others.extend(mixed_sizes(graph)?);
    others.extend(mixed.iter().cloned());
    let counted = match counts {
        Counts::Free => counted(graph),
        Counts::One => BTreeSet::new(),
    };
    let mut symbols = BTreeMap::new();
    for id in &graph.inputs {
        let Some(first) = free_first(graph, *id).filter(|first| !named.contains(first)) else { continue };
        if !counted.contains(&first.to_string())
            && (!others.contains(&first.to_string()) || is_batch(first))
            && symbols.insert(first.to_string(), Dim::ONE).is_none()
        {
            let name = &graph.value(*id).name;
            warnings.push(format!(
                "the free first axis \"{first}\" of input \"{name}\" is set to 1; --input-shape sets another"
            ));
        }
    }
    substitute_symbols(graph, &symbols)
}

/// Returns the sizes of first axes whose elements some node mixes, if an input has a free first axis.
pub fn mixed_sizes(graph: &Graph) -> Result<BTreeSet<String>> {
    let has_free_first = graph.inputs.iter().any(|id| free_first(graph, *id).is_some());
    if !has_free_first || !graph.nodes().any(|(_, node)| may_mix_rows(graph, node)) {
        return Ok(BTreeSet::new());
    }
    let mut inferred = graph.clone();
    infer_and_fold(&mut inferred)?;
    let mixing = inferred.nodes().filter(|(_, node)| may_mix_rows(&inferred, node));
    Ok(mixing.flat_map(|(_, node)| mixed_axes(&inferred, node)).map(Dim::to_string).collect())
}

/// Returns whether an input has a free first axis whose name counts other things than batches.
pub fn has_counts(graph: &Graph) -> bool {
    !counted(graph).is_empty()
}

/// Returns the free first axes of inputs whose names count other things than batches, and not images.
fn counted(graph: &Graph) -> BTreeSet<String> {
    let firsts = |is_image: bool| {
        let inputs = graph.inputs.iter().filter(move |id| {
            let rank = graph.value(**id).shape.as_deref().map_or(0, <[Dim]>::len);
            (rank >= IMAGE_RANK) == is_image
        });
        inputs.filter_map(|id| free_first(graph, *id)).filter(|size| is_count(size)).map(Dim::to_string)
    };
    let images: BTreeSet<String> = firsts(true).collect();
    firsts(false).filter(|name| !images.contains(name)).collect()
}

/// Returns whether the name of a size counts other things than batches.
fn is_count(size: &Dim) -> bool {
    let name = size.to_string().to_lowercase();
    let counts = ["num", "n_"].iter().any(|word| name.starts_with(word))
        || ["len", "length", "count"].iter().any(|word| name.ends_with(word));
    counts && !name.contains(BATCH)
}

/// Returns the size of the first axis of a value of rank 2 or more, if it is free.
fn free_first(graph: &Graph, id: ValueId) -> Option<&Dim> {
    match graph.value(id).shape.as_deref()? {
        [first, _, ..] if first.known().is_none() => Some(first),
        _ => None,
    }
}

/// The operators that select elements along an axis.
const SELECTIONS: [&str; 3] = ["Gather", "GatherElements", "ScatterElements"];

/// Returns whether the rows of the result of a node may depend on several rows of a computed value: it
/// selects them by index, compares them, or a recurrent layer steps over them.
fn may_mix_rows(graph: &Graph, node: &Node) -> bool {
    let is_computed = |index| node.input(index).is_some_and(|id| graph.value(id).constant.is_none());
    if !scanned(node).is_empty() {
        return true;
    }
    let selects = || node.is_one_of(&SELECTIONS) && is_computed(1) || selects_beyond(graph, node);
    is_computed(0) && (is_recurrent(node) || compares(node) || selects())
}

/// Returns whether constant indices select elements of the first axis that a batch of 1 does not have.
fn selects_beyond(graph: &Graph, node: &Node) -> bool {
    let is_elements = node.is_one_of(&SELECTIONS);
    let is_tuples = node.is_one_of(&["GatherND", "ScatterND"]);
    let attribute = if is_elements { "axis" } else { "batch_dims" };
    let is_of_sizes = || node.input(0).is_some_and(|id| producer(graph, id, "Shape").is_some());
    if !(is_elements || is_tuples) || int(node, attribute).unwrap_or(0) != 0 || is_of_sizes() {
        return false;
    }
    let indices = node.input(1).and_then(|id| graph.value(id).constant.as_ref());
    let width = indices.filter(|_| is_tuples).and_then(|indices| indices.shape().last().copied());
    let indices = node.input(1).and_then(|id| constant_ints(graph, id));
    let mut firsts = indices.iter().flatten().step_by(width.unwrap_or(1).max(1));
    firsts.any(|index| !(-1..=0).contains(index))
}

/// Returns whether a node compares the elements of the first axis with each other.
fn compares(node: &Node) -> bool {
    node.is("Unique") && int(node, "axis").unwrap_or(0) == 0
}

/// Returns whether a node is a recurrent layer whose steps are the first axis.
fn is_recurrent(node: &Node) -> bool {
    node.is_one_of(&["LSTM", "GRU", "RNN"]) && int(node, "layout").unwrap_or(0) == 0
}

/// Returns the inputs over whose first axis a Scan steps.
fn scanned(node: &Node) -> &[Option<ValueId>] {
    let scans = int(node, "num_scan_inputs").filter(|_| node.is("Scan") && node.version >= 9);
    let count = scans.and_then(|count| usize::try_from(count).ok()).unwrap_or(0);
    let is_first = ints(node, "scan_input_axes").is_none_or(|axes| axes.iter().all(|axis| *axis == 0));
    let first = node.inputs.len().saturating_sub(if is_first { count } else { 0 });
    node.inputs.get(first..).unwrap_or_default()
}

/// Returns the sizes of the first axes of values whose rows a node mixes: it steps over them, or selects
/// along this axis by indices that are computed from elements of inputs, or that a batch of 1 does not have.
fn mixed_axes<'a>(graph: &'a Graph, node: &Node) -> Vec<&'a Dim> {
    let first = |id: ValueId| graph.value(id).shape.as_deref()?.first();
    let selects = |data: ValueId| {
        let rank = graph.value(data).shape.as_deref().map_or(0, <[Dim]>::len);
        let is_first = axis(node, 0, rank) == Some(0);
        is_first && node.input(1).is_some_and(|indices| reads_elements(graph, indices))
    };
    let mixes = |data: &ValueId| {
        is_recurrent(node) || compares(node) || selects(*data) || selects_beyond(graph, node)
    };
    let scanned = scanned(node);
    if scanned.is_empty() {
        return node.input(0).filter(mixes).and_then(first).into_iter().collect();
    }
    scanned.iter().flatten().filter_map(|id| first(*id)).collect()
}

/// Returns whether elements of an input, and not only sizes, decide a value.
fn reads_elements(graph: &Graph, value: ValueId) -> bool {
    let mut seen = BTreeSet::new();
    let mut pending = vec![value];
    while let Some(id) = pending.pop() {
        if graph.inputs.contains(&id) {
            return true;
        }
        let producer = graph.value(id).producer.filter(|_| seen.insert(id)).and_then(|node| graph.node(node));
        if let Some(node) = producer.filter(|node| !node.is("Shape") && !node.is("Size")) {
            pending.extend(node.inputs.iter().flatten());
        }
    }
    false
}

/// Returns whether a size is a batch by its name.
fn is_batch(size: &Dim) -> bool {
    size.to_string().to_lowercase().starts_with(BATCH)
}
