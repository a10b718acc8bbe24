//! The locations of constants: the mapped model, a model in memory, and ranges of external files.

use std::fs::{File, Metadata};
use std::io::{self, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use bytes::{Buf, Bytes};
#[cfg(any(unix, windows))]
use memmap2::Mmap;

use crate::error::{Error, ErrorKind, Result};

/// The maximum size of a page of a mapped file.
#[cfg(unix)]
const LARGEST_PAGE: usize = 1 << 21;
/// Ranges of fewer bytes are not worth a system call.
pub(crate) const RELEASED: usize = 1 << 16;

/// A file whose bytes are read by ranges, or through a mapping.
#[derive(Debug)]
pub struct SourceFile {
    path: PathBuf,
    len: u64,
    modified: Option<SystemTime>,
    access: Access,
}

#[derive(Debug)]
enum Access {
    /// The file is kept open: it may no longer have a name.
    Open(File),
    /// The file at this path is opened for each read: a model may have more files than a process may keep
    /// open.
    Reopened(PathBuf),
}

fn examine(file: &File, path: &Path) -> Result<Metadata> {
    file.metadata().map_err(|e| Error::io("the file cannot be examined", e).in_file(path))
}

impl SourceFile {
    /// Keeps an open file; `path` is for messages.
    pub fn new(file: File, path: &Path) -> Result<SourceFile> {
        let metadata = examine(&file, path)?;
        Ok(SourceFile::of(path, &metadata, Access::Open(file)))
    }

    /// Creates a file that is opened at `real_path` for each read; `path` is for messages.
    pub fn reopened(real_path: &Path, path: &Path) -> Result<SourceFile> {
        let file =
            File::open(real_path).map_err(|e| Error::io("the file cannot be opened", e).in_file(path))?;
        let metadata = examine(&file, path)?;
        Ok(SourceFile::of(path, &metadata, Access::Reopened(real_path.to_owned())))
    }

    fn of(path: &Path, metadata: &Metadata, access: Access) -> SourceFile {
        SourceFile { path: path.to_owned(), len: metadata.len(), modified: metadata.modified().ok(), access }
    }

    /// Returns the path for messages.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the length in bytes when the file was first opened.
    pub fn len(&self) -> u64 {
        self.len
    }

    fn open(&self) -> Result<File> {
        let failed = |e| Error::io("the file cannot be opened", e).in_file(&self.path);
        match &self.access {
            Access::Open(file) => file.try_clone().map_err(failed),
            Access::Reopened(real_path) => {
                let file = File::open(real_path).map_err(failed)?;
                self.compare(&file)?;
                Ok(file)
            }
        }
    }

    /// Returns an error if the file has changed since it was first opened.
    pub fn check_unchanged(&self) -> Result<()> {
        match &self.access {
            Access::Open(file) => self.compare(file),
            Access::Reopened(_) => self.open().map(drop),
        }
    }

    fn compare(&self, file: &File) -> Result<()> {
        let metadata = examine(file, &self.path)?;
        if metadata.len() != self.len || metadata.modified().ok() != self.modified {
            let what = if metadata.len() < self.len { "became shorter" } else { "was changed" };
            return Err(Error::new(ErrorKind::Io, format!("the file {what} after it was opened"))
                .help("start again with the new file")
                .in_file(&self.path));
        }
        Ok(())
    }

    /// Returns a reader of `len` bytes from `offset`. It may move the only cursor of the file: use one at a
    /// time.
    pub fn range(&self, offset: u64, len: u64) -> Result<io::Take<File>> {
        let mut file = self.open()?;
        file.seek(SeekFrom::Start(offset)).map_err(|e| Error::io("seeking failed", e).in_file(&self.path))?;
        Ok(file.take(len))
    }
}

/// Reads the next `len` bytes, or fewer at the end, in large reads: `read_to_end` begins with small ones.
pub(super) fn read_full(from: &mut impl Read, len: usize, bytes: &mut Vec<u8>) -> io::Result<()> {
    bytes.resize(len, 0);
    let mut filled = 0;
    while let Some(rest) = bytes.get_mut(filled..).filter(|rest| !rest.is_empty()) {
        match from.read(rest) {
            Ok(0) => break,
            Ok(read) => filled += read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    bytes.truncate(filled);
    Ok(())
}

/// Replaces `bytes` by `len` bytes of a file from `offset` on.
pub(super) fn read_exactly(file: &SourceFile, offset: u64, len: u64, bytes: &mut Vec<u8>) -> Result<()> {
    let mut range = file.range(offset, len)?;
    let len = usize::try_from(len)?;
    read_full(&mut range, len, bytes).map_err(|e| Error::io("reading failed", e).in_file(file.path()))?;
    if bytes.len() != len {
        return Err(Error::invalid("the file became shorter while it was read").in_file(file.path()));
    }
    Ok(())
}

/// A model whose bytes are available as slices.
#[derive(Debug)]
pub struct SourceBytes {
    /// The file of the bytes, if any.
    file: Option<SourceFile>,
    content: Content,
}

#[derive(Debug)]
enum Content {
    #[cfg(any(unix, windows))]
    Mapped(Mmap),
    Memory(Bytes),
}

/// Keeps a mapping alive.
#[cfg(any(unix, windows))]
struct Owner(Arc<SourceBytes>);

#[cfg(any(unix, windows))]
impl AsRef<[u8]> for Owner {
    fn as_ref(&self) -> &[u8] {
        self.0.as_slice()
    }
}

/// Maps a file read-only.
#[cfg(any(unix, windows))]
fn content_of(source: &SourceFile) -> Result<Content> {
    let file = source.open()?;
    // SAFETY: the mapping is private and read only. Another process that changes the file while it is read
    // can change what is decoded, which every reader of it checks like any other bytes; one that truncates it
    // ends this process with SIGBUS, which no reading of a file by mapping can rule out, but see
    // `end_clearly_when_truncated`.
    #[allow(unsafe_code)]
    let map = unsafe { Mmap::map(&file) };
    Ok(Content::Mapped(map.map_err(|e| Error::io("the file cannot be mapped", e).in_file(&source.path))?))
}

/// Reads a file, on a system without mappings.
#[cfg(not(any(unix, windows)))]
fn content_of(source: &SourceFile) -> Result<Content> {
    let mut bytes = Vec::new();
    read_full(&mut source.open()?, usize::try_from(source.len)?, &mut bytes)
        .map_err(|e| Error::io("the file cannot be read", e).in_file(&source.path))?;
    Ok(Content::Memory(bytes.into()))
}

impl SourceBytes {
    /// Reads or maps a file.
    pub fn of_file(file: SourceFile) -> Result<Arc<SourceBytes>> {
        let content = content_of(&file)?;
        Ok(Arc::new(SourceBytes { file: Some(file), content }))
    }

    /// Reads or maps a file, and closes it.
    pub fn of_closed(file: &SourceFile) -> Result<Arc<SourceBytes>> {
        Ok(Arc::new(SourceBytes { file: None, content: content_of(file)? }))
    }

    /// Takes bytes in memory.
    pub fn of_bytes(bytes: Bytes) -> Arc<SourceBytes> {
        Arc::new(SourceBytes { file: None, content: Content::Memory(bytes) })
    }

    fn as_slice(&self) -> &[u8] {
        match &self.content {
            #[cfg(any(unix, windows))]
            Content::Mapped(map) => map,
            Content::Memory(bytes) => bytes,
        }
    }

    /// Returns all bytes; slices of them keep a mapping alive.
    pub fn bytes(self: &Arc<Self>) -> Bytes {
        match &self.content {
            #[cfg(any(unix, windows))]
            Content::Mapped(_) => Bytes::from_owner(Owner(self.clone())),
            Content::Memory(bytes) => bytes.clone(),
        }
    }

    /// Returns the number of bytes.
    pub fn len(&self) -> u64 {
        u64::try_from(self.as_slice().len()).unwrap_or(u64::MAX)
    }

    /// Returns whether there are no bytes.
    pub fn is_empty(&self) -> bool {
        self.as_slice().is_empty()
    }

    /// Returns the path for messages, if there is a file.
    pub fn path(&self) -> Option<&Path> {
        self.file.as_ref().map(SourceFile::path)
    }

    /// Returns an error if the file has changed since it was first opened.
    pub fn check_unchanged(&self) -> Result<()> {
        self.file.as_ref().map_or(Ok(()), SourceFile::check_unchanged)
    }

    /// Returns whether the bytes are a mapped file, which need not stay in memory.
    pub fn is_mapped(&self) -> bool {
        match &self.content {
            #[cfg(any(unix, windows))]
            Content::Mapped(_) => true,
            Content::Memory(_) => false,
        }
    }

    /// Returns the mapped file that contains `slice`, and the offset in it.
    pub fn range_of(&self, slice: &[u8]) -> Option<(&SourceFile, u64)> {
        let file = self.file.as_ref().filter(|_| self.is_mapped())?;
        let range = self.as_slice().as_ptr_range();
        let inside = range.start <= slice.as_ptr() && slice.as_ptr_range().end <= range.end;
        let offset = slice.as_ptr().addr().checked_sub(range.start.addr()).filter(|_| inside)?;
        Some((file, u64::try_from(offset).ok()?))
    }

    /// Lets the system reclaim the memory of a range that has been read; a later access reads the file again.
    pub fn release(&self, slice: &[u8]) {
        #[cfg(unix)]
        if let Content::Mapped(map) = &self.content
            && let Some((_, offset)) = self.range_of(slice)
            && let Ok(offset) = usize::try_from(offset)
        {
            // An access may have loaded all of the largest page around it.
            let begin = offset - offset % LARGEST_PAGE;
            let end = (offset + slice.len()).next_multiple_of(LARGEST_PAGE).min(map.len());
            // SAFETY: for a private read-only file mapping this only drops clean pages.
            #[allow(unsafe_code)]
            let advised =
                unsafe { map.unchecked_advise_range(memmap2::UncheckedAdvice::DontNeed, begin, end - begin) };
            // If the system ignores the advice, only memory is lost.
            drop(advised);
        }
        #[cfg(not(unix))]
        let _ = slice;
    }
}

/// Reads a pipe or device through a temporary file without a name.
#[cfg(any(unix, windows))]
pub(crate) fn spool(from: &mut impl Read, path: &Path) -> Result<Arc<SourceBytes>> {
    let mut file = tempfile::tempfile().map_err(|e| Error::io("no temporary file can be made", e))?;
    io::copy(from, &mut file).map_err(|e| Error::io("the model cannot be read", e).in_file(path))?;
    SourceBytes::of_file(SourceFile::new(file, path)?)
}

/// Reads a pipe or device, on a system without temporary files.
#[cfg(not(any(unix, windows)))]
pub(crate) fn spool(from: &mut impl Read, path: &Path) -> Result<Arc<SourceBytes>> {
    let mut bytes = Vec::new();
    from.read_to_end(&mut bytes).map_err(|e| Error::io("the model cannot be read", e).in_file(path))?;
    Ok(SourceBytes::of_bytes(bytes.into()))
}

/// The bytes of a source during decoding: those of a mapped file that have been decoded need not stay in
/// memory.
#[derive(Debug)]
pub(crate) struct Passing {
    source: Arc<SourceBytes>,
    left: Bytes,
}

impl Passing {
    /// Creates a reader of a part of a source.
    pub fn part(source: &Arc<SourceBytes>, bytes: Bytes) -> Passing {
        Passing { source: source.clone(), left: bytes }
    }
}

impl Buf for Passing {
    fn remaining(&self) -> usize {
        self.left.remaining()
    }

    fn chunk(&self) -> &[u8] {
        self.left.chunk()
    }

    fn advance(&mut self, count: usize) {
        self.left.advance(count);
    }

    fn copy_to_bytes(&mut self, count: usize) -> Bytes {
        let passed = self.left.copy_to_bytes(count);
        if count >= RELEASED {
            self.source.release(&passed);
        }
        passed
    }
}

/// Ends this process with a message and exit code 2, instead of a signal, if another process truncates a file
/// that is being read. For programs only: a library must not install signal handlers. No effect on systems
/// without such signals.
pub fn end_clearly_when_truncated() {
    #[cfg(unix)]
    truncation::end_clearly();
}

/// The signal for a truncated mapped file.
#[cfg(unix)]
mod truncation {
    use std::ffi::c_int;

    use nix::sys::signal::{SaFlags, SigAction, SigHandler, SigSet, Signal, sigaction};

    /// The message for a page of a mapped file that cannot be read.
    const TRUNCATED: &[u8] =
        b"i/o error: the model became shorter, or could not be read, while it was read\n";

    /// The exit code for files that cannot be read.
    const NOT_READ: c_int = 2;

    #[allow(unsafe_code)]
    extern "C" fn end(_: c_int) {
        // Only functions that are safe in a signal handler: no allocation, no destructors. Unfinished files
        // have no names.
        let _ = nix::unistd::write(std::io::stderr(), TRUNCATED);
        // SAFETY: ends the process at once.
        unsafe { nix::libc::_exit(NOT_READ) }
    }

    #[allow(unsafe_code)]
    pub fn end_clearly() {
        let action = SigAction::new(SigHandler::Handler(end), SaFlags::empty(), SigSet::empty());
        // SAFETY: the handler calls only async-signal-safe functions. Without it the process ends too, with a
        // less clear message.
        let _ = unsafe { sigaction(Signal::SIGBUS, &action) };
    }
}
