//! Where a model comes from.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::error::{Error, Result};
use crate::tensor::{MappedFile, SourceFile};

/// A model to be read.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Input {
    /// A file.
    Path(PathBuf),
    /// Standard input.
    Stdin,
}

impl Input {
    /// As on a command line: `-` is standard input.
    pub fn from_arg(arg: impl Into<PathBuf>) -> Input {
        let path = arg.into();
        if path.as_os_str() == "-" { Input::Stdin } else { Input::Path(path) }
    }

    /// Maps the model. What is no regular file (a pipe) goes through a temporary file without a name.
    pub(super) fn open(&self, max_size: u64) -> Result<Arc<MappedFile>> {
        let source = match self {
            Input::Stdin => spool(&mut io::stdin().lock(), Path::new("standard input"), max_size)?,
            Input::Path(path) => open_path(path, max_size)?,
        };
        if source.len() > max_size {
            return Err(too_large(max_size).in_file(source.path()));
        }
        MappedFile::new(source)
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

fn open_path(path: &Path, max_size: u64) -> Result<SourceFile> {
    let failed = |e| Error::io("the model cannot be opened", e).in_file(path);
    let mut file = File::open(path).map_err(failed)?;
    let kind = file.metadata().map_err(failed)?.file_type();
    if kind.is_dir() {
        return Err(failed(io::ErrorKind::IsADirectory.into()));
    }
    if kind.is_file() { SourceFile::new(file, path) } else { spool(&mut file, path, max_size) }
}

fn spool(from: &mut impl Read, path: &Path, max_size: u64) -> Result<SourceFile> {
    let failed = |e| Error::io("the model cannot be read", e).in_file(path);
    let mut file = tempfile::tempfile().map_err(|e| Error::io("no temporary file can be made", e))?;
    let copied = io::copy(&mut from.take(max_size.saturating_add(1)), &mut file).map_err(failed)?;
    if copied > max_size {
        return Err(too_large(max_size).in_file(path));
    }
    SourceFile::new(file, path)
}

fn too_large(max_size: u64) -> Error {
    Error::limit(format!("the model is larger than {max_size} bytes")).help("raise the limit with --max-size")
}
