//! The layers of the binary form of a `.param` file (`Net::load_param_bin`, `ParamDict::load_param_bin`).

use byteorder::{ByteOrder, LittleEndian};

use super::{Counts, Entry};
use crate::error::{Error, Result};
use crate::ncnn::Layer;
use crate::ncnn::binary::{END, TEXT};
use crate::ncnn::layer::{Param, Stated, StatedParams};
use crate::ncnn::text::ARRAY;

/// Returns the numbers of layers and blobs, and the layers. After one that cannot be read nothing is known.
pub(super) fn entries(bytes: &[u8]) -> Result<(Counts, Vec<Result<Entry>>)> {
    let mut words = Words(bytes);
    // The magic number.
    words.int()?;
    let counts = Counts { layers: words.count()?, blobs: words.count()? };
    let mut entries = Vec::new();
    for index in 0..counts.layers {
        let entry = entry(&mut words, index).map_err(|error| error.in_part(&format!("layer {index}")));
        let is_known = entry.is_ok();
        entries.push(entry);
        if !is_known {
            return Ok((counts, entries));
        }
    }
    if !words.0.is_empty() {
        let message = format!("the .param file has {} bytes after its last layer", words.0.len());
        entries.push(Err(Error::invalid(message)));
    }
    Ok((counts, entries))
}

fn entry(words: &mut Words, index: usize) -> Result<Entry> {
    let kind = words.int()?;
    let (bottoms, tops) = (words.count()?, words.count()?);
    let mut names =
        |count: usize| (0..count).map(|_| Ok(words.int()?.to_string())).collect::<Result<Vec<_>>>();
    let (bottoms, tops) = (names(bottoms)?, names(tops)?);
    let params = read_params(words)?;
    let known = Layer::indexed(kind);
    let type_name = known.as_ref().map_or_else(|| kind.to_string(), |layer| layer.type_name().to_owned());
    let unknown = || Error::unsupported(format!("the layer type {kind} is not known"));
    let layer = known.map(|layer| (layer, params)).ok_or_else(unknown);
    Ok(Entry { location: format!("layer {index}"), type_name, name: index.to_string(), bottoms, tops, layer })
}

fn read_params(words: &mut Words) -> Result<StatedParams> {
    let mut params = StatedParams::default();
    loop {
        let id = words.int()?;
        let (id, param) = match id {
            END => return Ok(params),
            id if id <= TEXT => (TEXT - id, words.text()?),
            // The type of the elements is not stated: the layer knows it.
            id if id <= ARRAY => (ARRAY - id, Stated::Words(words.list()?)),
            id => (id, Stated::Words(vec![words.int()?])),
        };
        params.add(id, param)?;
    }
}

/// The rest of the little-endian words.
struct Words<'a>(&'a [u8]);

impl<'a> Words<'a> {
    fn take(&mut self, bytes: usize) -> Result<&'a [u8]> {
        let (taken, rest) =
            self.0.split_at_checked(bytes).ok_or_else(|| Error::invalid("the .param file ends early"))?;
        self.0 = rest;
        Ok(taken)
    }

    fn int(&mut self) -> Result<i32> {
        Ok(LittleEndian::read_i32(self.take(4)?))
    }

    fn count(&mut self) -> Result<usize> {
        let count = self.int()?;
        usize::try_from(count).map_err(|_| Error::invalid(format!("a count of {count}")))
    }

    fn list(&mut self) -> Result<Vec<i32>> {
        let count = self.count()?;
        let bytes = self.take(count.saturating_mul(4))?;
        Ok(bytes.chunks_exact(4).map(LittleEndian::read_i32).collect())
    }

    fn text(&mut self) -> Result<Stated> {
        let count = self.count()?;
        let bytes = self
            .take(count.checked_next_multiple_of(4).unwrap_or(usize::MAX))?
            .get(..count)
            .unwrap_or_default();
        Ok(Stated::Typed(Param::Text(String::from_utf8_lossy(bytes).into_owned())))
    }
}
