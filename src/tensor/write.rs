//! Elements written as float32 or as `raw_data`, in chunks.

use std::io::{self, Write};

use byteorder::{ByteOrder, LittleEndian};

use super::{
    Array, CHUNK_ELEMENTS, DType, Data, Elements, RELEASED, SourceFile, Tensor, read_ahead, read_exactly,
};
use crate::common::output::Out;
use crate::error::{Error, Result};

/// The number of elements of a chunk: its conversion stays in the processor's cache.
const SLICE_ELEMENTS: usize = 1 << 14;

impl Tensor {
    /// Writes the elements as little-endian float32 values; float32 data is copied by the system.
    pub(crate) fn write_f32(&self, out: &mut Out) -> Result<()> {
        if self.0.dtype == DType::F32 {
            return self.write_raw(out);
        }
        let mut bytes = Vec::new();
        self.for_each_f32(&mut |elements| write_floats(elements, &mut bytes, out).map(|_| ()))
    }

    /// Passes the elements as float32, in order and in chunks, to `take`.
    pub fn for_each_f32(&self, take: &mut dyn FnMut(&[f32]) -> Result<()>) -> Result<()> {
        match &self.0.data {
            Data::Owned(bytes) => self.convert_chunks(bytes, take),
            Data::Mapped { bytes, source } => {
                let done = self.convert_chunks(bytes, take);
                source.release(bytes);
                done
            }
            Data::External { file, offset, len } => {
                let chunk = u64::try_from(self.0.dtype.byte_len(CHUNK_ELEMENTS).unwrap_or(CHUNK_ELEMENTS))?;
                let mut bytes = Vec::new();
                let mut at = 0_u64;
                while at < *len {
                    let size = chunk.min(len - at);
                    read_exactly(file, offset + at, size, &mut bytes)?;
                    self.convert_chunks(&bytes, take)?;
                    at += size;
                }
                Ok(())
            }
            Data::Filled(element) => {
                let mut left = self.len();
                let chunk = element.cast(DType::F32)?.broadcast(&[left.min(SLICE_ELEMENTS)])?.float_list()?;
                while left > 0 {
                    let part = chunk.get(..left).unwrap_or(&chunk);
                    take(part)?;
                    left -= part.len();
                }
                Ok(())
            }
            Data::Text(_) | Data::Deferred(_) | Data::Streamed(_) => take_array(&self.load()?, take),
        }
    }

    /// Writes the bytes of the tensor in its type, as `raw_data`.
    pub(crate) fn write_raw(&self, out: &mut Out) -> Result<()> {
        let written = self.write_bytes(out)?;
        let declared = self.byte_len()?;
        if written != declared {
            return Err(Error::internal(format!("{written} bytes of a constant of {declared}")));
        }
        Ok(())
    }

    /// Writes the bytes, and returns their number.
    fn write_bytes(&self, out: &mut Out) -> Result<u64> {
        match &self.0.data {
            Data::Owned(bytes) => write_all(bytes, out),
            Data::Mapped { bytes, source } => {
                match source.range_of(bytes).filter(|_| bytes.len() >= RELEASED) {
                    Some((file, offset)) => copy_range(file, offset, u64::try_from(bytes.len())?, out),
                    None => write_all(bytes, out),
                }
            }
            Data::External { file, offset, len } => copy_range(file, *offset, *len, out),
            // Types under 8 bits share bytes: their elements are packed in memory.
            Data::Filled(element) if self.0.dtype.bits() >= 8 => self.write_filled(element, out),
            Data::Streamed(streamed) => {
                let mut written = 0;
                streamed.emit(&mut |part| {
                    written += write_all(part, out)?;
                    Ok(())
                })?;
                Ok(written)
            }
            Data::Text(_) | Data::Filled(_) | Data::Deferred(_) => write_array(&self.load()?, out),
        }
    }

    fn write_filled(&self, element: &Array, out: &mut Out) -> Result<u64> {
        let mut left = self.len();
        let mut written = 0_u64;
        let chunk = element.broadcast(&[left.min(CHUNK_ELEMENTS)])?.to_bytes()?;
        let size = chunk.len() / left.clamp(1, CHUNK_ELEMENTS);
        while left > 0 {
            let count = left.min(CHUNK_ELEMENTS);
            written += write_all(chunk.get(..count * size).unwrap_or(&chunk), out)?;
            left -= count;
        }
        Ok(written)
    }

    fn convert_chunks(&self, bytes: &[u8], take: &mut dyn FnMut(&[f32]) -> Result<()>) -> Result<()> {
        let bits = self.0.dtype.bits().max(1);
        // `take` may end the reading after a few elements.
        let chunk = self.0.dtype.byte_len(SLICE_ELEMENTS).unwrap_or(SLICE_ELEMENTS).max(1);
        let mut left = self.len();
        for part in bytes.chunks(chunk) {
            // The last byte of a packed type may be partly used.
            let count = left.min(part.len().saturating_mul(8) / bits);
            left -= count;
            take_array(&Array::from_bytes(self.0.dtype, &[count], part)?, take)?;
        }
        Ok(())
    }
}

/// Passes the elements of an array as float32 to `take`.
fn take_array(array: &Array, take: &mut dyn FnMut(&[f32]) -> Result<()>) -> Result<()> {
    let Elements::F32(elements) = array.elements() else {
        return take_array(&array.cast(DType::F32)?, take);
    };
    if let Some(elements) = elements.as_slice() {
        return elements.chunks(SLICE_ELEMENTS).try_for_each(take);
    }
    let mut part = Vec::with_capacity(SLICE_ELEMENTS);
    for element in elements {
        part.push(*element);
        if part.len() == SLICE_ELEMENTS {
            take(&part)?;
            part.clear();
        }
    }
    take(&part)
}

fn write_failed(source: io::Error) -> Error {
    Error::io("writing failed", source)
}

/// Writes bytes, and returns their number.
fn write_all(bytes: &[u8], out: &mut Out) -> Result<u64> {
    out.write_all(bytes).map_err(write_failed)?;
    Ok(u64::try_from(bytes.len())?)
}

fn write_array(array: &Array, out: &mut Out) -> Result<u64> {
    if array.dtype() != DType::F32 {
        return write_all(&array.to_bytes()?, out);
    }
    let (mut bytes, mut written) = (Vec::new(), 0);
    take_array(array, &mut |elements| {
        written += write_floats(elements, &mut bytes, out)?;
        Ok(())
    })?;
    Ok(written)
}

/// Writes the elements by way of a buffer, and returns the number of their bytes.
fn write_floats(elements: &[f32], bytes: &mut Vec<u8>, out: &mut Out) -> Result<u64> {
    bytes.resize(size_of_val(elements), 0);
    LittleEndian::write_f32_into(elements, bytes);
    write_all(bytes, out)
}

fn copy_range(file: &SourceFile, offset: u64, len: u64, out: &mut Out) -> Result<u64> {
    let mut from = file.range(offset, len)?;
    let copied = if read_ahead::pays(len) {
        let before = out.position().map_err(write_failed)?;
        read_ahead::copy(from, len, before, out)
    } else {
        out.copy(&mut from)
    };
    // The system's error names neither of the two files.
    let failed = |e| Error::io(format!("copying from {} failed", file.path().display()), e);
    let copied = copied.map_err(failed)?;
    if copied != len {
        return Err(Error::invalid("the file became shorter while it was read").in_file(file.path()));
    }
    Ok(len)
}
