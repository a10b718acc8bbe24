//! The two files, both or none: each is written beside its place, synced, and renamed last.

use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use tempfile::{Builder, TempPath};

use super::Net;
use super::layer::Storage;
use crate::error::{Error, Result};

/// The tag of a weight of singles (`ModelBinFromDataReader::load`).
const TAG_F32: [u8; 4] = [0; 4];

/// Begins the names of files that are not whole yet.
const TEMPORARY: &str = ".onnx2ncnn-";

/// What was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Written {
    /// Layers of the net.
    pub layers: usize,
    /// Blobs of the net.
    pub blobs: usize,
    /// Bytes of the `.param` file.
    pub param_bytes: u64,
    /// Bytes of the `.bin` file.
    pub bin_bytes: u64,
}

impl Net {
    /// Checks the net and writes it. After an error both files are as they were.
    pub fn write(&self, param: &Path, bin: &Path) -> Result<Written> {
        self.check()?;
        let (param, bin) = (Target::new(param)?, Target::new(bin)?);
        if param.path == bin.path {
            return Err(
                Error::new(crate::error::ErrorKind::Io, "both files would be the same").in_file(&param.path)
            );
        }
        let new_param = param.write(|out| self.write_param(out))?;
        let new_bin = bin.write(|out| self.write_bin(out))?;
        let (layers, blobs) = self.counts();
        let written = Written { layers, blobs, param_bytes: new_param.len, bin_bytes: new_bin.len };
        let kept = bin.set_aside()?;
        if let Err(error) = bin.put(new_bin) {
            bin.restore(kept);
            return Err(error);
        }
        if let Err(error) = param.put(new_param) {
            bin.restore(kept);
            return Err(error);
        }
        Ok(written)
    }

    fn write_param(&self, out: &mut BufWriter<File>) -> Result<()> {
        let failed = |error| Error::io("writing failed", error);
        out.write_all(self.head().as_bytes()).map_err(failed)?;
        for layer in &self.layers {
            out.write_all(self.line(layer).as_bytes()).map_err(failed)?;
        }
        Ok(())
    }

    fn write_bin(&self, out: &mut BufWriter<File>) -> Result<()> {
        for layer in &self.layers {
            for weight in layer.layer.weights() {
                if weight.storage == Storage::Tagged {
                    out.write_all(&TAG_F32).map_err(|error| Error::io("writing failed", error))?;
                }
                weight
                    .tensor
                    .write_f32(out)
                    .map_err(|error| error.at_part(format!("{} of layer \"{}\"", weight.name, layer.name)))?;
            }
        }
        Ok(())
    }
}

/// A place for a file.
struct Target {
    /// What the user named: for messages.
    named: PathBuf,
    /// Where the file comes to lie: behind symbolic links.
    path: PathBuf,
    folder: PathBuf,
}

/// A whole file beside its place.
struct Whole {
    path: TempPath,
    len: u64,
}

impl Target {
    fn new(named: &Path) -> Result<Target> {
        let failed = |error| Error::io("the file cannot be written", error).in_file(named);
        let path = match fs::canonicalize(named) {
            Ok(path) => {
                if !fs::metadata(&path).map_err(failed)?.is_file() {
                    return Err(failed(io::Error::other("it exists and is not a regular file")));
                }
                path
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let name = named.file_name();
                let name = name.ok_or_else(|| failed(io::Error::other("the path does not name a file")))?;
                let folder = named.parent().filter(|folder| !folder.as_os_str().is_empty());
                fs::canonicalize(folder.unwrap_or(Path::new("."))).map_err(failed)?.join(name)
            }
            Err(error) => return Err(failed(error)),
        };
        let folder = path.parent().map_or_else(PathBuf::new, Path::to_owned);
        Ok(Target { named: named.to_owned(), path, folder })
    }

    fn failed(&self, what: &str, error: io::Error) -> Error {
        Error::io(what, error).in_file(&self.named)
    }

    fn write(&self, content: impl FnOnce(&mut BufWriter<File>) -> Result<()>) -> Result<Whole> {
        let failed = |error| self.failed("the file cannot be written", error);
        let mut builder = Builder::new();
        builder.prefix(TEMPORARY);
        #[cfg(unix)]
        builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o666));
        let (file, path) = builder.tempfile_in(&self.folder).map_err(failed)?.into_parts();
        let mut out = BufWriter::with_capacity(1 << 20, file);
        content(&mut out).map_err(|error| error.in_file(&self.named))?;
        let file = out.into_inner().map_err(|error| failed(error.into_error()))?;
        file.sync_all().map_err(failed)?;
        let len = file.metadata().map_err(failed)?.len();
        Ok(Whole { path, len })
    }

    /// Moves what lies in the place aside.
    fn set_aside(&self) -> Result<Option<TempPath>> {
        if !self.path.exists() {
            return Ok(None);
        }
        let failed = |error| self.failed("the file cannot be replaced", error);
        let aside =
            Builder::new().prefix(TEMPORARY).tempfile_in(&self.folder).map_err(failed)?.into_temp_path();
        fs::rename(&self.path, &aside).map_err(failed)?;
        Ok(Some(aside))
    }

    fn put(&self, whole: Whole) -> Result<()> {
        let failed = |error| self.failed("the file cannot be put in its place", error);
        whole.path.persist(&self.path).map_err(|error| failed(error.error))?;
        // The rename is whole without this too; it makes it last through a loss of power where the system can.
        #[cfg(unix)]
        if let Ok(folder) = File::open(&self.folder) {
            let _ = folder.sync_all();
        }
        Ok(())
    }

    /// Puts back what was set aside, after another failure, which is the one that is reported.
    fn restore(&self, kept: Option<TempPath>) {
        let _ = match kept {
            Some(kept) => kept.persist(&self.path).map_err(|error| error.error),
            None => fs::remove_file(&self.path),
        };
    }
}
