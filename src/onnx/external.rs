//! External constants, in files or in memory.
//!
//! A model must not make the program read files that its user did not pass: every file must lie in the
//! model's folder, after symbolic links.
//!
//! Spec: <https://github.com/onnx/onnx/blob/main/docs/ExternalData.md>.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::fmt::Write as _;
use std::fs;
use std::io::{self, Read};
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use prost::Message;
use sha1::{Digest, Sha1};

use super::limit::Fields;
use super::proto::tensor_proto::DataLocation;
use super::proto::{StringStringEntryProto, TensorProto};
use crate::error::{Error, ErrorKind, Result, invalid};
use crate::tensor::{DType, SourceFile, Tensor};

/// Fields of TensorProto.
const EXTERNAL_DATA: u32 = 13;
const DATA_LOCATION: u32 = 14;

/// The folder of external data.
#[derive(Clone, Debug)]
pub(super) struct Folder {
    /// The folder to which locations are relative.
    base: Option<PathBuf>,
    /// The path of the model, unless it is not a file.
    model: Option<PathBuf>,
}

impl Folder {
    /// Creates a folder that the user requested.
    pub fn new(folder: &Path, model: Option<&Path>) -> Folder {
        Folder { base: Some(folder.to_owned()), model: model.map(Path::to_owned) }
    }

    /// Creates the folder of a model.
    pub fn of_model(model: &Path) -> Folder {
        let parent = model.parent().filter(|parent| !parent.as_os_str().is_empty());
        Folder::new(parent.unwrap_or(Path::new(".")), Some(model))
    }

    /// Creates no folder: the model came from a pipe or from memory.
    pub fn none() -> Folder {
        Folder { base: None, model: None }
    }

    /// Returns the folders in which a file may lie, after symbolic links: the one to which locations are
    /// relative, and that of the model itself if it is a link. The caches of Hugging Face link model and data
    /// into a folder of blobs.
    fn roots(&self, base: &Path) -> Result<Vec<PathBuf>> {
        let failed = |e| Error::io("the folder of external data cannot be opened", e).in_file(base);
        let mut roots = vec![base.canonicalize().map_err(failed)?];
        if let Some(Ok(model)) = self.model.as_ref().map(|model| model.canonicalize()) {
            roots.extend(model.parent().map(Path::to_owned));
        }
        Ok(roots)
    }

    /// Returns the path of a file as its location is written, and after symbolic links.
    fn locate(&self, location: &str) -> Result<(PathBuf, PathBuf)> {
        check_location(location)?;
        let Some(base) = &self.base else {
            let message = format!("external data at {location:?}, but the model was not read from a file");
            return Err(Error::invalid(message).help("give the folder of the data with --data-dir"));
        };
        let path = base.join(location);
        let failed = |e| Error::io(format!("the external data {} cannot be opened", path.display()), e);
        let real = path.canonicalize().map_err(failed)?;
        if !self.roots(base)?.iter().any(|root| real.starts_with(root)) {
            invalid!("external data at {location:?}: a symbolic link leads out of the model's folder");
        }
        // Opening a pipe would wait for its writer, so the kind of file is checked first.
        if !fs::metadata(&real).map_err(failed)?.is_file() {
            invalid!("external data at {location:?} is not a regular file");
        }
        Ok((path, real))
    }
}

fn check_location(location: &str) -> Result<()> {
    let plain = |part: Component| matches!(part, Component::Normal(_) | Component::CurDir);
    if location.is_empty() || location.contains('\0') || !Path::new(location).components().all(plain) {
        invalid!("external data at {location:?}: the location must be a path inside the model's folder");
    }
    Ok(())
}

/// Normalizes a location.
fn shortest(location: &str) -> PathBuf {
    Path::new(location).components().filter(|part| *part != Component::CurDir).collect()
}

/// The files of external data of one model.
#[derive(Clone, Debug)]
pub(super) struct ExternalFiles {
    folder: Folder,
    /// Files in memory, by normalized location.
    memory: Arc<BTreeMap<PathBuf, Bytes>>,
    /// Each file once, by its path after symbolic links; those in memory by location.
    files: BTreeMap<PathBuf, ExternalFile>,
    /// The paths of locations.
    paths: BTreeMap<String, PathBuf>,
}

#[derive(Clone, Debug)]
struct ExternalFile {
    content: Content,
    /// The SHA-1 in hexadecimal, if a tensor needed it.
    digest: Option<String>,
}

#[derive(Clone, Debug)]
enum Content {
    File(Arc<SourceFile>),
    Memory { location: PathBuf, bytes: Bytes },
}

/// The entries of `external_data`. Unknown keys, such as `basepath`, are ignored.
#[derive(Debug, Default)]
struct Entries<'a> {
    location: &'a str,
    offset: Option<u64>,
    length: Option<u64>,
    checksum: Option<&'a str>,
}

impl<'a> Entries<'a> {
    fn read(entries: &'a [StringStringEntryProto]) -> Result<Entries<'a>> {
        let mut read = Entries::default();
        for entry in entries {
            let value = entry.value.as_deref().unwrap_or_default();
            match entry.key.as_deref().unwrap_or_default() {
                "location" => read.location = value,
                "offset" => read.offset = Some(number("offset", value)?),
                "length" => read.length = Some(number("length", value)?),
                "checksum" => read.checksum = Some(value),
                _ => {}
            }
        }
        Ok(read)
    }
}

/// Returns the location of the data of an encoded tensor, if they are external.
pub(super) fn location(tensor: &[u8]) -> Result<Option<String>> {
    let failed = |error| Error::new(ErrorKind::Parse, "a tensor cannot be decoded").caused_by(error);
    let mut head = TensorProto::default();
    // The bytes of a constant are not copied.
    let fields = Fields(tensor).wholes().filter(|(field, ..)| [EXTERNAL_DATA, DATA_LOCATION].contains(field));
    for (_, field, _) in fields {
        head.merge(field).map_err(failed)?;
    }
    let is_external = head.data_location == Some(i32::from(DataLocation::External));
    let location =
        is_external.then(|| Entries::read(&head.external_data).map(|read| read.location.to_owned()));
    location.transpose()
}

fn number(key: &str, value: &str) -> Result<u64> {
    value.trim().parse().map_err(|_| Error::invalid(format!("external data with {key} {value:?}")))
}

impl ExternalFiles {
    /// Creates the files of a folder.
    pub fn new(folder: Folder) -> ExternalFiles {
        ExternalFiles::in_memory(folder, &BTreeMap::new())
    }

    /// Creates files in memory, by location, and those of a folder for other locations.
    pub fn in_memory(folder: Folder, memory: &BTreeMap<String, Bytes>) -> ExternalFiles {
        let memory = memory.iter().map(|(location, bytes)| (shortest(location), bytes.clone())).collect();
        ExternalFiles { folder, memory: Arc::new(memory), files: BTreeMap::new(), paths: BTreeMap::new() }
    }

    /// Returns the files that tensors refer to.
    pub fn files(&self) -> impl Iterator<Item = &SourceFile> {
        self.files.values().filter_map(|file| match &file.content {
            Content::File(source) => Some(&**source),
            Content::Memory { .. } => None,
        })
    }

    /// Returns their paths.
    pub fn paths(&self) -> Vec<PathBuf> {
        self.files().map(|file| file.path().to_owned()).collect()
    }

    /// Returns their total bytes.
    pub fn bytes(&self) -> u64 {
        self.files.values().fold(0, |sum, file| file.content.len().saturating_add(sum))
    }

    fn file(&mut self, location: &str) -> Result<&mut ExternalFile> {
        let key = shortest(location);
        if let Some(bytes) = self.memory.get(&key) {
            check_location(location)?;
            let content = || Content::Memory { location: key.clone(), bytes: bytes.clone() };
            let file = || ExternalFile { content: content(), digest: None };
            return Ok(self.files.entry(key.clone()).or_insert_with(file));
        }
        let (path, key) = match self.paths.get(location) {
            Some(key) => (key.clone(), key.clone()),
            None => self.folder.locate(location)?,
        };
        self.paths.insert(location.to_owned(), key.clone());
        Ok(match self.files.entry(key) {
            Entry::Occupied(entry) => entry.into_mut(),
            Entry::Vacant(entry) => {
                let source = Arc::new(SourceFile::reopened(entry.key(), &path)?);
                entry.insert(ExternalFile { content: Content::File(source), digest: None })
            }
        })
    }

    /// Returns a tensor whose bytes are a range of a file, or of bytes in memory.
    pub fn tensor(
        &mut self,
        dtype: DType,
        shape: Vec<usize>,
        entries: &[StringStringEntryProto],
    ) -> Result<Tensor> {
        let entries = Entries::read(entries)?;
        let file = self.file(entries.location)?;
        if let Some(checksum) = entries.checksum {
            file.verify(checksum)?;
        }
        let needed = needed_bytes(dtype, &shape)?;
        let (offset, len) = (entries.offset.unwrap_or(0), entries.length.unwrap_or(needed));
        let have = file.content.len();
        if offset.checked_add(len).is_none_or(|end| end > have) {
            invalid!(
                "external data at {offset} of {len} bytes, but {} has {have} bytes",
                file.content.path().display()
            );
        }
        match &file.content {
            Content::File(source) => Tensor::from_file(dtype, shape, source.clone(), offset, len),
            Content::Memory { bytes, .. } => {
                let begin = usize::try_from(offset)?;
                Tensor::from_raw(dtype, shape, bytes.slice(begin..begin + usize::try_from(len)?))
            }
        }
    }
}

fn needed_bytes(dtype: DType, shape: &[usize]) -> Result<u64> {
    let count = shape.iter().try_fold(1_usize, |n, d| n.checked_mul(*d));
    match count.and_then(|count| dtype.byte_len(count)) {
        Some(bytes) => Ok(u64::try_from(bytes)?),
        None => Err(Error::limit(format!("a tensor of shape {shape:?} is too large"))),
    }
}

impl ExternalFile {
    fn verify(&mut self, checksum: &str) -> Result<()> {
        let digest = match &self.digest {
            Some(digest) => digest,
            None => self.digest.insert(self.content.sha1()?),
        };
        if !digest.eq_ignore_ascii_case(checksum.trim()) {
            let path = self.content.path().display();
            invalid!("{path} has the SHA-1 {digest}, but the model was made with {checksum}");
        }
        Ok(())
    }
}

impl Content {
    /// Returns the path for messages.
    fn path(&self) -> &Path {
        match self {
            Content::File(source) => source.path(),
            Content::Memory { location, .. } => location,
        }
    }

    /// Returns the number of bytes.
    fn len(&self) -> u64 {
        match self {
            Content::File(source) => source.len(),
            Content::Memory { bytes, .. } => u64::try_from(bytes.len()).unwrap_or(u64::MAX),
        }
    }

    /// Returns the SHA-1 in hexadecimal.
    fn sha1(&self) -> Result<String> {
        let mut sha1 = Sha1::new();
        match self {
            Content::File(source) => digest_file(source, &mut sha1)?,
            Content::Memory { bytes, .. } => sha1.update(bytes),
        }
        let mut text = String::new();
        for byte in sha1.finalize() {
            // Writing to a string cannot fail.
            let _ = write!(text, "{byte:02x}");
        }
        Ok(text)
    }
}

fn digest_file(source: &SourceFile, sha1: &mut Sha1) -> Result<()> {
    let failed = |e: io::Error| Error::io("reading failed", e).in_file(source.path());
    let mut reader = source.range(0, source.len())?;
    let mut buffer = vec![0; 1 << 16];
    loop {
        match reader.read(&mut buffer) {
            Ok(0) => return Ok(()),
            Ok(n) => sha1.update(buffer.get(..n).unwrap_or_default()),
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => return Err(failed(e)),
        }
    }
}
