//! The storage of written constants: in the model, or in files next to it.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;
use std::path::{Component, Path, PathBuf};

use super::message::Message;
use super::proto;
use crate::common::int::Int;
use crate::common::output::{Out, Staged, Target};
use crate::error::{Error, Result};
use crate::tensor::{DType, Tensor};

/// Constants of fewer bytes stay in the model.
const THRESHOLD: u64 = 1 << 10;

/// External data begins at multiples of the page size, so that readers can map it.
const PAGE: u64 = 1 << 12;

/// The bytes of a list of sizes, axes or factors of axes.
const SIZES: u64 = 128;

/// The maximum bytes of a constant's name in the name of its file: systems limit the whole to 255.
const MAX_NAME: usize = 100;

/// The storage of constants next to a model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExternalData {
    /// The path of the file, relative to the model's folder, with `/` between folders.
    pub location: String,
    /// Constants of fewer bytes stay in the model; in any case those of one axis and at most 128 bytes, which
    /// may decide shapes: onnxruntime reads these only in the model.
    pub size_threshold: u64,
    /// Whether each constant gets a separate file: `location`, a full stop, the constant's name.
    pub one_file_per_tensor: bool,
    /// Whether constants in attributes are written next to the model too. Some readers support them only in
    /// the model.
    pub convert_attributes: bool,
}

impl ExternalData {
    /// Creates the storage of all constants in one file.
    pub fn new(location: impl Into<String>) -> ExternalData {
        ExternalData {
            location: location.into(),
            size_threshold: THRESHOLD,
            one_file_per_tensor: false,
            convert_attributes: false,
        }
    }

    /// Refuses a location that readers reject.
    pub(crate) fn check(&self) -> Result<()> {
        let plain = |part: Component| matches!(part, Component::Normal(_));
        let name = Path::new(&self.location);
        if self.location.is_empty() || !name.components().all(plain) || self.location.contains(['\0', '\\']) {
            return Err(
                Error::usage("external data must lie in the model's folder, or below it").in_file(name)
            );
        }
        Ok(())
    }
}

/// The `external_data` of a constant's message.
type Entries = Vec<proto::StringStringEntryProto>;

/// The storage of constants.
pub(super) enum Store<'a> {
    /// In the model.
    Inline,
    /// In files next to it.
    External(DataFiles<'a>),
}

/// Planned files next to a model.
pub(super) struct DataFiles<'a> {
    how: &'a ExternalData,
    files: Vec<DataFile>,
    /// The location of each constant: shared bytes are written once.
    locations: BTreeMap<(usize, u64, u64), (usize, u64)>,
    /// Names of files, in lower case for systems that ignore case.
    taken: BTreeSet<String>,
}

struct DataFile {
    location: String,
    end: u64,
    tensors: Vec<(u64, Tensor)>,
}

impl<'a> Store<'a> {
    /// Creates the storage, next to the model if `how` is present.
    pub fn of(how: Option<&'a ExternalData>) -> Result<Store<'a>> {
        let Some(how) = how else { return Ok(Store::Inline) };
        how.check()?;
        Ok(Store::External(DataFiles {
            how,
            files: Vec::new(),
            locations: BTreeMap::new(),
            taken: BTreeSet::from([String::new()]),
        }))
    }

    /// Returns a constant's message.
    pub fn message(&mut self, name: &str, tensor: &Tensor) -> Result<Message> {
        let external = self.entries(name, tensor, false)?;
        tensor_message(name, tensor, external)
    }

    /// Returns the message of a constant in an attribute, which has no name: `called` is for its file.
    pub fn attribute_message(&mut self, called: &str, tensor: &Tensor) -> Result<Message> {
        let external = self.entries(called, tensor, true)?;
        tensor_message("", tensor, external)
    }

    /// Returns the `external_data` of a constant that is stored next to the model.
    fn entries(&mut self, name: &str, tensor: &Tensor, in_attribute: bool) -> Result<Option<Entries>> {
        let Store::External(data) = self else { return Ok(None) };
        let len = tensor.byte_len()?;
        let may_be_sizes = tensor.shape().len() <= 1 && len <= SIZES;
        let is_small = len < data.how.size_threshold;
        let stays = is_small || may_be_sizes || (in_attribute && !data.how.convert_attributes);
        if stays || tensor.dtype() == DType::String {
            return Ok(None);
        }
        data.entries(name, tensor, len).map(Some)
    }

    /// Returns the location of each file.
    pub fn locations(&self) -> impl Iterator<Item = &str> {
        let files = match self {
            Store::Inline => &[],
            Store::External(data) => data.files.as_slice(),
        };
        files.iter().map(|file| file.location.as_str())
    }

    /// Writes the files in the folder of the model at `path`, under temporary names.
    pub fn stage(&self, path: &Path) -> Result<Staged> {
        let Store::External(data) = self else { return Ok(Vec::new()) };
        let mut staged = Vec::with_capacity(data.files.len());
        for file in &data.files {
            let target = data_target(path, Path::new(&file.location))?;
            let mut whole = target.write(|out| file.write(out))?;
            if data.how.one_file_per_tensor {
                whole = whole.with_name(&target)?;
            }
            staged.push((target, whole));
        }
        Ok(staged)
    }
}

/// Returns the destination of a file at this location next to the model at `path`. As when a model is read,
/// the file lies in the model's folder after symbolic links, or in that of the model itself if it is a link.
///
/// # Errors
///
/// `Usage` if a link leads out of these folders; `Io` if the file cannot be written.
pub(crate) fn data_target(path: &Path, location: &Path) -> Result<Target> {
    let target = Target::new(&path.with_file_name(location))?;
    let roots = [Target::new(path)?.folder().to_owned(), real_folder(path)?];
    if roots.iter().any(|root| target.folder().starts_with(root)) {
        return Ok(target);
    }
    let message = "a symbolic link leads out of the model's folder, where readers refuse external data";
    Err(Error::usage(message).in_file(path.with_file_name(location)))
}

/// Returns the folder of a path after symbolic links.
fn real_folder(path: &Path) -> Result<PathBuf> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    folder.canonicalize().map_err(|e| Error::io("the folder cannot be opened", e).in_file(folder))
}

/// Writes a tensor alone.
#[cfg(feature = "verify")]
pub(crate) fn write_tensor(name: &str, tensor: &Tensor, out: &mut Out) -> Result<()> {
    tensor_message(name, tensor, None)?.write(out)
}

fn tensor_message(name: &str, tensor: &Tensor, external: Option<Entries>) -> Result<Message> {
    let dims: Vec<i64> = tensor.shape().iter().map(Int::int).collect();
    let mut fields = proto::TensorProto {
        dims,
        data_type: Some(tensor.dtype().to_onnx()),
        name: Some(name.to_owned()),
        ..proto::TensorProto::default()
    };
    if tensor.dtype() == DType::String {
        fields.string_data = tensor.text().unwrap_or_default().to_vec();
        return Ok(Message::of(&fields));
    }
    if let Some(external) = external {
        fields.external_data = external;
        fields.data_location = Some(i32::from(proto::tensor_proto::DataLocation::External));
        return Ok(Message::of(&fields));
    }
    let mut message = Message::of(&fields);
    message.add_raw(9, tensor)?;
    Ok(message)
}

impl DataFiles<'_> {
    /// Returns the `external_data` of a constant.
    fn entries(&mut self, name: &str, tensor: &Tensor, len: u64) -> Result<Entries> {
        let source = tensor.source();
        let known = source.and_then(|source| self.locations.get(&source).copied());
        let (file, offset) = match known {
            Some(location) => location,
            None => self.add(name, tensor, len),
        };
        self.locations.extend(source.map(|source| (source, (file, offset))));
        let file = self.files.get(file).ok_or_else(|| Error::internal("a file of data was lost"))?;
        Ok(vec![
            entry("location", &file.location),
            entry("offset", &offset.to_string()),
            entry("length", &len.to_string()),
        ])
    }

    /// Returns the file and the offset of a new constant.
    fn add(&mut self, name: &str, tensor: &Tensor, len: u64) -> (usize, u64) {
        if self.files.is_empty() || self.how.one_file_per_tensor {
            let location =
                if self.how.one_file_per_tensor { self.file_name(name) } else { self.how.location.clone() };
            self.files.push(DataFile { location, end: 0, tensors: Vec::new() });
        }
        let index = self.files.len().saturating_sub(1);
        let Some(file) = self.files.last_mut() else { return (index, 0) };
        let offset = file.end.next_multiple_of(PAGE);
        file.end = offset.saturating_add(len);
        file.tensors.push((offset, tensor.clone()));
        (index, offset)
    }

    /// Returns a unique file name, of portable characters.
    fn file_name(&mut self, name: &str) -> String {
        let plain = |c: char| if c.is_ascii_alphanumeric() || "._-".contains(c) { c } else { '_' };
        let name: String = name.chars().map(plain).take(MAX_NAME).collect();
        let mut unique = name.clone();
        let mut number = 0;
        while !self.taken.insert(unique.to_ascii_lowercase()) {
            number += 1;
            unique = format!("{name}_{number}");
        }
        format!("{}.{unique}", self.how.location)
    }
}

impl DataFile {
    fn write(&self, out: &mut Out) -> Result<()> {
        let mut at = 0_u64;
        for (offset, tensor) in &self.tensors {
            let gap = vec![0; usize::try_from(offset.saturating_sub(at))?];
            out.write_all(&gap).map_err(|e| Error::io("writing failed", e))?;
            tensor.write_raw(out)?;
            at = offset.saturating_add(tensor.byte_len()?);
        }
        Ok(())
    }
}

pub(super) fn entry(key: &str, value: &str) -> proto::StringStringEntryProto {
    proto::StringStringEntryProto { key: Some(key.to_owned()), value: Some(value.to_owned()) }
}
