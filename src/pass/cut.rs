//! Extraction of a part of the graph between two sets of values.

use std::collections::BTreeMap;

use crate::common::near::near_names;
use crate::error::{Error, Result};
use crate::graph::{Graph, ValueId};
use crate::pass::infer::infer_and_fold;
use crate::tensor::{DType, Dim, Shape};

/// A value by its name, and what the user states of it.
struct Named<'a> {
    name: &'a str,
    stated: Option<(DType, Vec<Dim>)>,
}

/// Makes the named values the inputs and the outputs; an empty list keeps the model's. An input may
/// have a type and a shape after its name, such as `ids:int64[1,S]`; otherwise it has those that the model
/// declares, or that are inferred.
///
/// # Errors
///
/// If a value does not exist or is named twice, or if the outputs depend on an input that is not among the
/// new ones.
pub fn cut_graph(graph: &mut Graph, inputs: &[String], outputs: &[String]) -> Result<()> {
    if !outputs.is_empty() {
        graph.outputs = find_values(graph, outputs.iter().map(String::as_str))?;
    }
    if !inputs.is_empty() {
        let named: Vec<Named> = inputs.iter().map(|text| Named::of(graph, text)).collect::<Result<_>>()?;
        let new = named_values(graph, inputs)?;
        state_types(graph, &new, &named)?;
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

/// Returns the values of names, which may have a type and a shape after them.
///
/// # Errors
///
/// If a value does not exist or is named twice.
pub fn named_values(graph: &Graph, names: &[String]) -> Result<Vec<ValueId>> {
    let named: Vec<Named> = names.iter().map(|text| Named::of(graph, text)).collect::<Result<_>>()?;
    find_values(graph, named.iter().map(|named| named.name))
}

/// Returns the shapes that are stated after the names of values.
///
/// # Errors
///
/// If a size is not valid.
pub fn stated_shapes(graph: &Graph, names: &[String]) -> Result<Vec<Vec<Dim>>> {
    let stated = names.iter().filter_map(|text| match Named::of(graph, text) {
        Ok(named) => named.stated.map(|(_, shape)| Ok(shape)),
        Err(error) => Some(Err(error)),
    });
    stated.collect()
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

impl<'a> Named<'a> {
    /// Reads `NAME` or `NAME:TYPE[SIZES]`. The name of a value may look like the latter.
    fn of(graph: &Graph, text: &'a str) -> Result<Named<'a>> {
        let plain = Named { name: text, stated: None };
        let parts = text.strip_suffix(']').and_then(|text| text.rsplit_once('['));
        let Some(((name, word), sizes)) =
            parts.and_then(|(head, sizes)| Some((head.rsplit_once(':')?, sizes)))
        else {
            return Ok(plain);
        };
        let word = if word == "float32" { "float" } else { word };
        let dtype = DType::from_name(word);
        let Some(dtype) = dtype.filter(|_| graph.value_ids().all(|id| graph.value(id).name != text)) else {
            return Ok(plain);
        };
        let sizes = sizes.split(',').map(str::trim).filter(|size| !size.is_empty());
        let shape: Vec<Dim> = sizes.map(str::parse).collect::<Result<_>>()?;
        Ok(Named { name, stated: Some((dtype, shape)) })
    }
}

/// Gives new inputs their types and shapes: the stated ones, or those that are inferred from the model.
fn state_types(graph: &mut Graph, ids: &[ValueId], named: &[Named]) -> Result<()> {
    let is_unknown = |(id, named): &(&ValueId, &Named)| {
        let value = graph.value(**id);
        named.stated.is_none() && (value.dtype.is_none() || value.shape.is_none())
    };
    let mut inferred = None;
    if ids.iter().zip(named).any(|pair| is_unknown(&pair)) {
        let mut copy = graph.clone();
        // What is known up to an error is enough.
        let _ = infer_and_fold(&mut copy);
        inferred = Some(copy);
    }
    let mut symbols: BTreeMap<Dim, Dim> = BTreeMap::new();
    for (id, named) in ids.iter().zip(named) {
        let known = inferred.as_ref().map(|graph| graph.value(*id));
        let (dtype, shape) = match (&named.stated, known) {
            (Some((dtype, shape)), _) => (Some(*dtype), Some(shape.iter().cloned().collect())),
            (None, Some(value)) => (
                value.dtype,
                value.shape.as_deref().map(|shape| named_sizes(shape, named.name, &mut symbols)),
            ),
            (None, None) => continue,
        };
        let value = graph.value_mut(*id)?;
        value.dtype = dtype.or(value.dtype);
        value.shape = shape.or(value.shape.take());
        value.other_type = None;
    }
    Ok(())
}

/// Replaces sizes that are computed by new names: inputs have no others.
fn named_sizes(shape: &[Dim], input: &str, symbols: &mut BTreeMap<Dim, Dim>) -> Shape {
    let input: String =
        input.chars().map(|c| if c.is_alphanumeric() || c == '_' { c } else { '_' }).collect();
    let name = |(axis, size): (usize, &Dim)| match size.known().is_some() || size.symbol_name().is_some() {
        true => size.clone(),
        false => {
            let new = || Dim::symbol(format!("_{}_{axis}", input.trim_matches('_')).trim_start_matches('_'));
            symbols.entry(size.clone()).or_insert_with(new).clone()
        }
    };
    shape.iter().enumerate().map(name).collect()
}

fn find_values<'a>(graph: &Graph, names: impl Iterator<Item = &'a str>) -> Result<Vec<ValueId>> {
    let mut found = Vec::new();
    for name in names {
        let id = graph.value_ids().find(|id| graph.value(*id).name == name);
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
    let Some((_, node)) = graph.nodes().find(|(_, node)| node.name == *name) else {
        let names = graph.value_ids().map(|id| graph.value(id).name.as_str());
        return error.help_if_any(near_names(name, names));
    };
    let outputs: Vec<String> =
        node.outputs.iter().flatten().map(|id| format!("\"{}\"", graph.value(*id).name)).collect();
    error.help(format!("it is the name of a node, which computes {}", outputs.join(", ")))
}
