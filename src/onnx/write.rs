//! Writing of models. Constants are written one by one, and next to the model if it would be larger than
//! protobuf allows.

use std::collections::BTreeMap;
use std::io::{BufWriter, Write};
use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use prost::Message as _;

use super::message::Message;
use super::name::{NamedGraph, Names};
use super::proto::{self, attribute_proto::AttributeType};
use super::store::{ExternalData, Store, entry};
use super::version::{Since, choose_versions, ir_version};
use super::{Model, read_again};
use crate::common::output::{Out, PIECE, Staged, Target, Whole};
use crate::error::{Error, Result};
use crate::graph::{Attribute, Node, ValueId};
use crate::tensor::{SourceBytes, SourceFile};

/// The maximum bytes of a protobuf message (<https://protobuf.dev/programming-guides/proto-limits>).
const MAX_MESSAGE: u64 = (1 << 31) - 1;

/// The storage of constants.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Storage {
    /// In the model; if it would be larger than 2 GiB, in a file next to it, `FILE.data`.
    #[default]
    AsNeeded,
    /// In the model.
    Inline,
    /// In files next to it.
    External(ExternalData),
}

/// Checks that one version of each domain fits all nodes, as [`stage`] requires.
pub(crate) fn check_versions(model: &Model, since: Since) -> Result<()> {
    choose_versions(&model.graph, since).map(drop)
}

/// Writes the files of a model under temporary names; the model is the last.
///
/// A model imports one version of each domain, but new nodes follow the newest: `since` returns the
/// since-version of a node's operator in an operator set, and a version is chosen in which no node changes
/// its meaning. Inputs and outputs keep their names, other values get new ones if two have the same.
/// Constants are not inputs.
///
/// # Errors
///
/// `Unsupported` if no version fits all nodes; `Limit` if the model is too large; `Usage` if external data
/// would not lie below the model's folder; `Internal` if the files cannot be read as a model.
pub(crate) fn stage(model: &Model, path: &Path, storage: &Storage, since: Since) -> Result<Staged> {
    stage_limited(model, path, storage, since, MAX_MESSAGE)
}

/// Like [`stage`], with another limit of the model's bytes.
pub(super) fn stage_limited(
    model: &Model,
    path: &Path,
    storage: &Storage,
    since: Since,
    max_message: u64,
) -> Result<Staged> {
    let versions = choose_versions(&model.graph, since)?;
    let target = Target::new(path)?;
    let external = match storage {
        Storage::External(how) => Some(how),
        Storage::AsNeeded | Storage::Inline => None,
    };
    let mut store = Store::of(external)?;
    let mut message = model_message(model, &versions, &mut store)?;
    let data;
    if message.len()? > max_message && *storage == Storage::AsNeeded {
        data = ExternalData::new(data_name(path)?);
        store = Store::of(Some(&data))?;
        message = model_message(model, &versions, &mut store)?;
    }
    if message.len()? > max_message {
        return Err(too_large(storage));
    }
    let mut files = store.stage(path)?;
    let whole = target.write(|out| message.write(out))?;
    let locations = store.locations().map(str::to_owned).zip(&files);
    let data: Result<BTreeMap<String, Bytes>> =
        locations.map(|(location, file)| Ok((location, mapped(file)?.bytes()))).collect();
    files.push((target, whole));
    if let Some(file) = files.last() {
        read_again(&mapped(file)?, &data?)
            .map_err(|error| Error::internal("the new model cannot be read").caused_by(error))?;
    }
    Ok(files)
}

/// Maps a file that is not at its destination yet. It is closed then: a model may have more files than a
/// process may keep open.
fn mapped((target, whole): &(Target, Whole)) -> Result<Arc<SourceBytes>> {
    SourceBytes::of_closed(&SourceFile::new(whole.open()?, target.named())?)
}

/// Writes a model with all constants to a writer.
///
/// # Errors
///
/// As for [`stage`], and `Io` if the writer fails.
pub(crate) fn stream(model: &Model, writer: impl Write, since: Since) -> Result<()> {
    let versions = choose_versions(&model.graph, since)?;
    let message = model_message(model, &versions, &mut Store::Inline)?;
    if message.len()? > MAX_MESSAGE {
        return Err(too_large(&Storage::Inline));
    }
    let mut writer = BufWriter::with_capacity(PIECE, writer);
    message.write(&mut Out::writer(&mut writer))?;
    writer.flush().map_err(|error| Error::io("writing failed", error))
}

/// Protobuf ends at 2 GiB.
fn too_large(storage: &Storage) -> Error {
    match storage {
        Storage::Inline => Error::limit("the model is larger than 2 GiB, which no reader supports")
            .help("write its constants to another file with --external-data FILE"),
        Storage::External(how) if !how.convert_attributes => {
            Error::limit("the model is larger than 2 GiB without the constants of the graph")
                .help("write those in attributes there too with --convert-attributes")
        }
        Storage::External(_) | Storage::AsNeeded => {
            Error::limit("the model is larger than 2 GiB without its constants")
        }
    }
}

/// Returns the name `model.onnx.data`.
fn data_name(path: &Path) -> Result<String> {
    let name = path.file_name().and_then(|name| name.to_str());
    let name = name.ok_or_else(|| Error::invalid("the file name is not valid UTF-8").in_file(path))?;
    Ok(format!("{name}.data"))
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
        domain: model.about.domain.clone(),
        model_version: model.about.version,
        doc_string: model.about.doc.clone(),
        opset_import: imports.collect(),
        metadata_props: model.metadata.iter().map(|(key, value)| entry(key, value)).collect(),
        ..proto::ModelProto::default()
    });
    let mut names = Names::default();
    let named = names.name_graph(&model.graph, None);
    let mut graph = graph_message(&named, &mut names, store)?;
    graph.add(&proto::GraphProto {
        doc_string: model.about.graph_doc.clone(),
        ..proto::GraphProto::default()
    });
    message.add_message(7, graph)?;
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
    for (index, copy) in &copies {
        if let Some(output) = fields.output.get_mut(*index) {
            output.name = copy.output.first().cloned();
        }
    }
    fields.value_info = graph.declared_values().map(|id| graph.info(id)).collect();
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
        name: Some(names.unique_node(&node.name)),
        op_type: Some(node.op_type.to_string()),
        domain: Some(node.domain.to_string()),
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
    if let Attribute::Other(_, encoded) = attribute {
        let same = proto::AttributeProto::decode(encoded.clone())
            .map_err(|e| Error::internal("an attribute cannot be decoded again").caused_by(e))?;
        return Ok(Message::of(&proto::AttributeProto { name: Some(name.to_owned()), ..same }));
    }
    fields.r#type = AttributeType::from_str_name(attribute.kind()).map(i32::from);
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
    for tensor in attribute.tensors() {
        let field = if matches!(attribute, Attribute::Tensor(_)) { 5 } else { 10 };
        message.add_message(field, store.attribute_message(name, tensor)?)?;
    }
    for body in attribute.graphs() {
        let field = if matches!(attribute, Attribute::Graph(_)) { 6 } else { 11 };
        let named = names.name_graph(body, Some(graph));
        message.add_message(field, graph_message(&named, names, store)?)?;
    }
    Ok(message)
}
