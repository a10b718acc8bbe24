//! Sizes of the graph's inputs: what the user gives, and the batch.

use std::collections::BTreeMap;

use crate::error::{Error, Result};
use crate::graph::{Graph, ValueId};
use crate::tensor::{Dim, display_shape};

/// Sets the shapes that the user gives. Sizes that the model knows by name get the given number everywhere.
pub fn set_input_shapes(graph: &mut Graph, shapes: &[(String, Vec<Dim>)]) -> Result<()> {
    let mut symbols = BTreeMap::new();
    for (name, shape) in shapes {
        let id = find_input(graph, name)?;
        let value = graph.value_mut(id)?;
        if let Some(old) = &value.shape {
            if old.len() != shape.len() {
                return Err(Error::invalid(format!(
                    "the input \"{}\" has {} axes, but {} were given",
                    value.name,
                    display_shape(old),
                    display_shape(shape)
                )));
            }
            for (old, new) in old.iter().zip(shape) {
                if old.known().is_none() && new.known().is_some() {
                    symbols.insert(old.to_string(), new.clone());
                }
            }
        }
        value.shape = Some(shape.clone());
    }
    substitute_symbols(graph, &symbols)
}

/// Takes a free first axis of an input of rank 2 or more as 1: ncnn has no batch axis.
pub fn fix_batch(graph: &mut Graph, warnings: &mut Vec<String>) -> Result<()> {
    let mut symbols = BTreeMap::new();
    for id in &graph.inputs {
        let value = graph.value(*id);
        let Some([first, _, ..]) = value.shape.as_deref() else { continue };
        if first.known().is_none() && symbols.insert(first.to_string(), Dim::Known(1)).is_none() {
            warnings
                .push(format!("the free first axis \"{first}\" of input \"{}\" is taken as 1", value.name));
        }
    }
    substitute_symbols(graph, &symbols)
}

fn find_input(graph: &Graph, name: &str) -> Result<ValueId> {
    match (name, graph.inputs.as_slice()) {
        ("", [only]) => Ok(*only),
        ("", inputs) => {
            Err(Error::invalid(format!("the model has {} inputs: say which one is meant", inputs.len()))
                .help("--input-shape NAME:1,3,224,224"))
        }
        _ => graph
            .inputs
            .iter()
            .copied()
            .find(|id| graph.value(*id).name == name)
            .ok_or_else(|| Error::invalid(format!("the model has no input \"{name}\""))),
    }
}

fn substitute_symbols(graph: &mut Graph, symbols: &BTreeMap<String, Dim>) -> Result<()> {
    if symbols.is_empty() {
        return Ok(());
    }
    for id in graph.value_ids() {
        let Some(shape) = graph.value(id).shape.clone() else { continue };
        let shape: Result<Vec<Dim>> = shape.iter().map(|dim| dim.substitute(symbols)).collect();
        graph.value_mut(id)?.shape = Some(shape?);
    }
    Ok(())
}
