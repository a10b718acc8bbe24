//! Constants whose bytes are computed in parts each time they are read, so that none is in memory as a
//! whole, and reads of constants by range.

use std::sync::{Arc, OnceLock};

use byteorder::{ByteOrder, LittleEndian};
use bytes::Bytes;

use super::{Array, DType, Data, RELEASED, SourceBytes, SourceFile, Tensor, read_exactly};
use crate::error::{Error, Result};

/// Receives the parts of a constant in order.
pub(crate) type Take<'a> = dyn FnMut(&[u8]) -> Result<()> + 'a;

type Emit = dyn Fn(&mut Take) -> Result<()> + Send + Sync;

/// Bytes that a function passes on in parts.
pub(super) struct Streamed {
    emit: Box<Emit>,
    loss: Option<Arc<OnceLock<f32>>>,
}

impl Tensor {
    /// Creates a tensor whose `raw_data` is passed on in parts by `emit`, on each read. If `emit` rounds
    /// numbers, it sets `loss`, the error relative to them.
    pub(crate) fn streamed(
        dtype: DType,
        shape: Vec<usize>,
        loss: Option<Arc<OnceLock<f32>>>,
        emit: impl Fn(&mut Take) -> Result<()> + Send + Sync + 'static,
    ) -> Result<Tensor> {
        Tensor::of(dtype, shape, Data::Streamed(Arc::new(Streamed { emit: Box::new(emit), loss }))).check()
    }

    /// Returns the root mean square of the rounding errors relative to that of the numbers, of a tensor that
    /// rounded numbers when it was written.
    pub(crate) fn loss(&self) -> Option<f32> {
        match &self.0.data {
            Data::Streamed(streamed) => streamed.loss.as_ref()?.get().copied(),
            _ => None,
        }
    }

    /// Prepares reads of `raw_data` by range. A computed tensor is evaluated once, and kept.
    pub(crate) fn ranges(&self) -> Result<Ranges> {
        let bits = self.0.dtype.bits();
        if bits < 8 {
            return Err(Error::internal(format!("ranges of elements of {bits} bits")));
        }
        let bytes = match &self.0.data {
            Data::Owned(bytes) => Storage::Memory(bytes.clone()),
            Data::Mapped { bytes, source } => Storage::Mapped(bytes.clone(), source.clone()),
            Data::External { file, offset, .. } => Storage::File(file.clone(), *offset),
            _ => Storage::Memory(self.to_raw()?),
        };
        Ok(Ranges { dtype: self.0.dtype, storage: bytes })
    }
}

impl Streamed {
    pub(super) fn emit(&self, take: &mut Take) -> Result<()> {
        (self.emit)(take)
    }

    /// Returns all bytes.
    pub(super) fn collect(&self) -> Result<Bytes> {
        let mut bytes = Vec::new();
        self.emit(&mut |part| {
            bytes.extend_from_slice(part);
            Ok(())
        })?;
        Ok(bytes.into())
    }
}

/// The bytes of a constant.
enum Storage {
    Memory(Bytes),
    Mapped(Bytes, Arc<SourceBytes>),
    File(Arc<SourceFile>, u64),
}

/// Reads of a constant by ranges of elements.
pub(crate) struct Ranges {
    dtype: DType,
    storage: Storage,
}

impl Ranges {
    /// Replaces `bytes` by those of `count` elements from `start` on.
    pub fn read(&self, start: usize, count: usize, bytes: &mut Vec<u8>) -> Result<()> {
        let too_large = || Error::limit("a constant is too large");
        let offset = self.dtype.byte_len(start).ok_or_else(too_large)?;
        let len = self.dtype.byte_len(count).ok_or_else(too_large)?;
        match &self.storage {
            Storage::Memory(bytes_of_constant) | Storage::Mapped(bytes_of_constant, _) => {
                let end = offset.checked_add(len).ok_or_else(too_large)?;
                let range = bytes_of_constant.get(offset..end);
                bytes.clear();
                bytes.extend_from_slice(range.ok_or_else(|| Error::internal("a range beyond a constant"))?);
                Ok(())
            }
            Storage::File(file, from) => {
                read_exactly(file, from.saturating_add(u64::try_from(offset)?), u64::try_from(len)?, bytes)
            }
        }
    }

    /// Replaces `floats` by `count` elements from `start` on.
    pub fn read_f32(
        &self,
        start: usize,
        count: usize,
        bytes: &mut Vec<u8>,
        floats: &mut Vec<f32>,
    ) -> Result<()> {
        self.read(start, count, bytes)?;
        if self.dtype == DType::F32 {
            floats.resize(count, 0.0);
            LittleEndian::read_f32_into(bytes, floats);
        } else {
            floats.clear();
            floats.extend(Array::from_bytes(self.dtype, &[count], bytes)?.cast(DType::F32)?.float_list()?);
        }
        Ok(())
    }

    /// Lets the system reclaim the memory of `count` elements from `start` on, which have been read.
    pub fn release(&self, start: usize, count: usize) {
        let (Some(offset), Some(len)) = (self.dtype.byte_len(start), self.dtype.byte_len(count)) else {
            return;
        };
        if let Storage::Mapped(bytes, source) = &self.storage
            && len >= RELEASED
            && let Some(range) = bytes.get(offset..offset.saturating_add(len).min(bytes.len()))
        {
            source.release(range);
        }
    }
}
