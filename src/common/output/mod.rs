//! Files that are written completely or not at all: each is written without a name, if the system supports
//! that, or else next to its destination under a temporary name; all are moved to their destinations at the
//! end. A run that is killed leaves nothing behind.
//!
//! As with every compiler, the system flushes the bytes to the disk later: waiting for that takes longer than
//! converting.

mod out;
mod temporary;

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use crate::error::{Error, Result};
use temporary::TempPath;

pub(crate) use out::Out;
pub(crate) use temporary::Room;

/// The size of a write; file positions are best multiples of it. The system buffers each write in contiguous
/// memory, and larger ones are slower to find.
pub(crate) const PIECE: usize = 1 << 16;

/// The destination of a file.
pub(crate) struct Target {
    /// The path that the user gave, for messages.
    named: PathBuf,
    /// The path of the file, after symbolic links.
    path: PathBuf,
    folder: PathBuf,
}

/// A complete file that is not at its destination yet.
pub(crate) struct Whole {
    content: Content,
    /// The number of bytes.
    pub len: u64,
}

enum Content {
    /// A file next to its destination, removed on drop.
    Named(TempPath),
    /// A file without a name, which disappears when it is closed.
    #[cfg(target_os = "linux")]
    Unnamed(File),
}

impl Whole {
    /// Opens the file for reading before it is at its destination.
    pub fn open(&self) -> Result<File> {
        let opened = match &self.content {
            Content::Named(path) => File::open(path),
            #[cfg(target_os = "linux")]
            Content::Unnamed(file) => File::open(unnamed::path_of(file)),
        };
        opened.map_err(|error| Error::io("a new file cannot be opened", error))
    }

    /// Takes an existing complete file, which is moved to its destination.
    pub fn of(path: PathBuf) -> Result<Whole> {
        let len = fs::metadata(&path)
            .map_err(|e| Error::io("the file cannot be examined", e).in_file(&path))?
            .len();
        let path = temporary::of(path).map_err(|e| Error::io("the file cannot be found", e))?;
        Ok(Whole { content: Content::Named(path), len })
    }

    /// Gives the file a name in the folder of its destination: only a limited number of files can stay open.
    pub fn with_name(self, target: &Target) -> Result<Whole> {
        let len = self.len;
        let path =
            self.name_in(&target.folder).map_err(|e| target.failed("the file cannot be written", e))?;
        Ok(Whole { content: Content::Named(path), len })
    }

    fn name_in(self, folder: &Path) -> io::Result<TempPath> {
        #[cfg(not(target_os = "linux"))]
        let _ = folder;
        match self.content {
            Content::Named(path) => Ok(path),
            #[cfg(target_os = "linux")]
            Content::Unnamed(file) => {
                let linked = temporary::make(folder, |path| unnamed::link(&file, path))?;
                close(file)?;
                Ok(linked)
            }
        }
    }
}

/// Files without names (`O_TMPFILE`): the system removes them when the process ends, in any way.
#[cfg(target_os = "linux")]
mod unnamed {
    use std::fs::{File, OpenOptions};
    use std::io;
    use std::os::fd::AsRawFd;
    use std::os::unix::fs::OpenOptionsExt;
    use std::path::{Path, PathBuf};

    use nix::fcntl::{AT_FDCWD, AtFlags, OFlag};

    /// Creates a file in a folder; an error if its file system has no files without names, or cannot name
    /// them later.
    pub fn create(folder: &Path) -> io::Result<File> {
        let mut options = OpenOptions::new();
        options.read(true).write(true).mode(0o666).custom_flags(OFlag::O_TMPFILE.bits());
        let file = options.open(folder)?;
        path_of(&file).metadata()?;
        Ok(file)
    }

    /// Returns a path to an unnamed file.
    pub fn path_of(file: &File) -> PathBuf {
        PathBuf::from(format!("/proc/self/fd/{}", file.as_raw_fd()))
    }

    /// Gives the file a name that no other file has.
    pub fn link(file: &File, path: &Path) -> io::Result<()> {
        let from = path_of(file);
        nix::unistd::linkat(AT_FDCWD, &from, AT_FDCWD, path, AtFlags::AT_SYMLINK_FOLLOW)?;
        Ok(())
    }
}

/// Files next to their destinations.
pub(crate) type Staged = Vec<(Target, Whole)>;

impl Target {
    /// Creates the destination of a path; it need not exist yet, but its folder must.
    pub fn new(named: &Path) -> Result<Target> {
        let failed = |error| Error::io("the file cannot be written", error).in_file(named);
        // Another run may move the file aside between the two calls.
        let existing = fs::canonicalize(named).and_then(|path| Ok((fs::metadata(&path)?.is_file(), path)));
        let path = match existing {
            Ok((true, path)) => path,
            Ok(_) => return Err(failed(io::Error::other("it exists and is not a regular file"))),
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

    /// Returns whether the destination is this file.
    pub fn is_file(&self, other: &Path) -> bool {
        fs::canonicalize(other).is_ok_and(|other| other == self.path)
    }

    /// Returns the path that the user gave.
    pub fn named(&self) -> &Path {
        &self.named
    }

    /// Returns the folder of the file, after symbolic links.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Returns whether both are the same destination.
    pub fn is(&self, other: &Target) -> bool {
        self.path == other.path
    }

    fn failed(&self, what: &str, error: io::Error) -> Error {
        Error::io(what, error).in_file(&self.named)
    }

    /// Writes a file for the destination.
    pub fn write(&self, content: impl FnOnce(&mut Out) -> Result<()>) -> Result<Whole> {
        let failed = |error| self.failed("the file cannot be written", error);
        #[cfg(target_os = "linux")]
        if let Ok(file) = unnamed::create(&self.folder) {
            let file = self.fill(file, content)?;
            let len = file.metadata().map_err(failed)?.len();
            return Ok(Whole { content: Content::Unnamed(file), len });
        }
        let (file, path) = temporary::create(&self.folder).map_err(failed)?;
        let file = self.fill(file, content)?;
        let len = file.metadata().map_err(failed)?.len();
        close(file).map_err(failed)?;
        Ok(Whole { content: Content::Named(path), len })
    }

    fn fill(&self, file: File, content: impl FnOnce(&mut Out) -> Result<()>) -> Result<File> {
        let mut buffer = BufWriter::with_capacity(PIECE, file);
        content(&mut Out::File(&mut buffer)).map_err(|error| error.in_file(&self.named))?;
        buffer.into_inner().map_err(|error| self.failed("the file cannot be written", error.into_error()))
    }

    /// Moves the existing file aside.
    fn set_aside(&self) -> Result<Option<TempPath>> {
        if !self.path.exists() {
            return Ok(None);
        }
        let failed = |error| self.failed("the file cannot be replaced", error);
        let (_, aside) = temporary::create(&self.folder).map_err(failed)?;
        fs::rename(&self.path, &aside).map_err(failed)?;
        Ok(Some(aside))
    }

    fn put(&self, whole: Whole) -> Result<()> {
        let failed = |error| self.failed("the file cannot be moved to its destination", error);
        let named = whole.name_in(&self.folder).map_err(failed)?;
        temporary::persist(named, &self.path).map_err(failed)
    }

    /// Moves a file to the destination, and returns the previous one.
    fn put_keeping(&self, whole: Whole) -> Result<Option<TempPath>> {
        let kept = self.set_aside()?;
        match self.put(whole) {
            Ok(()) => Ok(kept),
            Err(error) => {
                self.restore(kept);
                Err(error)
            }
        }
    }

    /// Restores the previous file after another failure, which is the one that is reported.
    fn restore(&self, kept: Option<TempPath>) {
        let _ = match kept {
            Some(kept) => temporary::persist(kept, &self.path),
            None => fs::remove_file(&self.path),
        };
    }
}

/// Writes a text file next to its destination.
pub(crate) fn stage_text(path: &Path, text: &str) -> Result<(Target, Whole)> {
    let target = Target::new(path)?;
    let failed = |error| Error::io("writing failed", error);
    let whole = target.write(|out| out.write_all(text.as_bytes()).map_err(failed))?;
    Ok((target, whole))
}

/// Writes a copy of a file next to its destination.
pub(crate) fn stage_copy(path: &Path, from: &Path) -> Result<(Target, Whole)> {
    let failed = |error| Error::io("the file cannot be copied", error).in_file(from);
    let mut file = File::open(from).map_err(failed)?;
    let target = Target::new(path)?;
    let whole = target.write(|out| io::copy(&mut file, out).map(drop).map_err(failed))?;
    Ok((target, whole))
}

/// Closes a file. A network file system may report only then that the disk is full, and dropping a file
/// reports nothing.
fn close(file: File) -> io::Result<()> {
    #[cfg(unix)]
    nix::unistd::close(file)?;
    #[cfg(not(unix))]
    drop(file);
    Ok(())
}

/// Locks the folders of files in a fixed order: two runs that write the same files do so one after the other,
/// so that the result is consistent. File systems without locks are not locked.
fn lock_folders(files: &Staged) -> Vec<File> {
    let folders: BTreeSet<&Path> = files.iter().map(|(target, _)| target.folder.as_path()).collect();
    folders
        .into_iter()
        .filter_map(|folder| File::open(folder).ok())
        .filter(|folder| folder.lock().is_ok())
        .collect()
}

/// Moves all files to their destinations, or none.
pub(crate) fn put_all(files: Staged) -> Result<()> {
    let _locks = lock_folders(&files);
    let mut done: Vec<(Target, Option<TempPath>)> = Vec::with_capacity(files.len());
    let mut left = files.into_iter().peekable();
    while let Some((target, whole)) = left.next() {
        // The last file replaces the old one atomically; the old ones of the others are kept until nothing
        // can fail.
        let put = match left.peek() {
            Some(_) => target.put_keeping(whole),
            None => target.put(whole).map(|()| None),
        };
        match put {
            Ok(kept) => done.push((target, kept)),
            Err(error) => {
                for (target, kept) in done.into_iter().rev() {
                    target.restore(kept);
                }
                return Err(error);
            }
        }
    }
    Ok(())
}

#[cfg(test)]
#[cfg(unix)]
mod tests {
    use super::*;

    #[test]
    fn links_are_followed() {
        let folder = tempfile::tempdir().unwrap();
        let (real, link) = (folder.path().join("real"), folder.path().join("link"));
        fs::write(&real, "old").unwrap();
        std::os::unix::fs::symlink("real", &link).unwrap();
        put_all(vec![stage_text(&link, "new").unwrap()]).unwrap();
        assert_eq!(fs::read_to_string(&real).unwrap(), "new");
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
    }
}
