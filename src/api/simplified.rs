//! A simplified model.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use crate::common::output;
use crate::error::{Error, Result};
use crate::onnx::{self, Model, Storage};
use crate::op::since_version;
use crate::pipeline::{Pass, SimplifiedModel};

/// A simplified model, ready to be written.
#[derive(Debug)]
pub struct Simplified {
    model: Model,
    /// The number of nodes after reading and after each pass.
    pub passes: Vec<Pass>,
    /// What the model relies on without proof.
    pub warnings: Vec<String>,
}

impl Simplified {
    pub(super) fn new(simplified: SimplifiedModel) -> Simplified {
        let SimplifiedModel { model, passes, warnings } = simplified;
        Simplified { model, passes, warnings }
    }

    /// Writes the model: all files are written, or none is changed. The files from which it was read are not
    /// overwritten. Returns the paths of the files, the model's last.
    ///
    /// # Errors
    ///
    /// `Usage` if a file of the model would be overwritten; `Limit` if a file would be above 2 GiB;
    /// `Unsupported` if no version of the operator sets fits all nodes; `Io` if a file cannot be read or
    /// written, or was changed meanwhile.
    pub fn write(&self, path: &Path, storage: &Storage) -> Result<Vec<PathBuf>> {
        self.put(self.stage(path, storage)?)
    }

    /// Writes the files of the model next to their destinations.
    pub(super) fn stage(&self, path: &Path, storage: &Storage) -> Result<output::Staged> {
        self.model.sources.check_unchanged()?;
        onnx::stage(&self.model, path, storage, &since_version)
    }

    /// Writes the model with all constants to a writer.
    ///
    /// # Errors
    ///
    /// `Limit` above 2 GiB; `Unsupported` if no version of the operator sets fits all nodes; `Io` if the
    /// writer fails, or a file of the model cannot be read or was changed meanwhile.
    pub fn write_to(&self, writer: impl Write) -> Result<()> {
        self.model.sources.check_unchanged()?;
        onnx::stream(&self.model, writer, &since_version)?;
        self.model.sources.check_unchanged()
    }

    /// Writes the model like [`Simplified::write`] after `check` has accepted it. `check` gets the path of
    /// the model in a temporary folder next to the destination; if it returns an error, nothing is changed.
    ///
    /// # Errors
    ///
    /// Those of `check` and of [`Simplified::write`].
    pub fn write_checked(
        &self,
        path: &Path,
        storage: &Storage,
        check: impl FnOnce(&Path) -> Result<()>,
    ) -> Result<Vec<PathBuf>> {
        let failed = |e| Error::io("the folder cannot be created", e).in_file(path);
        let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
        let room = output::Room::create(parent.unwrap_or(Path::new("."))).map_err(failed)?;
        let inside = room.path().join(path.file_name().unwrap_or_default());
        if let Storage::External(how) = storage
            && let Some(below) = Path::new(&how.location).parent()
        {
            how.check()?;
            fs::create_dir_all(room.path().join(below)).map_err(failed)?;
        }
        let staged = self.stage(&inside, storage)?;
        let found: Vec<PathBuf> = staged.iter().map(|(target, _)| target.named().to_owned()).collect();
        output::put_all(staged)?;
        check(&inside)?;
        let mut files = Vec::new();
        for file in found {
            let name = file.strip_prefix(room.path()).unwrap_or(&file);
            files.push((onnx::data_target(path, name)?, output::Whole::of(file)?));
        }
        self.put(files)
    }

    fn put(&self, files: output::Staged) -> Result<Vec<PathBuf>> {
        let written = files.iter().map(|(target, _)| target.named().to_owned()).collect();
        self.model.sources.move_results(files)?;
        Ok(written)
    }
}
