//! Bytes to graph and back: the model file is mapped, its constants stay where they lie, and model-local functions are inlined.
//!
//! Nothing here knows an operator. What is read holds what the specification (<https://github.com/onnx/onnx/blob/main/docs/IR.md>)
//! asks of every graph: each value is defined once and before it is read, and each node follows one version of its domain.

mod attribute;
mod body;
mod external;
mod function;
mod input;
mod scope;
mod sparse;
mod tensor;
mod types;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use prost::Message;

use crate::error::{Error, ErrorKind, Result};
use crate::graph::{Graph, ValueId};
use crate::tensor::MappedFile;

pub use input::Input;

/// The messages of `proto/onnx.proto`, compiled by `build.rs`.
#[allow(missing_docs, dead_code, clippy::all, clippy::as_conversions)]
mod proto {
    include!(concat!(env!("OUT_DIR"), "/onnx.rs"));
}

/// The newest version of the intermediate representation whose messages are known. Newer models are refused: what they say in new
/// fields would be read past.
const NEWEST_IR: i64 = 14;

/// Largest model file by default, 16 GiB. Protobuf ends at 2 GiB, larger weights lie in external files, which do not count.
const MAX_SIZE: u64 = 1 << 34;

/// How a model is read.
#[derive(Clone, Debug)]
pub struct ReadOptions {
    /// Most bytes of the model file, files of external data not among them.
    pub max_size: u64,
    /// The folder of external data; the model's own by default.
    pub data_dir: Option<PathBuf>,
}

impl Default for ReadOptions {
    fn default() -> Self {
        ReadOptions { max_size: MAX_SIZE, data_dir: None }
    }
}

/// A model that has been read.
#[derive(Clone, Debug)]
pub struct Model {
    /// The main graph, with functions inlined.
    pub graph: Graph,
    /// The version of the intermediate representation.
    pub ir_version: i64,
    /// Name and version of the program that made the model; may be empty.
    pub producer: String,
    /// The model's own notes, by key.
    pub metadata: BTreeMap<String, String>,
    /// Constants of the graph that the model also lists as inputs: a caller of the ONNX model could give other values.
    pub defaulted_inputs: Vec<ValueId>,
}

/// Reads a model.
///
/// Errors are of kind `Io` where a file cannot be read, `Parse` where it is no ONNX model, `Invalid` where the model breaks the
/// specification, `Unsupported` for what no later stage could convert, `Limit` above a limit.
pub fn read(input: &Input, options: &ReadOptions) -> Result<Model> {
    let file = input.open(options.max_size)?;
    let folder = match (&options.data_dir, input) {
        (Some(folder), _) => external::Folder::given(folder),
        (None, Input::Path(path)) => external::Folder::of_model(path),
        (None, Input::Stdin) => external::Folder::none(),
    };
    decode(&file, folder).map_err(|e| e.in_file(file.source().path()))
}

fn decode(file: &Arc<MappedFile>, folder: external::Folder) -> Result<Model> {
    let model = proto::ModelProto::decode(file.bytes()).map_err(|e| not_a_model(file).caused_by(e))?;
    let Some(graph) = &model.graph else { return Err(not_a_model(file)) };
    let ir_version = model.ir_version.unwrap_or(0);
    if ir_version < 1 {
        return Err(Error::invalid("the model has no ir_version"));
    }
    if ir_version > NEWEST_IR {
        return Err(Error::unsupported(format!(
            "ir_version {ir_version} is newer than {NEWEST_IR}, the newest that is known"
        )));
    }
    let opsets = model_opsets(&model, ir_version)?;
    let body = body::Reader::new(file, folder, &model, &opsets)?.read_main(graph)?;
    let name = model.producer_name.as_deref().unwrap_or_default();
    let version = model.producer_version.as_deref().unwrap_or_default();
    let text = |text: &Option<String>| text.clone().unwrap_or_default();
    Ok(Model {
        graph: body.graph,
        ir_version,
        producer: format!("{name} {version}").trim().to_owned(),
        metadata: model.metadata_props.iter().map(|e| (text(&e.key), text(&e.value))).collect(),
        defaulted_inputs: body.defaulted_inputs,
    })
}

fn not_a_model(file: &MappedFile) -> Error {
    let message =
        if file.source().is_empty() { "the file is empty" } else { "no ONNX model could be decoded" };
    Error::new(ErrorKind::Parse, message)
}

/// The imported operator sets. Before IR version 3 there was one, and nothing was imported.
fn model_opsets(model: &proto::ModelProto, ir_version: i64) -> Result<BTreeMap<String, i64>> {
    if model.opset_import.is_empty() {
        if ir_version >= 3 {
            return Err(Error::invalid("the model imports no operator set"));
        }
        return Ok(BTreeMap::from([(String::new(), 1)]));
    }
    read_opsets(&model.opset_import)
}

/// The versions of operator sets, by domain.
fn read_opsets(imports: &[proto::OperatorSetIdProto]) -> Result<BTreeMap<String, i64>> {
    let mut versions = BTreeMap::new();
    for import in imports {
        let (domain, version) = (domain_of(&import.domain), import.version.unwrap_or(0));
        if version < 1 {
            return Err(Error::invalid(format!(
                "operator set {version} of the domain \"{domain}\" is imported"
            )));
        }
        if versions.insert(domain.to_owned(), version).is_some_and(|other| other != version) {
            return Err(Error::invalid(format!("two operator sets of the domain \"{domain}\" are imported")));
        }
    }
    Ok(versions)
}

/// A domain. ONNX's own has two spellings.
fn domain_of(domain: &Option<String>) -> &str {
    match domain.as_deref() {
        None | Some("ai.onnx") => "",
        Some(domain) => domain,
    }
}
