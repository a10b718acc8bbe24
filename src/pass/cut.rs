//! Extraction of a part of the graph between two sets of values.

use crate::error::{Error, Result};
use crate::graph::{Graph, ValueId};

/// Makes the named values the inputs and the outputs; an empty list keeps those of the model.
///
/// # Errors
///
/// If a value does not exist or is named twice, or if the outputs depend on an input that is not among the
/// new ones.
pub fn cut_graph(graph: &mut Graph, inputs: &[String], outputs: &[String]) -> Result<()> {
    if !outputs.is_empty() {
        graph.outputs = find_values(graph, outputs)?;
    }
    if !inputs.is_empty() {
        let new = find_values(graph, inputs)?;
        for id in &new {
            detach(graph, *id)?;
        }
        let dropped: Vec<ValueId> = graph.inputs.iter().copied().filter(|id| !new.contains(id)).collect();
        graph.inputs = new;
        super::dead::remove_dead_nodes(graph);
        let needed = graph.read_values();
        if let Some(id) = dropped.iter().find(|id| needed.contains(**id)) {
            return Err(Error::usage(format!(
                "the outputs depend on the graph input \"{}\", which is not among --inputs",
                graph.value(*id).name
            )));
        }
    }
    Ok(())
}

/// Makes a value one that nothing computes, as inputs are.
pub(super) fn detach(graph: &mut Graph, id: ValueId) -> Result<()> {
    let producer = graph.value(id).producer;
    if let Some(node) = producer.and_then(|producer| graph.node_mut(producer)) {
        for output in node.outputs.iter_mut().filter(|output| **output == Some(id)) {
            *output = None;
        }
    }
    let value = graph.value_mut(id)?;
    (value.producer, value.constant) = (None, None);
    Ok(())
}

fn find_values(graph: &Graph, names: &[String]) -> Result<Vec<ValueId>> {
    let mut found = Vec::with_capacity(names.len());
    for name in names {
        let id = graph.value_ids().find(|id| graph.value(*id).name == *name);
        let id = id.ok_or_else(|| no_value(graph, name))?;
        if found.contains(&id) {
            return Err(Error::usage(format!("the value \"{name}\" is named twice")));
        }
        found.push(id);
    }
    Ok(found)
}

/// The error for an unknown value. Viewers show names of nodes, so for one of these it names the outputs of
/// the node.
fn no_value(graph: &Graph, name: &str) -> Error {
    let error = Error::usage(format!("the graph has no value \"{name}\""));
    let Some((_, node)) = graph.nodes().find(|(_, node)| node.name == *name) else { return error };
    let outputs: Vec<String> =
        node.outputs.iter().flatten().map(|id| format!("\"{}\"", graph.value(*id).name)).collect();
    error.help(format!("it is the name of a node, which computes {}", outputs.join(", ")))
}
