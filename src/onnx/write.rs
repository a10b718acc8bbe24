//! Graph to bytes. Constants are written one by one, and beside the model where it would be larger than protobuf allows.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use prost::Message as _;

use super::Model;
use super::message::Message;
use super::name::{NamedGraph, Names};
use super::proto::{self, attribute_proto::AttributeType};
use super::version::{Since, choose_versions, ir_version};
use crate::error::{Error, ErrorKind, Result};
use crate::graph::{Attribute, Node, ValueId};
use crate::output::{self, Staged, Target};
use crate::tensor::{DType, Tensor};

/// Most bytes of a protobuf message (<https://protobuf.dev/programming-guides/proto-limits>).
const MAX_MESSAGE: u64 = (1 << 31) - 1;

/// Constants of fewer bytes stay in the model where others go to a file beside it.
const MIN_EXTERNAL: u64 = 1 << 10;

/// External data begin at multiples of the size of a page, so that readers can map them.
const PAGE: u64 = 1 << 12;

/// Writes a model, and a file of external data beside it (`FILE.data`) where it would be larger than 2 GiB. After an error both
/// files are as they were.
///
/// A model imports one version of each domain, but nodes that were made here follow the newest: `since` gives the since-version
/// that a node's operator has in an operator set, and a version is taken in which no node changes its meaning. Inputs and outputs
/// keep their names, other values get new ones where two have the same. Constants that were inputs too are constants alone.
///
/// # Errors
///
/// `Unsupported` where no version fits all nodes; `Limit` where the model is too large without its constants.
pub fn write(model: &Model, path: &Path, since: Since) -> Result<()> {
    output::put_all(stage(model, path, since)?)
}

/// The files of [`write`], written beside their places.
pub(crate) fn stage(model: &Model, path: &Path, since: Since) -> Result<Staged> {
    stage_limited(model, path, since, MAX_MESSAGE)
}

/// As [`stage`], with another limit of the model's bytes.
pub(super) fn stage_limited(model: &Model, path: &Path, since: Since, max_message: u64) -> Result<Staged> {
    let versions = choose_versions(&model.graph, since)?;
    let mut message = model_message(model, &versions, &mut Store::Inline)?;
    let target = Target::new(path)?;
    let mut files = Vec::new();
    if message.len()? > max_message {
        let data_path = data_path(path)?;
        let data_target = Target::new(&data_path)?;
        let location = data_path.file_name().and_then(|name| name.to_str());
        let location =
            location.ok_or_else(|| Error::invalid("the file's name is not Unicode").in_file(path))?;
        let mut store = Store::Beside { location: location.to_owned(), end: 0, tensors: Vec::new() };
        message = model_message(model, &versions, &mut store)?;
        if message.len()? > max_message {
            return Err(Error::limit("the model is larger than 2 GiB without its constants"));
        }
        let data = data_target.write(|out| store.write(out))?;
        files.push((data_target, data));
    }
    let whole = target.write(|out| message.write(out))?;
    files.push((target, whole));
    Ok(files)
}

/// `model.onnx` to `model.onnx.data`.
fn data_path(path: &Path) -> Result<PathBuf> {
    let Some(name) = path.file_name() else {
        return Err(Error::new(ErrorKind::Io, "the path does not name a file").in_file(path));
    };
    let mut name = name.to_owned();
    name.push(".data");
    Ok(path.with_file_name(name))
}

/// Where the bytes of constants go.
enum Store {
    /// Into the model.
    Inline,
    /// Into a file beside it.
    Beside { location: String, end: u64, tensors: Vec<(u64, Tensor)> },
}

impl Store {
    /// A constant's message.
    fn message(&mut self, name: &str, tensor: &Tensor) -> Result<Message> {
        let dims: Result<Vec<i64>> = tensor.shape().iter().map(|d| Ok(i64::try_from(*d)?)).collect();
        let mut fields = proto::TensorProto {
            dims: dims?,
            data_type: Some(tensor.dtype().to_onnx()),
            name: Some(name.to_owned()),
            ..proto::TensorProto::default()
        };
        if tensor.dtype() == DType::String {
            fields.string_data = tensor.text().unwrap_or_default().to_vec();
            return Ok(Message::of(&fields));
        }
        let len = tensor.byte_len()?;
        if let Store::Beside { location, end, tensors } = self
            && len >= MIN_EXTERNAL
        {
            let offset = end.next_multiple_of(PAGE);
            *end = offset.saturating_add(len);
            tensors.push((offset, tensor.clone()));
            fields.external_data = vec![
                entry("location", location),
                entry("offset", &offset.to_string()),
                entry("length", &len.to_string()),
            ];
            fields.data_location = Some(i32::from(proto::tensor_proto::DataLocation::External));
            return Ok(Message::of(&fields));
        }
        let mut message = Message::of(&fields);
        message.add_raw(9, tensor)?;
        Ok(message)
    }

    /// Writes the file beside the model.
    fn write(&self, out: &mut BufWriter<File>) -> Result<()> {
        let Store::Beside { tensors, .. } = self else { return Ok(()) };
        let mut at = 0_u64;
        for (offset, tensor) in tensors {
            let gap = vec![0; usize::try_from(offset.saturating_sub(at))?];
            out.write_all(&gap).map_err(|e| Error::io("writing failed", e))?;
            tensor.write_raw(out)?;
            at = offset.saturating_add(tensor.byte_len()?);
        }
        Ok(())
    }
}

fn entry(key: &str, value: &str) -> proto::StringStringEntryProto {
    proto::StringStringEntryProto { key: Some(key.to_owned()), value: Some(value.to_owned()) }
}

fn model_message(model: &Model, versions: &BTreeMap<String, i64>, store: &mut Store) -> Result<Message> {
    let imports = versions.iter().map(|(domain, version)| proto::OperatorSetIdProto {
        domain: Some(domain.clone()),
        version: Some(*version),
    });
    let mut message = Message::of(&proto::ModelProto {
        ir_version: Some(ir_version(model, versions)),
        producer_name: Some(env!("CARGO_PKG_NAME").to_owned()),
        producer_version: Some(env!("CARGO_PKG_VERSION").to_owned()),
        opset_import: imports.collect(),
        metadata_props: model.metadata.iter().map(|(key, value)| entry(key, value)).collect(),
        ..proto::ModelProto::default()
    });
    let mut names = Names::default();
    let named = names.name_graph(&model.graph, None);
    message.add_message(7, graph_message(&named, &mut names, store)?)?;
    Ok(message)
}

fn graph_message(graph: &NamedGraph, names: &mut Names, store: &mut Store) -> Result<Message> {
    let infos = |ids: &[ValueId]| ids.iter().map(|id| graph.info(*id)).collect();
    let copies = graph.returned_captures(names);
    let mut fields = proto::GraphProto {
        name: Some(if graph.graph.name.is_empty() { "graph".to_owned() } else { graph.graph.name.clone() }),
        input: infos(&graph.graph.inputs),
        output: infos(&graph.graph.outputs),
        ..proto::GraphProto::default()
    };
    for (place, copy) in &copies {
        if let Some(output) = fields.output.get_mut(*place) {
            output.name = copy.output.first().cloned();
        }
    }
    let mut message = Message::of(&fields);
    for (_, node) in graph.graph.nodes() {
        let node_message = node_message(node, graph, names, store).map_err(|e| e.at_node(|| node.at()))?;
        message.add_message(1, node_message)?;
    }
    for (_, copy) in &copies {
        message.add_message(1, Message::of(copy))?;
    }
    for (name, tensor) in graph.constants() {
        let constant = store.message(name, tensor);
        message.add_message(5, constant.map_err(|e| e.at_part(format!("constant \"{name}\"")))?)?;
    }
    Ok(message)
}

fn node_message(node: &Node, graph: &NamedGraph, names: &mut Names, store: &mut Store) -> Result<Message> {
    let list = |ids: &[Option<ValueId>]| -> Vec<String> {
        ids.iter().map(|id| id.map_or("", |id| graph.name(id)).to_owned()).collect()
    };
    let mut message = Message::of(&proto::NodeProto {
        input: list(&node.inputs),
        output: list(&node.outputs),
        name: Some(node.name.clone()),
        op_type: Some(node.op_type.clone()),
        domain: Some(node.domain.clone()),
        ..proto::NodeProto::default()
    });
    for (name, attribute) in &node.attributes {
        let attribute = attribute_message(name, attribute, graph, names, store);
        message.add_message(5, attribute.map_err(|e| e.at_part(format!("attribute {name}")))?)?;
    }
    Ok(message)
}

fn attribute_message(
    name: &str,
    attribute: &Attribute,
    graph: &NamedGraph,
    names: &mut Names,
    store: &mut Store,
) -> Result<Message> {
    let mut fields =
        proto::AttributeProto { name: Some(name.to_owned()), ..proto::AttributeProto::default() };
    let kind = match attribute {
        Attribute::Float(_) => AttributeType::Float,
        Attribute::Int(_) => AttributeType::Int,
        Attribute::String(_) => AttributeType::String,
        Attribute::Tensor(_) => AttributeType::Tensor,
        Attribute::Graph(_) => AttributeType::Graph,
        Attribute::Floats(_) => AttributeType::Floats,
        Attribute::Ints(_) => AttributeType::Ints,
        Attribute::Strings(_) => AttributeType::Strings,
        Attribute::Tensors(_) => AttributeType::Tensors,
        Attribute::Graphs(_) => AttributeType::Graphs,
        Attribute::Other(_, encoded) => {
            let same = proto::AttributeProto::decode(encoded.clone())
                .map_err(|e| Error::internal("an attribute cannot be decoded again").caused_by(e))?;
            return Ok(Message::of(&proto::AttributeProto { name: Some(name.to_owned()), ..same }));
        }
    };
    fields.r#type = Some(kind.into());
    match attribute {
        Attribute::Float(f) => fields.f = Some(*f),
        Attribute::Int(i) => fields.i = Some(*i),
        Attribute::String(s) => fields.s = Some(s.clone()),
        Attribute::Floats(list) => fields.floats.clone_from(list),
        Attribute::Ints(list) => fields.ints.clone_from(list),
        Attribute::Strings(list) => fields.strings.clone_from(list),
        _ => {}
    }
    let mut message = Message::of(&fields);
    match attribute {
        // Readers of external data know them as constants of the graph only.
        Attribute::Tensor(tensor) => message.add_message(5, Store::Inline.message("", tensor)?)?,
        Attribute::Tensors(list) => {
            for tensor in list {
                message.add_message(10, Store::Inline.message("", tensor)?)?;
            }
        }
        _ => {}
    }
    for body in attribute.graphs() {
        let field = if matches!(attribute, Attribute::Graph(_)) { 6 } else { 11 };
        let named = names.name_graph(body, Some(graph));
        message.add_message(field, graph_message(&named, names, store)?)?;
    }
    Ok(message)
}
