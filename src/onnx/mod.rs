//! Reading and writing of models: the file is mapped, constants are references into it, and model-local
//! functions are inlined.
//!
//! This module does not depend on operators. A graph that is read satisfies the specification
//! (<https://github.com/onnx/onnx/blob/main/docs/IR.md>): each value is defined once and before it is read,
//! and each node follows one version of its domain.

mod attribute;
mod body;
mod external;
mod function;
mod input;
mod limit;
mod message;
mod name;
mod opset;
mod other_file;
mod parts;
mod proto;
mod scope;
mod sparse;
mod store;
mod tensor;
#[cfg(test)]
mod tests;
mod types;
mod version;
mod write;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;

use crate::common::limits;
use crate::common::output::{self, Staged};
use crate::error::{Error, Result};
use crate::graph::{CustomLayers, Graph, ValueId};
use crate::tensor::{RELEASED, SourceBytes};
use external::{ExternalFiles, Folder};
use opset::{domain_of, model_opsets};
use other_file::not_a_model;
use parts::{Encoded, Parts};

pub(crate) use input::models_in;
pub use input::{Input, ModelBytes};
pub use store::ExternalData;
pub(crate) use store::data_target;
#[cfg(feature = "verify")]
pub(crate) use store::write_tensor;
pub use write::Storage;
pub(crate) use write::{check_versions, stage, stream};

/// The newest supported version of the intermediate representation. Newer models are refused: their new
/// fields would be ignored.
const NEWEST_IR: i64 = 14;

/// The version since which constants need not be inputs too.
pub(crate) const FIRST_IR_WITH_CONSTANTS: i64 = 4;

/// Options for reading a model.
#[derive(Clone, Debug)]
pub struct ReadOptions {
    /// The maximum bytes of the model file, without files of external data.
    pub max_size: u64,
    /// The folder of external data; by default that of the model.
    pub data_dir: Option<PathBuf>,
    /// The layers of the user.
    pub layers: CustomLayers,
}

impl Default for ReadOptions {
    fn default() -> Self {
        ReadOptions { max_size: limits::MODEL_BYTES, data_dir: None, layers: CustomLayers::default() }
    }
}

/// A model that has been read.
#[derive(Clone, Debug)]
pub struct Model {
    /// The main graph, with inlined functions.
    pub graph: Graph,
    /// The version of the intermediate representation.
    pub ir_version: i64,
    /// Name and version of the program that wrote the model; may be empty.
    pub producer: String,
    /// The model's metadata, by key.
    pub metadata: BTreeMap<String, String>,
    /// Further metadata.
    pub about: About,
    /// Constants of the graph that are also inputs: a caller of the ONNX model could pass other values.
    pub defaulted_inputs: Vec<ValueId>,
    /// The files of the model.
    pub(crate) sources: Sources,
}

/// The files of a model, in the state of their opening. The model can be read from them again, which takes
/// less memory than a copy of its graph.
#[derive(Clone, Debug)]
pub(crate) struct Sources {
    model: Arc<SourceBytes>,
    external: ExternalFiles,
    layers: CustomLayers,
    /// The files of external data, after the model has been read, and then that of the model. Bytes in memory
    /// have none.
    pub files: Vec<PathBuf>,
}

impl Sources {
    /// Opens a model. External data is opened when the model is read.
    pub fn open(input: &Input, options: &ReadOptions) -> Result<Sources> {
        let folder = match (&options.data_dir, input) {
            (Some(folder), Input::Path(path)) => Folder::new(folder, Some(path)),
            (Some(folder), Input::Stdin | Input::Memory(_)) => Folder::new(folder, None),
            (None, Input::Path(path)) => Folder::of_model(path),
            (None, Input::Stdin | Input::Memory(_)) => Folder::none(),
        };
        let external = match input {
            Input::Memory(bytes) => ExternalFiles::in_memory(folder, &bytes.external_data),
            Input::Path(_) | Input::Stdin => ExternalFiles::new(folder),
        };
        let model = input.open(options.max_size)?;
        let files = model.path().map(Path::to_owned).into_iter().collect();
        Ok(Sources { model, external, layers: options.layers.clone(), files })
    }

    /// Reads the model.
    ///
    /// # Errors
    ///
    /// `Io` if a file cannot be read, `Parse` if it is not an ONNX model, `Invalid` if the model breaks the
    /// specification, `Unsupported` for features that no later step could convert, `Limit` above a limit.
    pub fn read(&self) -> Result<Model> {
        self.check_unchanged()?;
        decode(&self.model, self.external.clone(), &self.layers).map_err(|error| match self.model.path() {
            Some(path) => error.in_file(path),
            None => error,
        })
    }

    /// Returns the bytes of the model, without external data.
    pub fn model_bytes(&self) -> u64 {
        self.model.len()
    }

    /// Returns the bytes of the model and of the external data to which it refers.
    pub fn total_bytes(&self) -> u64 {
        self.model.len().saturating_add(self.external.bytes())
    }

    /// Moves results to their destinations, unless one is a file of the model or the model has changed.
    pub fn move_results(&self, results: Staged) -> Result<()> {
        for (i, (target, _)) in results.iter().enumerate() {
            if self.files.iter().any(|source| target.is_file(source)) {
                return Err(Error::usage("this would overwrite data of the model").in_file(target.named()));
            }
            if results.iter().take(i).any(|(other, _)| other.is(target)) {
                return Err(Error::usage("two results would be the same file").in_file(target.named()));
            }
        }
        self.check_unchanged()?;
        output::put_all(results)
    }

    /// Returns an error if a file has changed: its contents may be inconsistent, and a process ends by a
    /// signal if it reads a mapped page that the file no longer has.
    pub fn check_unchanged(&self) -> Result<()> {
        self.model.check_unchanged()?;
        self.external.files().try_for_each(|file| file.check_unchanged())
    }
}

/// Metadata of a model without effect on its results.
#[derive(Clone, Debug, Default)]
pub struct About {
    /// The namespace of the model.
    pub domain: Option<String>,
    /// The version of the model.
    pub version: Option<i64>,
    /// The documentation of the model.
    pub doc: Option<String>,
    /// The documentation of its graph.
    pub graph_doc: Option<String>,
}

/// Reads a new model, whose external data is found by location, and returns an error if that fails.
fn read_again(model: &Arc<SourceBytes>, data: &BTreeMap<String, Bytes>) -> Result<()> {
    decode(model, ExternalFiles::in_memory(Folder::none(), data), &CustomLayers::default()).map(drop)
}

fn decode(source: &Arc<SourceBytes>, external: ExternalFiles, layers: &CustomLayers) -> Result<Model> {
    let bytes = source.bytes();
    limit::check_messages(&bytes, &|passed| {
        if passed.len() >= RELEASED {
            source.release(passed);
        }
    })?;
    let encoded = Encoded::new(source, &bytes);
    let (model, main) = encoded.decode()?;
    let Some(graph) = &model.graph else { return Err(not_a_model(source, None)) };
    let ir_version = model.ir_version.unwrap_or(0);
    if ir_version < 1 {
        return Err(Error::invalid("the model has no ir_version"));
    }
    if ir_version > NEWEST_IR {
        return Err(Error::unsupported(format!(
            "ir_version {ir_version} is newer than {NEWEST_IR}, the newest supported one"
        )));
    }
    let opsets = model_opsets(&model, ir_version)?;
    let mut reader = body::Reader::new(source, external, &model, &opsets, layers)?;
    let mut body = reader.read_main(&Parts::of_main(&main, graph))?;
    // Functions are inlined, and their domains with them.
    for function in &model.functions {
        if !domain_of(&function.domain).is_empty() {
            body.graph.opsets.remove(domain_of(&function.domain));
        }
    }
    body.graph.budget.stored = source.len().saturating_add(reader.tensors.external.bytes());
    let mut files = reader.tensors.external.paths();
    files.extend(source.path().map(Path::to_owned));
    let name = model.producer_name.as_deref().unwrap_or_default();
    let version = model.producer_version.as_deref().unwrap_or_default();
    let text = |text: &Option<String>| text.clone().unwrap_or_default();
    Ok(Model {
        graph: body.graph,
        ir_version,
        producer: format!("{name} {version}").trim().to_owned(),
        metadata: model.metadata_props.iter().map(|e| (text(&e.key), text(&e.value))).collect(),
        about: About {
            domain: model.domain.clone(),
            version: model.model_version,
            doc: model.doc_string.clone(),
            graph_doc: graph.doc_string.clone(),
        },
        defaulted_inputs: body.defaulted_inputs,
        sources: Sources {
            model: source.clone(),
            external: reader.tensors.external,
            layers: layers.clone(),
            files,
        },
    })
}
