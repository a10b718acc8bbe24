//! Copying by two threads: one reads ahead of the one that writes.
//!
//! Weights have another place within their page in the `.bin` file than in the model, and there the system's own copying from file to
//! file, page by page, takes longer than reading and writing side by side.

use std::hint;
use std::io::{self, Read, Write};
use std::num::NonZero;
use std::sync::mpsc::{Receiver, TryRecvError, sync_channel};
use std::thread;

/// Bytes that go from one thread to the other at a time: they are still in the cache of the processor when they are written.
const PART: usize = 1 << 17;

/// How many parts are read ahead.
const PARTS: usize = 3;

/// How often a thread looks for a part before it sleeps: to be woken takes longer than to copy one.
const LOOKS: usize = 1 << 12;

/// Least bytes that are worth a thread.
const LEAST: u64 = 1 << 21;

/// Whether this many bytes are copied faster so.
pub(super) fn pays(len: u64) -> bool {
    len >= LEAST && thread::available_parallelism().is_ok_and(|count| count > NonZero::<usize>::MIN)
}

/// Copies all of `from`; the answer is how many bytes there were.
pub(super) fn copy(mut from: impl Read + Send, out: &mut impl Write) -> io::Result<u64> {
    let (full, parts) = sync_channel(PARTS);
    let (empty, buffers) = sync_channel(PARTS);
    // What is dropped at the end of this, also after an error, tells the other thread to end.
    thread::scope(move |scope| {
        scope.spawn(move || {
            for place in 0.. {
                // Where the other thread has failed nobody waits for more.
                let buffer = if place < PARTS { Some(Vec::with_capacity(PART)) } else { next(&buffers) };
                let Some(buffer) = buffer else { break };
                let part = read_part(&mut from, buffer);
                let ends = part.as_ref().is_ok_and(Vec::is_empty) || part.is_err();
                if full.send(part).is_err() || ends {
                    break;
                }
            }
        });
        let mut copied = 0;
        while let Some(part) = next(&parts) {
            let mut part = part?;
            out.write_all(&part)?;
            copied += u64::try_from(part.len()).map_err(io::Error::other)?;
            part.clear();
            // The other thread may have read all there is.
            let _ = empty.send(part);
        }
        Ok(copied)
    })
}

/// What the other thread sends next; nothing where it has ended.
fn next<T>(from: &Receiver<T>) -> Option<T> {
    for _ in 0..LOOKS {
        match from.try_recv() {
            Ok(item) => return Some(item),
            Err(TryRecvError::Empty) => hint::spin_loop(),
            Err(TryRecvError::Disconnected) => return None,
        }
    }
    from.recv().ok()
}

/// The next bytes; none at the end.
fn read_part(from: &mut impl Read, mut buffer: Vec<u8>) -> io::Result<Vec<u8>> {
    let most = u64::try_from(PART).map_err(io::Error::other)?;
    from.by_ref().take(most).read_to_end(&mut buffer)?;
    Ok(buffer)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn everything_is_copied_in_order() {
        for len in [0, 1, PART - 1, PART, PART + 1, 9 * PART + 5] {
            let bytes: Vec<u8> = (0..len).map(|i| (i % 251).to_le_bytes()[0]).collect();
            let mut out = Vec::new();
            assert_eq!(copy(bytes.as_slice(), &mut out).unwrap(), u64::try_from(len).unwrap());
            assert!(out == bytes, "{len}");
        }
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
        let error = copy(Broken(5 * PART), &mut io::sink()).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::UnexpectedEof);
        let error = copy(io::repeat(1), &mut Full(5 * PART)).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::StorageFull);
    }
}
