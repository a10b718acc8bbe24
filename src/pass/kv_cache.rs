//! Caches that the runtime keeps: every attention to a cache is one layer, and the net knows the length of
//! the cache without them.

use std::collections::BTreeSet;

use super::fuse::refused_attentions;
use crate::error::{Error, Errors, Result};
use crate::graph::{Graph, Node, Value, ValueId};
use crate::lower::cached_inputs;
use crate::op;
use crate::tensor::{DType, Dim};

/// The name of the input whose length is that of the caches and the new elements.
const LENGTH: &str = "kv_length";

/// Refuses attentions to a cache that are not one layer, and other nodes that append to a cache: inputs to
/// which computed values are appended, and the result is an output.
pub fn check(graph: &Graph) -> std::result::Result<(), Errors> {
    let refused = refused_attentions(graph);
    let mut errors: Vec<Error> = Vec::new();
    for (id, reason) in &refused {
        if let Some(node) = graph.node(*id) {
            errors.push(refusal(node, reason));
        }
    }
    if errors.is_empty() {
        let others = graph.nodes().map(|(_, node)| node).filter(|node| appends_to_cache(graph, node));
        errors.extend(others.map(|node| refusal(node, "it is not read by an attention that SDPA computes")));
    }
    if errors.is_empty() && caches(graph).next().is_none() {
        let error = Error::unsupported("--kv-cache: no attention of the model has a cache");
        return Err(error
            .help("a cache is an input to which keys or values are appended, for an output")
            .into());
    }
    Errors::check(errors)
}

fn refusal(node: &Node, reason: &str) -> Error {
    let error = Error::unsupported(format!("the cache cannot be kept by the runtime: {reason}"));
    error.at_node(|| node.at()).help("without --kv-cache the caches are inputs and outputs as others")
}

/// Whether a node appends to an input of the graph, for an output.
fn appends_to_cache(graph: &Graph, node: &Node) -> bool {
    let Some(appends) = op::find(node).and_then(|op| op.appends) else { return false };
    let is_input =
        |(index, _): &(usize, usize)| node.input(*index).is_some_and(|input| graph.inputs.contains(&input));
    let readers = graph.readers();
    let is_output = |value: &ValueId| graph.outputs.contains(value);
    let is_named = |value: &ValueId| {
        let copies =
            readers.get(*value).iter().filter_map(|id| graph.node(*id)).filter(|node| node.is("Identity"));
        copies.flat_map(|node| node.outputs.iter().flatten()).any(is_output)
    };
    let gives = node.outputs.iter().flatten().any(|output| is_output(output) || is_named(output));
    gives && appends(graph, node).iter().any(is_input)
}

/// Returns the caches, each before and after its node.
fn caches(graph: &Graph) -> impl Iterator<Item = (ValueId, ValueId)> + use<'_> {
    graph
        .nodes()
        .flat_map(|(_, node)| cached_inputs(node).zip(node.outputs.iter().skip(1).copied().flatten()))
}

/// Adds an input that tells the length of the caches and the new elements, unless other inputs do. Returns a
/// warning then.
///
/// # Errors
///
/// If caches have different lengths, and nothing tells them.
pub fn add_length(graph: &mut Graph) -> Result<Option<String>> {
    let known: BTreeSet<ValueId> = caches(graph).map(|(past, _)| past).collect();
    let others = graph.variable_inputs().into_iter().filter(|input| !known.contains(input));
    let sizes: Vec<Dim> = others
        .flat_map(|input| graph.value(input).shape.iter().flatten().cloned().collect::<Vec<_>>())
        .collect();
    let mut missing: BTreeSet<Dim> = BTreeSet::new();
    for (past, present) in caches(graph) {
        let shape = |id: ValueId| graph.value(id).shape.as_deref().unwrap_or_default();
        for (before, after) in
            shape(past).iter().zip(shape(present)).filter(|(before, after)| before != after)
        {
            let told = sizes.contains(before) || sizes.iter().any(|whole| sizes.contains(&(whole - before)));
            if !told {
                missing.insert(after.clone());
            }
        }
    }
    let length = match missing.len() {
        0 => return Ok(None),
        1 => missing.pop_first().unwrap_or(Dim::ONE),
        _ => {
            let message = "--kv-cache: the caches have different lengths, and no other input tells them";
            return Err(Error::unsupported(message));
        }
    };
    if graph.inputs.iter().chain(&graph.outputs).any(|id| graph.value(*id).name == LENGTH) {
        return Err(Error::unsupported(format!(
            "--kv-cache: the name \"{LENGTH}\" is that of another value"
        )));
    }
    let id = graph.add_value(Value {
        name: LENGTH.to_owned(),
        dtype: Some(DType::F32),
        shape: Some(vec![length].into()),
        ..Value::default()
    });
    graph.inputs.push(id);
    Ok(Some(format!(
        "the net has the input \"{LENGTH}\" in addition to the inputs of the model: ones, as many as the caches and the new elements \
         are long"
    )))
}
