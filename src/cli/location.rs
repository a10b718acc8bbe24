//! Locations of models and results: files, in folders that may not exist yet, and the streams of the process.

use std::fs::{self, File};
use std::io::{self, IsTerminal};
use std::path::{Component, Path, PathBuf};

use onnx2ncnn::error::{Error, Result};
use onnx2ncnn::ncnn::Written;
use onnx2ncnn::{Conversion, Input};
use tempfile::TempDir;

/// The `MODEL` that means standard input.
pub(super) const STANDARD_INPUT: &str = "-";

/// The paths that mean standard output.
const STANDARD_OUTPUT: [&str; 4] = ["-", "/dev/stdout", "/dev/fd/1", "/proc/self/fd/1"];

/// Returns the model to read.
pub(super) fn input(model: &Path) -> Result<Input> {
    let input = Input::from_arg(model);
    if input == Input::Stdin && std::io::stdin().is_terminal() {
        return Err(Error::usage("standard input is a terminal, not a model"));
    }
    Ok(input)
}

/// Returns the path of a model that is read again for a comparison.
pub(super) fn path_to_read_again(model: &Path) -> Result<&Path> {
    if model == Path::new(STANDARD_INPUT) {
        return Err(Error::usage("a model from standard input cannot be read again for a comparison"));
    }
    Ok(model)
}

/// Returns the absolute path, with its links and without the prefix of real paths on Windows, which no shell
/// takes.
pub(super) fn absolute(path: &Path) -> Result<PathBuf> {
    std::path::absolute(path).map_err(|e| Error::io("the path cannot be followed", e).in_file(path))
}

/// Returns a folder for files that no user asks for, which is removed with them.
pub(super) fn temporary_folder() -> Result<TempDir> {
    tempfile::tempdir().map_err(|e| Error::io("the folder cannot be created", e))
}

/// Writes a net to temporary files.
pub(super) fn write_net(conversion: &Conversion, param: &Path, bin: &Path) -> Result<Written> {
    let create =
        |path| File::create(path).map_err(|e| Error::io("the file cannot be created", e).in_file(path));
    conversion.write_to(create(param)?, create(bin)?)
}

/// The result that goes to standard output: it is complete before its first byte is written there.
#[derive(Debug)]
struct Piped {
    /// The folder of the file.
    _room: TempDir,
    path: PathBuf,
}

/// The files of the results of a run.
#[derive(Debug, Default)]
pub(super) struct Outputs {
    piped: Option<Piped>,
    files: Vec<PathBuf>,
}

impl Outputs {
    /// Returns the locations of the files of several nets of a model.
    ///
    /// # Errors
    ///
    /// `Usage` if one of them is the model; the message begins with `what` it would be.
    pub fn of_nets<'f>(
        files: impl Iterator<Item = &'f PathBuf>,
        model: &Path,
        what: &str,
    ) -> Result<Outputs> {
        let mut outputs = Outputs::default();
        for file in files {
            let file = outputs.add(file)?;
            if model.canonicalize().is_ok_and(|model| model == file) {
                return Err(refused(&file, format!("{what} would overwrite the model itself")));
            }
        }
        Ok(outputs)
    }

    /// Returns the path at which to write a result, after symbolic links. Its folder may have to be made.
    pub fn add(&mut self, path: &Path) -> Result<PathBuf> {
        if !is_standard_output(path) {
            let path = writable(path)?;
            self.files.push(path.clone());
            return Ok(path);
        }
        if self.piped.is_some() {
            return Err(Error::usage("two results would go to standard output"));
        }
        let room = temporary_folder()?;
        // Model and net are in this folder, after its symbolic links.
        let folder = room.path().canonicalize().map_err(|e| Error::io("the folder cannot be opened", e))?;
        let path = folder.join("result");
        self.piped = Some(Piped { _room: room, path: path.clone() });
        Ok(path)
    }

    /// Like [`Outputs::add`], for a result that may not be wanted.
    pub fn add_if(&mut self, path: Option<&PathBuf>) -> Result<Option<PathBuf>> {
        path.map(|path| self.add(path)).transpose()
    }

    /// Returns whether a result goes to standard output.
    pub fn uses_standard_output(&self) -> bool {
        self.piped.is_some()
    }

    /// Returns whether this is the path of the result that goes to standard output.
    pub fn is_piped(&self, path: &Path) -> bool {
        self.piped.as_ref().is_some_and(|piped| piped.path == path)
    }

    /// Writes the results by `write`, in folders that are made before and removed again after an error, and
    /// copies the one for standard output there.
    pub fn write<T, E: From<Error>>(
        &self,
        write: impl FnOnce() -> std::result::Result<T, E>,
    ) -> std::result::Result<T, E> {
        self.write_some(self.files.iter().map(PathBuf::as_path), write)
    }

    /// Like [`Outputs::write`], only for these results.
    pub fn write_some<'f, T, E: From<Error>>(
        &self,
        files: impl IntoIterator<Item = &'f Path>,
        write: impl FnOnce() -> std::result::Result<T, E>,
    ) -> std::result::Result<T, E> {
        let mut made = Vec::new();
        let folders = files.into_iter().filter_map(Path::parent);
        let done = make_folders(folders, &mut made).map_err(E::from).and_then(|()| write());
        if done.is_err() {
            // Folders that have got files meanwhile stay.
            made.iter().rev().for_each(|folder| drop(fs::remove_dir(folder)));
            return done;
        }
        if let Some(Piped { path, .. }) = &self.piped {
            copy_to_standard_output(path)?;
        }
        done
    }
}

/// Makes missing folders, and adds their paths to `made`.
fn make_folders<'f>(folders: impl Iterator<Item = &'f Path>, made: &mut Vec<PathBuf>) -> Result<()> {
    for folder in folders {
        let missing: Vec<&Path> = folder.ancestors().take_while(|folder| !folder.exists()).collect();
        for folder in missing.into_iter().rev() {
            match fs::create_dir(folder) {
                Ok(()) => made.push(folder.to_owned()),
                // Another run has made it.
                Err(_) if folder.is_dir() => {}
                Err(e) => return Err(Error::io("the folder cannot be created", e).in_file(folder)),
            }
        }
    }
    Ok(())
}

/// Copies a file if it was written. A closed pipe is not an error.
fn copy_to_standard_output(path: &Path) -> Result<()> {
    let failed = |e| Error::io("standard output cannot be written", e);
    let Ok(mut file) = File::open(path) else { return Ok(()) };
    match io::copy(&mut file, &mut io::stdout().lock()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(failed(error)),
        _ => Ok(()),
    }
}

/// Returns whether a path means standard output.
pub(super) fn is_standard_output(path: &Path) -> bool {
    STANDARD_OUTPUT.iter().any(|name| path == Path::new(name))
}

/// Returns whether a path means a folder: it is one, or it ends in a separator.
pub(super) fn is_folder(path: &Path) -> bool {
    path.is_dir()
        || path
            .as_os_str()
            .as_encoded_bytes()
            .last()
            .is_some_and(|last| std::path::is_separator(char::from(*last)))
}

/// Returns the error of a path that cannot be used.
pub(super) fn refused(path: &Path, message: impl Into<String>) -> Error {
    Error::usage(message).in_file(path)
}

/// Returns the path after symbolic links, if a file can be created or replaced there.
fn writable(path: &Path) -> Result<PathBuf> {
    let Some(name) = path.file_name() else { return Err(refused(path, "this is not the name of a file")) };
    let folder = match path.parent() {
        Some(folder) if folder != Path::new("") => folder,
        _ => Path::new("."),
    };
    let (existing, real_folder) = real_folder(folder)?;
    if !existing.is_dir() {
        return Err(refused(folder, "this is not a folder"));
    }
    let real = match fs::symlink_metadata(path) {
        // A symbolic link stays: its target is replaced.
        Ok(found) if found.is_symlink() => {
            let real = path
                .canonicalize()
                .map_err(|e| Error::io("the symbolic link cannot be followed", e).in_file(path))?;
            let target =
                fs::metadata(&real).map_err(|e| Error::io("the file cannot be examined", e).in_file(path))?;
            check_replaceable(path, &target)?;
            real
        }
        Ok(found) => {
            check_replaceable(path, &found)?;
            real_folder.join(name)
        }
        Err(e) if e.kind() == io::ErrorKind::NotFound => real_folder.join(name),
        Err(e) => return Err(Error::io("the file cannot be examined", e).in_file(path)),
    };
    // Results are written under temporary names and renamed, so the folder must be writable.
    let parent = real.parent().filter(|parent| parent.exists()).unwrap_or(&existing);
    tempfile::tempfile_in(parent).map_err(|e| Error::io("the folder is not writable", e).in_file(parent))?;
    Ok(real)
}

/// Returns the nearest existing folder at or above `folder`, and `folder`, both after symbolic links.
fn real_folder(folder: &Path) -> Result<(PathBuf, PathBuf)> {
    let failed = |e| Error::io("the folder cannot be opened", e).in_file(folder);
    // A link that leads nowhere exists.
    let exists = |folder: &&Path| folder.as_os_str().is_empty() || fs::symlink_metadata(folder).is_ok();
    let existing = folder.ancestors().find(exists).unwrap_or(Path::new(""));
    let rest = folder.strip_prefix(existing).unwrap_or(Path::new(""));
    if !rest.components().all(|part| matches!(part, Component::Normal(_))) {
        return Err(failed(io::Error::from(io::ErrorKind::NotFound)));
    }
    let above = if existing.as_os_str().is_empty() { Path::new(".") } else { existing };
    let real = above.canonicalize().map_err(failed)?;
    let whole = if rest.as_os_str().is_empty() { real.clone() } else { real.join(rest) };
    Ok((real, whole))
}

/// Checks that the file at `path` may be replaced.
fn check_replaceable(path: &Path, metadata: &fs::Metadata) -> Result<()> {
    if metadata.is_dir() {
        return Err(refused(path, "this is a folder"));
    }
    // Renaming over a device or a pipe would replace it by a file.
    if !metadata.is_file() {
        return Err(refused(path, "this is not a regular file"));
    }
    if metadata.permissions().readonly() {
        return Err(refused(path, "the file is write-protected"));
    }
    Ok(())
}
