//! Counts the messages of a model before they are decoded: an empty one takes two bytes in a file and hundreds in memory.

use prost::encoding::{DecodeContext, WireType, decode_key, decode_varint, skip_field};

use crate::error::{Error, Result};
use crate::limits;

include!(concat!(env!("OUT_DIR"), "/nesting.rs"));

/// Refuses a model with more messages than any real one. What cannot be decoded is left to the decoder to say.
///
/// `passed` is called with each message that has been counted.
pub(super) fn check_messages(model: &[u8], passed: &impl Fn(&[u8])) -> Result<()> {
    let mut left = limits::MESSAGES;
    match count_messages(model, MODEL, limits::MESSAGE_DEPTH, &mut left, passed) {
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

/// Takes the messages in the fields of a message, which is one of `NESTING`, from `left`.
fn count_messages(
    mut bytes: &[u8],
    message: usize,
    depth: usize,
    left: &mut usize,
    passed: &impl Fn(&[u8]),
) -> Counted {
    let nested = NESTING.get(message).copied().unwrap_or_default();
    while !bytes.is_empty() {
        let Ok((field, wire_type)) = decode_key(&mut bytes) else { return Counted::Malformed };
        let inner = nested.iter().find(|(number, _)| *number == field).map(|(_, inner)| *inner);
        let (Some(inner), WireType::LengthDelimited) = (inner, wire_type) else {
            match skip_field(wire_type, field, &mut bytes, DecodeContext::default()) {
                Ok(()) => continue,
                Err(_) => return Counted::Malformed,
            }
        };
        let len = decode_varint(&mut bytes).ok().and_then(|len| usize::try_from(len).ok());
        let Some((content, rest)) = len.and_then(|len| bytes.split_at_checked(len)) else {
            return Counted::Malformed;
        };
        let Some(fewer) = left.checked_sub(1) else { return Counted::TooMany };
        let Some(depth) = depth.checked_sub(1) else { return Counted::TooDeep };
        *left = fewer;
        match count_messages(content, inner, depth, left, passed) {
            Counted::All => bytes = rest,
            other => return other,
        }
        passed(content);
    }
    Counted::All
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
