//! Protobuf messages whose constants are not in memory: all lengths are known before the first byte is
//! written.

use std::io::Write;

use prost::encoding::{WireType, encode_key, encode_varint};

use crate::common::output::Out;
use crate::error::{Error, Result};
use crate::tensor::Tensor;

/// A message under construction. Fields may be in any order.
#[derive(Debug, Default)]
pub(super) struct Message {
    /// Constants, each with the bytes before it.
    constants: Vec<(Vec<u8>, Tensor)>,
    /// The bytes after the last constant.
    rest: Vec<u8>,
    /// The bytes of all constants.
    raw_len: u64,
}

impl Message {
    /// Creates a message from fields in memory.
    pub fn of(fields: &impl prost::Message) -> Message {
        Message { rest: fields.encode_to_vec(), ..Message::default() }
    }

    /// Adds fields in memory.
    pub fn add(&mut self, fields: &impl prost::Message) {
        self.rest.extend(fields.encode_to_vec());
    }

    /// Returns the number of bytes.
    pub fn len(&self) -> Result<u64> {
        let framing: usize = self.constants.iter().map(|(before, _)| before.len()).sum();
        let framing = u64::try_from(framing.saturating_add(self.rest.len()))?;
        self.raw_len.checked_add(framing).ok_or_else(|| Error::limit("a message is too large"))
    }

    /// Adds a message as a field.
    pub fn add_message(&mut self, field: u32, message: Message) -> Result<()> {
        self.add_head(field, message.len()?);
        for (before, tensor) in message.constants {
            self.rest.extend(before);
            self.constants.push((std::mem::take(&mut self.rest), tensor));
        }
        self.rest.extend(message.rest);
        self.raw_len = self.raw_len.saturating_add(message.raw_len);
        Ok(())
    }

    /// Adds the bytes of a constant as a field.
    pub fn add_raw(&mut self, field: u32, tensor: &Tensor) -> Result<()> {
        let len = tensor.byte_len()?;
        self.add_head(field, len);
        self.constants.push((std::mem::take(&mut self.rest), tensor.clone()));
        self.raw_len = self.raw_len.saturating_add(len);
        Ok(())
    }

    fn add_head(&mut self, field: u32, len: u64) {
        encode_key(field, WireType::LengthDelimited, &mut self.rest);
        encode_varint(len, &mut self.rest);
    }

    /// Writes the message; constants are read one by one.
    pub fn write(&self, out: &mut Out) -> Result<()> {
        let failed = |e| Error::io("writing failed", e);
        for (before, tensor) in &self.constants {
            out.write_all(before).map_err(failed)?;
            tensor.write_raw(out)?;
        }
        out.write_all(&self.rest).map_err(failed)
    }
}
