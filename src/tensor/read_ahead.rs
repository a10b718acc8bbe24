//! Copying by two threads: one reads ahead of the one that writes.
//!
//! Weights have another place within their page in the `.bin` file than in the model, and there the system's own copying from file to
//! file, page by page, takes longer than reading and writing side by side.

use std::io::{self, Read, Write};
use std::iter;
use std::num::NonZero;
use std::sync::mpsc::sync_channel;
use std::thread;

use super::source::read_full;
use crate::common::output::PIECE;

/// Bytes that go from one thread to the other at a time: waking the other one costs as much as copying some pieces.
const PART: usize = 1 << 20;

/// The same where less is copied. Each copying makes its own buffers: with the larger ones weights of 2.4 MB took a tenth longer.
const SMALL_PART: usize = 1 << 18;

/// Least bytes that pay for the larger buffers.
const LARGE: u64 = 1 << 24;

/// How many parts are read ahead.
const PARTS: usize = 3;

/// Least bytes that are worth a thread.
const LEAST: u64 = 1 << 21;

/// Whether this many bytes are copied faster so.
pub(super) fn pays(len: u64) -> bool {
    len >= LEAST && thread::available_parallelism().is_ok_and(|count| count > NonZero::<usize>::MIN)
}

/// Copies all of `from`, which has about `len` bytes, to a file of which `before` bytes are written; the answer is how many bytes there
/// were.
pub(super) fn copy(
    mut from: impl Read + Send,
    len: u64,
    before: u64,
    out: &mut impl Write,
) -> io::Result<u64> {
    let size = if len < LARGE { SMALL_PART } else { PART };
    let (full, parts) = sync_channel(PARTS);
    let (empty, buffers) = sync_channel(PARTS);
    for _ in 0..PARTS {
        empty.send(Vec::new()).map_err(io::Error::other)?;
    }
    // What is dropped at the end of this, also after an error, tells the other thread to end.
    thread::scope(move |scope| {
        scope.spawn(move || {
            let mut next = up_to_multiple(before, size);
            // Where the other thread has failed nobody sends more.
            for mut buffer in buffers {
                let part = read_full(&mut from, next, &mut buffer).map(|()| buffer);
                let ends = part.as_ref().is_ok_and(Vec::is_empty) || part.is_err();
                if full.send(part).is_err() || ends {
                    break;
                }
                next = size;
            }
        });
        let mut copied = 0;
        for part in parts {
            let part = part?;
            let (first, pieces) = part.split_at(up_to_multiple(before + copied, PIECE).min(part.len()));
            iter::once(first).chain(pieces.chunks(PIECE)).try_for_each(|piece| out.write_all(piece))?;
            copied += u64::try_from(part.len()).map_err(io::Error::other)?;
            // The other thread may have read all there is.
            let _ = empty.send(part);
        }
        Ok(copied)
    })
}

/// Bytes from a place in a file to the next multiple of a size.
fn up_to_multiple(place: u64, size: usize) -> usize {
    let multiple = u64::try_from(size).unwrap_or(u64::MAX);
    usize::try_from(multiple - place % multiple).unwrap_or(size)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn everything_is_copied_in_order() {
        for len in [0, 1, SMALL_PART - 1, SMALL_PART, SMALL_PART + 1, 9 * SMALL_PART + 5, 17 * PART + 5] {
            let bytes: Vec<u8> = (0..len).map(|i| (i % 251).to_le_bytes()[0]).collect();
            let count = u64::try_from(len).unwrap();
            for before in [0, 5] {
                let mut out = Vec::new();
                assert_eq!(copy(bytes.as_slice(), count, before, &mut out).unwrap(), count);
                assert!(out == bytes, "{len} after {before}");
            }
        }
    }

    /// Keeps how much is written at a time.
    struct Lengths(Vec<usize>);

    impl Write for Lengths {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.push(bytes.len());
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn pieces_begin_at_multiples() {
        let mut out = Lengths(Vec::new());
        let len = u64::try_from(2 * PART).unwrap();
        copy(io::repeat(1).take(len), len, len + 5, &mut out).unwrap();
        let whole = vec![PIECE; 2 * PART / PIECE - 1];
        assert_eq!(out.0, [vec![PIECE - 5], whole, vec![5]].concat());
    }

    /// Reads some, then fails.
    struct Broken(usize);

    impl Read for Broken {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            self.0 = self.0.checked_sub(buffer.len()).ok_or(io::ErrorKind::UnexpectedEof)?;
            Ok(buffer.len())
        }
    }

    /// Takes some, then is full, when as much has been read as can be.
    struct Full(usize);

    impl Write for Full {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let Some(left) = self.0.checked_sub(bytes.len()) else {
                thread::sleep(Duration::from_millis(100));
                return Err(io::ErrorKind::StorageFull.into());
            };
            self.0 = left;
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn errors_of_both_sides_end_it() {
        let error = copy(Broken(5 * PART), LARGE, 0, &mut io::sink()).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::UnexpectedEof);
        let error = copy(io::repeat(1), LARGE, 0, &mut Full(5 * PART)).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::StorageFull);
    }
}
