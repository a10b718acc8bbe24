//! The inputs of a result. The record is written after the result, and removed before the result is replaced:
//! a run that is killed in between leaves no record, and the model is converted again.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use onnx2ncnn::error::{Error, Result};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::child::{Answer, Summary};

/// The folder of locks and records, in the folder of results.
pub(super) const STATE: &str = ".onnx2ncnn";

/// The version of the record format; other versions are ignored.
const FORMAT: u32 = 2;

/// The number of bytes that are read at a time for hashing.
const PART: usize = 1 << 18;

/// The inputs that all results share.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Recipe {
    format: u32,
    /// The version and the hash of the program.
    program: String,
    /// The options, and the files that are written.
    options: Vec<String>,
}

impl Recipe {
    /// Returns the recipe of this program with these options.
    pub fn new(program: &Path, mut options: Vec<String>) -> Result<Recipe> {
        options.extend(contents(&options));
        let hash = hash_file(program)
            .map_err(|e| Error::io("the program file cannot be read", e).in_file(program))?;
        Ok(Recipe { format: FORMAT, program: format!("{} {hash}", env!("CARGO_PKG_VERSION")), options })
    }

    /// Returns the recipe with further options.
    pub fn with(&self, options: &[String]) -> Recipe {
        let mut recipe = self.clone();
        recipe.options.extend(options.iter().cloned().chain(contents(options)));
        recipe
    }
}

/// Returns the hashes of the files that options name: arrays, and layers of the user. A file that cannot be
/// read is an error of each conversion.
fn contents(options: &[String]) -> Vec<String> {
    let path = |word: &String| {
        let of_layers = word.strip_prefix("--custom-layers=");
        of_layers.or_else(|| word.split_once("=@").map(|(_, path)| path)).map(str::to_owned)
    };
    options.iter().filter_map(path).filter_map(|path| hash_file(Path::new(&path)).ok()).collect()
}

/// A result and its inputs. Paths of sources are relative to the folder of the model, those of results to the
/// folder of results: both folders may be moved.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Record {
    recipe: Recipe,
    /// The model and its external data.
    sources: Vec<Content>,
    results: Vec<FileState>,
    pub summary: Summary,
}

/// The content of a file.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Content {
    path: PathBuf,
    sha256: String,
}

/// The state of a written file.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
struct FileState {
    path: PathBuf,
    bytes: u64,
    /// Nanoseconds since 1970.
    modified: u128,
}

impl FileState {
    fn of(path: &Path, out: &Path) -> io::Result<FileState> {
        let metadata = fs::metadata(out.join(path))?;
        Ok(FileState {
            path: path.to_owned(),
            bytes: metadata.len(),
            modified: nanoseconds(metadata.modified()?),
        })
    }
}

/// The folders to which the paths of a record are relative.
#[derive(Clone, Copy, Debug)]
pub(super) struct Folders<'a> {
    pub model: &'a Path,
    pub out: &'a Path,
}

impl Record {
    /// Creates the record of results at their destinations; `None` if a source was changed after `begun`, so
    /// that its content is uncertain, or cannot be read again.
    pub fn new(
        recipe: &Recipe,
        folders: Folders<'_>,
        answer: &Answer,
        results: &[PathBuf],
        begun: u128,
    ) -> io::Result<Option<Record>> {
        let mut contents = Vec::with_capacity(answer.sources.len());
        for path in &answer.sources {
            // A pipe can be read only once.
            if !fs::metadata(path)?.is_file() {
                return Ok(None);
            }
            let sha256 = hash_file(path)?;
            if changed(&fs::metadata(path)?)? >= begun {
                return Ok(None);
            }
            contents
                .push(Content { path: path.strip_prefix(folders.model).unwrap_or(path).to_owned(), sha256 });
        }
        let results: io::Result<Vec<FileState>> =
            results.iter().map(|path| FileState::of(path, folders.out)).collect();
        let (recipe, summary) = (recipe.clone(), answer.summary.clone());
        Ok(Some(Record { recipe, sources: contents, results: results?, summary }))
    }

    /// Reads the record at `path`; `None` if it cannot be read: the model is then converted again.
    pub fn read(path: &Path) -> Option<Record> {
        serde_json::from_slice(&fs::read(path).ok()?).ok()
    }

    /// Returns the files of the result, below the folder of results.
    pub fn files(&self) -> Vec<PathBuf> {
        self.results.iter().map(|state| state.path.clone()).collect()
    }

    /// Writes the record atomically.
    pub fn write(&self, path: &Path) -> io::Result<()> {
        let mut file = tempfile::NamedTempFile::new_in(path.parent().unwrap_or(Path::new(".")))?;
        serde_json::to_writer_pretty(&mut file, self)?;
        file.write_all(b"\n")?;
        file.persist(path)?;
        Ok(())
    }

    /// Returns whether the results are up to date; the cheapest checks come first.
    pub fn is_current(&self, recipe: &Recipe, folders: Folders<'_>, model: &Path) -> bool {
        let unchanged =
            |state: &FileState| FileState::of(&state.path, folders.out).is_ok_and(|now| now == *state);
        let same = |content: &Content| {
            let path = folders.model.join(&content.path);
            path.is_file() && hash_file(&path).is_ok_and(|hash| hash == content.sha256)
        };
        self.recipe == *recipe
            && self.results.iter().all(unchanged)
            && self.sources.iter().any(|content| folders.model.join(&content.path) == model)
            && self.sources.iter().all(same)
    }
}

/// Returns the time of the last change of the file or its metadata.
#[cfg(unix)]
fn changed(metadata: &fs::Metadata) -> io::Result<u128> {
    use std::os::unix::fs::MetadataExt;

    // Renaming another file over it restores an older modification time, but not the change time.
    let [seconds, part] = [metadata.ctime(), metadata.ctime_nsec()].map(|n| u128::try_from(n).unwrap_or(0));
    let change = seconds.saturating_mul(1_000_000_000).saturating_add(part);
    Ok(nanoseconds(metadata.modified()?).max(change))
}

#[cfg(not(unix))]
fn changed(metadata: &fs::Metadata) -> io::Result<u128> {
    metadata.modified().map(nanoseconds)
}

/// Returns the modification time of a file, by the clock of its file system.
pub(super) fn time_of(path: &Path) -> io::Result<u128> {
    fs::metadata(path)?.modified().map(nanoseconds)
}

fn nanoseconds(time: SystemTime) -> u128 {
    time.duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since| since.as_nanos())
}

fn hash_file(path: &Path) -> io::Result<String> {
    let mut hasher = Sha256::new();
    let mut file = File::open(path)?;
    let mut part = vec![0; PART];
    loop {
        let read = file.read(&mut part)?;
        match part.get(..read) {
            Some(bytes) if !bytes.is_empty() => hasher.update(bytes),
            _ => break,
        }
    }
    Ok(hasher.finalize().iter().map(|byte| format!("{byte:02x}")).collect())
}
