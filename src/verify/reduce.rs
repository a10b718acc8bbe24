//! The part of a model and of a net that differs, alone.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::sync::Arc;

use super::Subject;
use super::window::Window;
use crate::common::output::Out;
use crate::error::{Error, Result};
use crate::graph::{Graph, NodeId, Value, ValueId};
use crate::ncnn::Net;
use crate::onnx::{self, Model};
use crate::op::since_version;
use crate::tensor::{Array, Tensor};

/// Elements for which a window differs.
#[derive(Clone, Debug)]
pub(super) struct Example {
    /// The elements of the inputs.
    pub inputs: Vec<Arc<Array>>,
    /// The elements that the model computes.
    pub expected: Arc<Array>,
}

/// The window of a net that differs, with the nodes of the model that compute the same, and elements for
/// which they differ.
#[derive(Clone, Debug)]
pub struct Reduced {
    model: Model,
    net: Net,
    /// The elements of the inputs of the model.
    inputs: Vec<Tensor>,
    /// The elements that the model computes.
    expected: Tensor,
}

impl Reduced {
    /// Cuts out a window; `None` if its nodes read other values than the blobs that its layers read.
    pub(super) fn of(subject: &Subject, window: &Window, example: &Example) -> Result<Option<Reduced>> {
        let Some(nodes) = &window.nodes else { return Ok(None) };
        let inputs: Vec<ValueId> = window.inputs.iter().map(|input| input.value).collect();
        let graph = part(&subject.model.graph, nodes, inputs.iter().zip(&example.inputs), window.value)?;
        let blobs: Vec<_> = window.inputs.iter().map(|input| input.blob).collect();
        let net = subject.net.alone(&window.layers, &blobs, window.blob);
        let inputs = example.inputs.iter().map(|array| Tensor::from_array(array)).collect::<Result<_>>()?;
        let expected = Tensor::from_array(&example.expected)?;
        Ok(Some(Reduced { model: Model { graph, ..subject.model.clone() }, net, inputs, expected }))
    }

    /// Writes `model.onnx`, `net.param`, `net.bin` and, as a case of ONNX's tests, `input_N.pb` and
    /// `output_0.pb` in `test_data_set_0` into a folder without these files.
    ///
    /// # Errors
    ///
    /// `Io` if a file cannot be written.
    pub fn write(&self, folder: &Path) -> Result<()> {
        let data = folder.join("test_data_set_0");
        let failed = |path: &Path, error| Error::io("it cannot be made", error).in_file(path);
        fs::create_dir(&data).map_err(|error| failed(&data, error))?;
        let create = |path: &Path| fs::File::create_new(path).map_err(|error| failed(path, error));
        onnx::stream(&self.model, create(&folder.join("model.onnx"))?, &since_version)?;
        // A net that differs may be one that the check before writing refuses.
        self.net.stream(create(&folder.join("net.param"))?, create(&folder.join("net.bin"))?)?;
        let tensor = |name: &str, path: &Path, tensor: &Tensor| {
            let mut file = create(path)?;
            onnx::write_tensor(name, tensor, &mut Out::writer(&mut file))
        };
        let graph = &self.model.graph;
        for ((index, value), elements) in graph.inputs.iter().enumerate().zip(&self.inputs) {
            tensor(&graph.value(*value).name, &data.join(format!("input_{index}.pb")), elements)?;
        }
        let output = graph.outputs.first().map(|value| graph.value(*value).name.as_str());
        tensor(output.unwrap_or_default(), &data.join("output_0.pb"), &self.expected)
    }
}

/// Returns the graph of some nodes, from their inputs to a value.
fn part<'a>(
    graph: &Graph,
    nodes: &[NodeId],
    inputs: impl Iterator<Item = (&'a ValueId, &'a Arc<Array>)>,
    value: ValueId,
) -> Result<Graph> {
    let mut part = Graph::default();
    part.name.clone_from(&graph.name);
    part.opsets.clone_from(&graph.opsets);
    let mut copies: BTreeMap<ValueId, ValueId> = BTreeMap::new();
    for (id, array) in inputs {
        let (dtype, shape) = (Some(array.dtype()), Some(array.shape().into()));
        let copy = Value { name: graph.value(*id).name.clone(), dtype, shape, ..Value::default() };
        let copy = part.add_value(copy);
        part.inputs.push(copy);
        copies.insert(*id, copy);
    }
    let mut copied = |part: &mut Graph, id: &mut ValueId| {
        *id = *copies
            .entry(*id)
            .or_insert_with(|| part.add_value(Value { producer: None, ..graph.value(*id).clone() }));
    };
    for id in nodes {
        let mut node = graph.node(*id).ok_or_else(|| Error::internal("no node"))?.clone();
        node.inputs.iter_mut().chain(&mut node.outputs).flatten().for_each(|id| copied(&mut part, id));
        for body in node.bodies_mut() {
            body.captures.iter_mut().for_each(|capture| copied(&mut part, &mut capture.outer));
        }
        part.add_node(node);
    }
    let mut output = value;
    copied(&mut part, &mut output);
    part.outputs.push(output);
    Ok(part)
}
