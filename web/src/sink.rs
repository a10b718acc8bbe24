//! Bytes that a function of JavaScript receives in parts.

use std::io::{self, BufWriter, Write};

use js_sys::{Function, Uint8Array};
use wasm_bindgen::JsValue;

/// The least bytes of a part, but for the last.
const PART: usize = 1 << 20;

/// A writer that passes copies of bytes to a function.
pub struct Sink<'a>(&'a Function);

impl<'a> Sink<'a> {
    /// Creates a writer that collects bytes to parts; the last is passed by `flush`.
    pub fn new(receive: &'a Function) -> BufWriter<Sink<'a>> {
        BufWriter::with_capacity(PART, Sink(receive))
    }
}

impl Write for Sink<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let part = Uint8Array::from(bytes);
        let failed = |thrown: JsValue| io::Error::other(format!("{thrown:?}"));
        self.0.call1(&JsValue::NULL, &part).map_err(failed)?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
