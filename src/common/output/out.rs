//! Output to a file or to a writer of the caller.

use std::fs::File;
use std::io::{self, BufWriter, Read, Seek, SeekFrom, Write};

/// A file or a writer of the caller.
pub(crate) enum Out<'a> {
    /// A new file.
    File(&'a mut BufWriter<File>),
    /// A writer, and the number of bytes written.
    Writer { writer: &'a mut dyn Write, written: u64 },
}

impl<'a> Out<'a> {
    /// Creates an output to a writer.
    pub fn writer(writer: &'a mut dyn Write) -> Out<'a> {
        Out::Writer { writer, written: 0 }
    }

    /// Returns the number of bytes so far. A file contains them after the call; a writer may buffer some.
    pub fn position(&mut self) -> io::Result<u64> {
        match self {
            Out::File(file) => file.stream_position(),
            Out::Writer { written, .. } => Ok(*written),
        }
    }

    /// Returns whether [`Out::go_back`] is supported.
    pub fn goes_back(&self) -> bool {
        matches!(self, Out::File(_))
    }

    /// Lets the next bytes replace those from `position` on.
    pub fn go_back(&mut self, position: u64) -> io::Result<()> {
        match self {
            Out::File(file) => file.seek(SeekFrom::Start(position)).map(drop),
            Out::Writer { .. } => Err(io::ErrorKind::NotSeekable.into()),
        }
    }

    /// Copies all of `from`, between files within the system. Returns the number of bytes.
    pub fn copy(&mut self, from: &mut impl Read) -> io::Result<u64> {
        match self {
            Out::File(file) => io::copy(from, *file),
            Out::Writer { .. } => io::copy(from, self),
        }
    }
}

impl Write for Out<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Out::File(file) => file.write(bytes),
            Out::Writer { writer, written } => {
                let taken = writer.write(bytes)?;
                *written += u64::try_from(taken).map_err(io::Error::other)?;
                Ok(taken)
            }
        }
    }

    fn write_all(&mut self, bytes: &[u8]) -> io::Result<()> {
        match self {
            Out::File(file) => file.write_all(bytes),
            Out::Writer { writer, written } => {
                writer.write_all(bytes)?;
                *written += u64::try_from(bytes.len()).map_err(io::Error::other)?;
                Ok(())
            }
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Out::File(file) => file.flush(),
            Out::Writer { writer, .. } => writer.flush(),
        }
    }
}
