//! The source of a model.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;

use super::{external, limit};
use crate::error::{Error, ErrorKind, Result};
use crate::tensor::{SourceBytes, SourceFile, spool};

/// The source of a model.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Input {
    /// A file.
    Path(PathBuf),
    /// Standard input.
    Stdin,
    /// Bytes in memory.
    Memory(ModelBytes),
}

/// A model in memory, with the external data to which it refers. Copies share the bytes.
///
/// ```no_run
/// use onnx2ncnn::{Converter, Input, ModelBytes};
///
/// # fn download(name: &str) -> Vec<u8> { name.into() }
/// let model = ModelBytes::new(download("model.onnx")).external_data("weights.bin", download("weights.bin"));
/// let (mut param, mut bin) = (Vec::new(), Vec::new());
/// Converter::new().convert(&Input::from(model))?.write_to(&mut param, &mut bin)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct ModelBytes {
    pub(super) model: Bytes,
    pub(super) external_data: BTreeMap<String, Bytes>,
}

impl ModelBytes {
    /// Takes the bytes of an ONNX file.
    pub fn new(model: impl Into<Bytes>) -> ModelBytes {
        ModelBytes { model: model.into(), external_data: BTreeMap::new() }
    }

    /// Adds the bytes of a file of external data. `location` is its path in the model: relative, with `/`
    /// between folders.
    #[must_use]
    pub fn external_data(mut self, location: impl Into<String>, bytes: impl Into<Bytes>) -> ModelBytes {
        self.external_data.insert(location.into(), bytes.into());
        self
    }

    /// Returns the locations of the external data to which the model refers, whether or not they were added.
    ///
    /// # Errors
    ///
    /// `Parse` if a tensor cannot be decoded, `Limit` above a limit. Other faults of a model are found when
    /// it is read.
    pub fn data_locations(&self) -> Result<BTreeSet<String>> {
        let mut locations = BTreeSet::new();
        for tensor in limit::tensors(&self.model)? {
            locations.extend(external::location(tensor)?);
        }
        Ok(locations)
    }
}

/// Prints lengths instead of the bytes.
impl fmt::Debug for ModelBytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let external_data: BTreeMap<_, _> =
            self.external_data.iter().map(|(location, bytes)| (location, bytes.len())).collect();
        f.debug_struct("ModelBytes")
            .field("model", &self.model.len())
            .field("external_data", &external_data)
            .finish()
    }
}

impl Input {
    /// Parses a command-line argument: `-` is standard input.
    pub fn from_arg(arg: impl Into<PathBuf>) -> Input {
        let path = arg.into();
        if path.as_os_str() == "-" { Input::Stdin } else { Input::Path(path) }
    }

    /// Opens the model. A regular file is mapped; a pipe is read to its end.
    pub(super) fn open(&self, max_size: u64) -> Result<Arc<SourceBytes>> {
        let source = match self {
            Input::Stdin => spool_below(&mut io::stdin().lock(), Path::new("standard input"), max_size)?,
            Input::Path(path) => open_path(path, max_size)?,
            Input::Memory(bytes) => SourceBytes::of_bytes(bytes.model.clone()),
        };
        if source.len() > max_size {
            let error = Error::limit(format!("the model is larger than {max_size} bytes"))
                .help("raise the limit with --max-size");
            return Err(match source.path() {
                Some(path) => error.in_file(path),
                None => error,
            });
        }
        Ok(source)
    }
}

impl From<ModelBytes> for Input {
    fn from(bytes: ModelBytes) -> Input {
        Input::Memory(bytes)
    }
}

impl From<Bytes> for Input {
    fn from(model: Bytes) -> Input {
        Input::Memory(ModelBytes::new(model))
    }
}

impl From<Vec<u8>> for Input {
    fn from(model: Vec<u8>) -> Input {
        Input::Memory(ModelBytes::new(model))
    }
}

impl From<PathBuf> for Input {
    fn from(path: PathBuf) -> Input {
        Input::Path(path)
    }
}

impl From<&Path> for Input {
    fn from(path: &Path) -> Input {
        Input::Path(path.to_owned())
    }
}

impl From<&str> for Input {
    fn from(path: &str) -> Input {
        Input::Path(path.into())
    }
}

/// Returns the models of a folder, without its folders, in the order of their names.
pub(crate) fn models_in(folder: &Path) -> Vec<PathBuf> {
    let paths = folder.read_dir().into_iter().flatten().filter_map(|entry| Some(entry.ok()?.path()));
    let is_model = |path: &PathBuf| path.extension().is_some_and(|ending| ending == "onnx");
    let mut models: Vec<PathBuf> = paths.filter(is_model).collect();
    models.sort();
    models
}

/// Returns the names of the models of a folder, as a help.
fn models_of(folder: &Path) -> String {
    const NAMED: usize = 4;
    let models = models_in(folder);
    if folder.join("config.json").is_file() {
        return "-o DIR makes a bundle of the folder of a decoder and its tokenizer".to_owned();
    }
    let names: Vec<String> = models.iter().take(NAMED).map(|path| path.display().to_string()).collect();
    let named = names.join(", ");
    match models.len() {
        0 => "it has no file that ends in .onnx".to_owned(),
        1 => format!("its model is {named}"),
        count @ ..=NAMED => format!("its {count} models are {named}: give one, or convert all by `batch`"),
        count => format!("it has {count} models, such as {named}: give one, or convert all by `batch`"),
    }
}

fn open_path(path: &Path, max_size: u64) -> Result<Arc<SourceBytes>> {
    let failed = |e| Error::io("the model cannot be opened", e).in_file(path);
    // Windows opens no folders, and gives another reason.
    if path.is_dir() {
        return Err(failed(io::ErrorKind::IsADirectory.into()).help(models_of(path)));
    }
    let mut file = File::open(path).map_err(failed)?;
    let kind = file.metadata().map_err(failed)?.file_type();
    if kind.is_file() {
        SourceBytes::of_file(SourceFile::new(file, path)?)
    } else {
        spool_below(&mut file, path, max_size)
    }
}

/// The least first byte of a message: the number of its first field, at least 1, times 8, and a wire type.
const FIRST_TAG: u8 = 8;

/// Reads to the end, or to the first byte above the limit. A stream that begins with zeros is not read
/// further: it may be a device without an end.
fn spool_below(from: &mut impl Read, path: &Path, max_size: u64) -> Result<Arc<SourceBytes>> {
    let mut start = Vec::new();
    let failed = |e| Error::io("the model cannot be read", e).in_file(path);
    from.take(1).read_to_end(&mut start).map_err(failed)?;
    if let Some(first) = start.first().filter(|first| **first < FIRST_TAG) {
        let message = format!("no ONNX model begins with the byte {first}");
        return Err(Error::new(ErrorKind::Parse, message).in_file(path));
    }
    spool(&mut start.chain(from.take(max_size)), path)
}
