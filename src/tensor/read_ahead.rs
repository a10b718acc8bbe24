//! Copying by two threads: one reads ahead while the other writes.
//!
//! The page offset of weights in the `.bin` file differs from that in the model; the copy of the system from
//! file to file is then slower than reading and writing in parallel.

use std::io::{self, Read, Write};
use std::iter;
use std::num::NonZero;
use std::sync::mpsc::sync_channel;
use std::thread;

use super::source::read_full;
use crate::common::output::PIECE;

/// The bytes that pass from one thread to the other at a time: waking a thread costs as much as several
/// writes.
const PART: usize = 1 << 20;

/// The same for small copies: allocating large buffers would take longer.
const SMALL_PART: usize = 1 << 18;

/// The minimum bytes for the larger buffers.
const LARGE: u64 = 1 << 24;

/// The number of parts that are read ahead.
const PARTS: usize = 3;

/// The minimum bytes for a second thread.
const LEAST: u64 = 1 << 21;

/// Returns whether two threads copy this many bytes faster.
pub(super) fn pays(len: u64) -> bool {
    len >= LEAST && thread::available_parallelism().is_ok_and(|count| count > NonZero::<usize>::MIN)
}

/// Copies all of `from`, about `len` bytes, to a file with `before` bytes already written, and returns the
/// number of bytes.
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
    // Dropping the channels at the end, also after an error, stops the other thread.
    thread::scope(move |scope| {
        scope.spawn(move || {
            let mut next = up_to_multiple(before, size);
            // The channel is closed if the other thread has failed.
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
            // The other thread may have finished reading.
            let _ = empty.send(part);
        }
        Ok(copied)
    })
}

/// Returns the number of bytes from an offset to the next multiple of a size.
fn up_to_multiple(position: u64, size: usize) -> usize {
    let multiple = u64::try_from(size).unwrap_or(u64::MAX);
    usize::try_from(multiple - position % multiple).unwrap_or(size)
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

    /// Records the sizes of writes.
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

    /// Returns some bytes, then fails.
    struct Broken(usize);

    impl Read for Broken {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            self.0 = self.0.checked_sub(buffer.len()).ok_or(io::ErrorKind::UnexpectedEof)?;
            Ok(buffer.len())
        }
    }

    /// Accepts some bytes, then is full after as much has been read as possible.
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
    fn errors_of_both_sides_stop_the_copy() {
        let error = copy(Broken(5 * PART), LARGE, 0, &mut io::sink()).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::UnexpectedEof);
        let error = copy(io::repeat(1), LARGE, 0, &mut Full(5 * PART)).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::StorageFull);
    }
}
