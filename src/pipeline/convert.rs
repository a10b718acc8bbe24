//! The steps of a conversion.

use std::collections::{BTreeMap, BTreeSet};

use super::graph_steps::GraphSteps;
use super::remedy::FreeInput;
use super::simplify::{mixed_beyond, prepare};
use super::{Conversion, Options};
use crate::error::{Error, ErrorKind, Errors, Result};
use crate::graph::Graph;
use crate::onnx::Sources;
use crate::pass::first_axis::{self, Counts};
use crate::pass::input_shape;
use crate::tensor::Dim;

/// A reading of a model.
#[derive(Clone, Copy, Debug)]
pub(super) struct Reading {
    pub counts: Counts,
    /// Whether axes have one element that exporters remove if they have one; `None` if that is not known.
    pub squeezes: Option<bool>,
}

/// Converts a model with these values of free sizes.
pub(super) fn convert_with(
    sources: &Sources,
    options: &Options,
    fixed: &BTreeMap<String, Dim>,
    reading: Reading,
) -> std::result::Result<Conversion, Errors> {
    let mut graph = simplified(sources, options, fixed, reading)
        .map_err(|error| of_shapes(error, sources, options, reading))?;
    graph.quantize()?;
    let operators = graph.operators();
    graph.narrow()?;
    graph.fuse()?;
    graph.expand()?;
    graph.keep_caches()?;
    graph.store_weights()?;
    let mut net = graph.lower(operators)?;
    net.optimise()?;
    net.split()?;
    net.name()?;
    net.check()?;
    Ok(net.finish())
}

/// Reads a model, and simplifies the part that the options ask for.
fn simplified<'a>(
    sources: &'a Sources,
    options: &'a Options,
    fixed: &BTreeMap<String, Dim>,
    reading: Reading,
) -> Result<GraphSteps<'a>> {
    let mut graph = GraphSteps::read(sources, options)?;
    graph.cut()?;
    graph.fix_sizes(fixed, reading)?;
    graph.simplify()?;
    Ok(graph)
}

/// Makes the error of a model that is valid without `--input-shape` an error of usage.
fn of_shapes(error: Error, sources: &Sources, options: &Options, reading: Reading) -> Error {
    if options.input_shapes.is_empty() || error.kind() != ErrorKind::Invalid {
        return error;
    }
    let without = Options { input_shapes: Vec::new(), ..options.clone() };
    match simplified(sources, &without, &BTreeMap::new(), reading) {
        Ok(_) => error.into_usage().help(
            "the sizes of --input-shape contradict the model: change them, or omit the option; other sizes than \
             those that an export fixed need a new export, with free sizes",
        ),
        Err(_) => error,
    }
}

/// Reads the part of the model that the options ask for, and the sizes that nodes of the model mix.
fn requested_graph(sources: &Sources, options: &Options) -> Result<(Graph, BTreeSet<String>)> {
    let mut graph = sources.read()?.graph;
    input_shape::resolve_names(&mut graph)?;
    let mixed = mixed_beyond(&graph, options);
    prepare(&mut graph, options)?;
    Ok((graph, mixed))
}

pub(super) fn has_counts(sources: &Sources, options: &Options) -> Result<bool> {
    Ok(first_axis::has_counts(&requested_graph(sources, options)?.0))
}

/// Returns the inputs with free sizes, as a conversion finds them.
pub(super) fn free_inputs(sources: &Sources, options: &Options) -> Result<Vec<FreeInput>> {
    let (mut graph, mixed) = requested_graph(sources, options)?;
    let named = options.named_first_sizes(&graph)?;
    first_axis::fix_batch(&mut graph, Counts::One, &named, &mixed, &mut Vec::new())?;
    let inputs = graph.variable_inputs().into_iter().map(|id| graph.value(id));
    let free = inputs.filter_map(|value| {
        let shape = value.shape.as_deref()?.to_vec();
        Some(FreeInput { name: value.name.clone(), dtype: value.dtype, shape })
    });
    Ok(free.filter(|input| input.shape.iter().any(|size| size.known().is_none())).collect())
}
