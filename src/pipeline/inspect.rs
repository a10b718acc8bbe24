//! The contents of a model, without a conversion.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use super::{Metadata, Options};
use crate::error::Result;
use crate::graph::{Attribute, Graph, ValueId};
use crate::onnx::{Model, Sources};
use crate::op::Call;
use crate::ops;
use crate::pass;
use crate::tensor::Shape;

/// The contents of a model with inlined functions.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Inspection {
    /// The files from which it was read: external data, then the model.
    pub files: Vec<PathBuf>,
    /// The program that made the model.
    pub producer: String,
    /// What the model says about its use.
    pub metadata: Metadata,
    /// The version of the intermediate representation.
    pub ir_version: i64,
    /// The versions of the operator sets, by domain; ONNX's is the empty one.
    pub opsets: BTreeMap<String, i64>,
    /// The inputs.
    pub inputs: Vec<Described>,
    /// The outputs.
    pub outputs: Vec<Described>,
    /// The number of nodes of each operator, including those of bodies of control flow.
    pub operators: BTreeMap<String, usize>,
    /// The number of elements of all constants that are read, those in attributes and bodies among them.
    pub parameters: u64,
    /// The bytes of these constants.
    pub parameter_bytes: u64,
    /// The number of multiply-adds of convolutions and products of known sizes.
    pub multiply_adds: u64,
    /// The number of convolutions and products of unknown sizes.
    pub uncounted: usize,
}

/// An input or output of a model.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Described {
    /// Its name.
    pub name: String,
    /// The element type by its ONNX name; `?` if it is unknown.
    pub dtype: String,
    /// The shape, if the rank is known.
    pub shape: Option<Shape>,
}

/// Inspects a model.
pub(crate) fn inspect(sources: &Sources, options: &Options) -> Result<Inspection> {
    Ok(infer_model(sources, options)?.0)
}

/// Inspects a model, and infers the shapes of its values.
pub(crate) fn infer_model(sources: &Sources, options: &Options) -> Result<(Inspection, Graph)> {
    ops::register();
    let Model { mut graph, ir_version, producer, metadata, sources, .. } = sources.read()?;
    super::simplify::cut(&mut graph, options)?;
    pass::dead::remove_dead_nodes(&mut graph);
    let mut operators = BTreeMap::new();
    count_operators(&graph, &mut operators);
    let (parameters, parameter_bytes) = count_parameters(&graph)?;
    pass::input_shape::set_input_shapes(&mut graph, &options.input_shapes)?;
    pass::input_value::set_inputs(&mut graph, &options.set)?;
    pass::infer::infer_and_fold(&mut graph)?;
    let counts: Vec<Option<u64>> = graph
        .nodes()
        .filter_map(|(_, node)| Call::of(&graph, node))
        .filter_map(|(op, call)| Some(op.multiply_adds?(&call)))
        .collect();
    let describe = |ids: &[ValueId]| ids.iter().map(|id| describe(&graph, *id)).collect();
    let inspection = Inspection {
        files: sources.files,
        producer,
        metadata: Metadata::of(metadata),
        ir_version,
        opsets: graph.opsets.clone(),
        inputs: describe(&graph.inputs),
        outputs: describe(&graph.outputs),
        operators,
        parameters,
        parameter_bytes,
        multiply_adds: counts.iter().flatten().fold(0, |sum, n| sum.saturating_add(*n)),
        uncounted: counts.iter().filter(|count| count.is_none()).count(),
    };
    Ok((inspection, graph))
}

fn describe(graph: &Graph, id: ValueId) -> Described {
    let value = graph.value(id);
    let dtype = value.dtype.map(|dtype| dtype.name()).or(value.other_type.as_ref().map(|other| other.kind));
    Described { name: value.name.clone(), dtype: dtype.unwrap_or("?").to_owned(), shape: value.shape.clone() }
}

fn count_operators(graph: &Graph, counts: &mut BTreeMap<String, usize>) {
    for (_, node) in graph.nodes() {
        *counts.entry(node.qualified_op_type()).or_insert(0) += 1;
        for body in node.bodies() {
            count_operators(body, counts);
        }
    }
}

/// Returns the number and bytes of the elements of the constants that nodes read, and of those in the
/// attributes of nodes.
fn count_parameters(graph: &Graph) -> Result<(u64, u64)> {
    let read: BTreeSet<ValueId> = graph.nodes().flat_map(|(_, node)| node.reads()).collect();
    let (mut elements, mut bytes) = (0_u64, 0_u64);
    let mut add = |more: u64, size: u64| {
        elements = elements.saturating_add(more);
        bytes = bytes.saturating_add(size);
    };
    for tensor in read.iter().filter_map(|id| graph.value(*id).constant.as_ref()) {
        add(u64::try_from(tensor.len())?, tensor.byte_len()?);
    }
    for (_, node) in graph.nodes() {
        for tensor in node.attributes.values().flat_map(Attribute::tensors) {
            add(u64::try_from(tensor.len())?, tensor.byte_len()?);
        }
        // Lists of floats are small constants, and the weights of classical models.
        for attribute in node.attributes.values() {
            if let Attribute::Floats(numbers) = attribute {
                let count = u64::try_from(numbers.len())?;
                add(count, count.saturating_mul(4));
            }
        }
        for body in node.bodies() {
            let (more, size) = count_parameters(body)?;
            add(more, size);
        }
    }
    Ok((elements, bytes))
}
