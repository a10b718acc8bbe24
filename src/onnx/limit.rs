//! Counts the messages of a model before they are decoded: an empty one takes two bytes in a file and
//! hundreds in memory.

use prost::encoding::{DecodeContext, WireType, decode_key, decode_varint, skip_field};

use crate::common::limits;
use crate::error::{Error, Result};

include!(concat!(env!("OUT_DIR"), "/nesting.rs"));

/// Refuses a model with more messages than any real one. Calls `passed` with each counted message.
pub(super) fn check_messages(model: &[u8], passed: &impl Fn(&[u8])) -> Result<()> {
    let mut left = limits::MESSAGES;
    told(count_messages(model, MODEL, limits::MESSAGE_DEPTH, &mut left, &mut |_, content| passed(content)))
}

/// Returns the tensors of a model, encoded, at any depth.
pub(super) fn tensors(model: &[u8]) -> Result<Vec<&[u8]>> {
    let mut tensors = Vec::new();
    let mut left = limits::MESSAGES;
    let found = &mut |message, content| {
        if message == TENSOR {
            tensors.push(content);
        }
    };
    told(count_messages(model, MODEL, limits::MESSAGE_DEPTH, &mut left, found))?;
    Ok(tensors)
}

/// Returns the error of a count. Errors of the encoding are left to the decoder.
fn told(counted: Counted) -> Result<()> {
    match counted {
        Counted::TooMany => {
            Err(Error::limit(format!("the model consists of more than {} messages", limits::MESSAGES)))
        }
        Counted::TooDeep => {
            Err(Error::limit(format!("messages are nested deeper than {}", limits::MESSAGE_DEPTH)))
        }
        Counted::All | Counted::Malformed => Ok(()),
    }
}

enum Counted {
    All,
    Malformed,
    TooMany,
    TooDeep,
}

/// Subtracts the messages in the fields of a message, which is one of `NESTING`, from `left`.
fn count_messages<'m>(
    bytes: &'m [u8],
    message: usize,
    depth: usize,
    left: &mut usize,
    passed: &mut impl FnMut(usize, &'m [u8]),
) -> Counted {
    let nested = NESTING.get(message).copied().unwrap_or_default();
    for field in Fields(bytes) {
        let Some((field, content)) = field else { return Counted::Malformed };
        let Some((_, inner)) = nested.iter().find(|(number, _)| *number == field) else { continue };
        let Some(fewer) = left.checked_sub(1) else { return Counted::TooMany };
        let Some(depth) = depth.checked_sub(1) else { return Counted::TooDeep };
        *left = fewer;
        match count_messages(content, *inner, depth, left, passed) {
            Counted::All => passed(*inner, content),
            other => return other,
        }
    }
    Counted::All
}

/// The fields of a message with a length: number and content. `None` ends the iteration at an encoding error.
pub(super) struct Fields<'a>(pub &'a [u8]);

impl<'a> Fields<'a> {
    /// Returns every field: its number, all its bytes, and its content if it has a length. After an encoding
    /// error the rest is one field, which the decoder refuses.
    pub fn wholes(mut self) -> impl Iterator<Item = (u32, &'a [u8], Option<&'a [u8]>)> {
        std::iter::from_fn(move || {
            let before = self.0;
            if before.is_empty() {
                return None;
            }
            let Some((field, content)) = self.read() else {
                self.0 = &[];
                return Some((0, before, None));
            };
            let whole = before.get(..before.len() - self.0.len()).unwrap_or_default();
            Some((field, whole, content))
        })
    }

    /// Reads the next field; `None` as content if it has no length.
    fn read(&mut self) -> Option<(u32, Option<&'a [u8]>)> {
        let (field, wire_type) = decode_key(&mut self.0).ok()?;
        if wire_type != WireType::LengthDelimited {
            skip_field(wire_type, field, &mut self.0, DecodeContext::default()).ok()?;
            return Some((field, None));
        }
        let len = usize::try_from(decode_varint(&mut self.0).ok()?).ok()?;
        let (content, rest) = self.0.split_at_checked(len)?;
        self.0 = rest;
        Some((field, Some(content)))
    }
}

impl<'a> Iterator for Fields<'a> {
    type Item = Option<(u32, &'a [u8])>;

    fn next(&mut self) -> Option<Self::Item> {
        while !self.0.is_empty() {
            match self.read() {
                Some((field, Some(content))) => return Some(Some((field, content))),
                Some((_, None)) => {}
                None => {
                    self.0 = &[];
                    return Some(None);
                }
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn empty_messages_are_counted() {
        // A graph (field 7) of empty nodes (field 1).
        let model = |nodes: usize| {
            let mut model = vec![0x3a];
            prost::encoding::encode_varint(u64::try_from(2 * nodes).unwrap(), &mut model);
            model.extend([0x0a, 0].repeat(nodes));
            model
        };
        assert!(check_messages(&model(limits::MESSAGES - 1), &|_| ()).is_ok());
        assert_eq!(
            check_messages(&model(limits::MESSAGES), &|_| ()).unwrap_err().kind(),
            crate::error::ErrorKind::Limit
        );
    }
}
