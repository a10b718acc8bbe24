//! Nets read from their files, of any writer: the `.param` text or its binary form, and the `.bin` file.
//!
//! The files may be damaged: each fault is an error with its line, and memory is in proportion to the files.

mod binary;
mod text;
mod weights;

use std::collections::BTreeMap;

use bytes::Bytes;

use super::layer::Given;
use super::text::{FEATURE_MASK, HALF_PRECISION, SHAPE_HINTS};
use super::{Blob, BlobId, BlobIds, Element, Layer, Net, NetLayer, Output, Provenance};
use crate::common::count::count;
use crate::error::{Error, ErrorKind, Result, invalid};
use crate::tensor::{Dim, Shape};
use weights::Reader;

/// The magic number in the first bytes of the binary form.
const MAGIC: [u8; 4] = super::text::MAGIC.to_le_bytes();

/// A layer as its file states it.
struct Entry {
    /// The line of the text, or the index in the binary form.
    place: String,
    layer: Layer,
    name: String,
    bottoms: Vec<String>,
    tops: Vec<String>,
    given: Given,
}

/// The head of a file: the numbers of layers and blobs.
struct Counts {
    layers: usize,
    blobs: usize,
}

impl Net {
    /// Reads a net from the bytes of a `.param` file, or of its binary form, and of a `.bin` file.
    ///
    /// Layers have the params and weights of the files, and the sizes of blobs are those of the hints, if
    /// there are any; other blobs have no shape. Blobs that no layer reads are outputs. A blob of the binary
    /// form has its index as its name.
    ///
    /// # Errors
    ///
    /// `Invalid` if the runtime would not load the files, or misread them; `Unsupported` for a layer or a
    /// param that this crate does not know.
    pub fn read(param: &[u8], bin: Bytes) -> Result<Net> {
        let (counts, entries) = if param.starts_with(&MAGIC) {
            binary::entries(param)?
        } else {
            let text = std::str::from_utf8(param);
            let wrong =
                |_| Error::new(ErrorKind::Parse, "the .param file is neither text nor its binary form");
            text::entries(text.map_err(wrong)?)?
        };
        if counts.layers != entries.len() {
            invalid!("the .param file states {} and has {}", count(counts.layers, "layer"), entries.len());
        }
        let mut weights = Reader::new(bin);
        let mut wiring = Wiring::default();
        for entry in entries {
            let place = entry.place.clone();
            let described = format!("{place}, {} \"{}\"", entry.layer.type_name(), entry.name);
            wiring.add(entry, &mut weights).map_err(|error| error.at_part(described))?;
        }
        weights.end()?;
        if counts.blobs != wiring.blobs.len() {
            let (stated, found) = (count(counts.blobs, "blob"), wiring.blobs.len());
            invalid!("the .param file states {stated} and has {found}");
        }
        Ok(wiring.end())
    }
}

/// A net of the layers so far, with the blobs by their names.
#[derive(Default)]
struct Wiring {
    net: Net,
    blobs: BTreeMap<String, BlobId>,
    read: BTreeMap<BlobId, usize>,
}

impl Wiring {
    fn add(&mut self, entry: Entry, weights: &mut Reader) -> Result<()> {
        let Entry { mut layer, name, bottoms, tops, mut given, .. } = entry;
        let hints: Option<Vec<i32>> = given.take(SHAPE_HINTS)?;
        let mask: i32 = given.take(FEATURE_MASK)?.unwrap_or_default();
        layer.settable().set(&given)?;
        weights.load(&mut layer, &given)?;
        for (names, arity, side) in [(&bottoms, layer.bottoms(), "bottom"), (&tops, layer.tops(), "top")] {
            if !(arity.min..=arity.max).contains(&names.len()) {
                invalid!("{}, and it has {}", arity_text(arity.min, arity.max, side), names.len());
            }
        }
        let mut read = BlobIds::new();
        for name in &bottoms {
            let Some(blob) = self.blobs.get(name) else {
                invalid!("bottom \"{name}\" is no top of a layer before");
            };
            *self.read.entry(*blob).or_default() += 1;
            read.push(*blob);
        }
        let mut shapes = hinted(&hints.unwrap_or_default(), tops.len()).into_iter();
        let mut computed = BlobIds::new();
        for name in tops {
            let shape = shapes.next().unwrap_or_default();
            let blob = Blob {
                name: name.clone(),
                is_value: true,
                shape,
                element: Element::F32,
                batch: 1,
                float32: false,
            };
            let blob = self.net.add_blob(blob);
            if self.blobs.insert(name.clone(), blob).is_some() {
                invalid!("top \"{name}\" is a top of a layer before");
            }
            computed.push(blob);
        }
        if matches!(layer, Layer::Input(_)) {
            self.net.inputs.extend(&computed);
        }
        let float32 = mask & HALF_PRECISION == HALF_PRECISION;
        let provenance = Provenance::default();
        self.net.layers.push(NetLayer { name, layer, bottoms: read, tops: computed, float32, provenance });
        Ok(())
    }

    fn end(mut self) -> Net {
        let unread = self.blobs.into_iter().filter(|(_, blob)| !self.read.contains_key(blob));
        let mut outputs: Vec<Output> = unread.map(|(name, blob)| Output { blob, name }).collect();
        outputs.sort_by_key(|output| output.blob);
        self.net.outputs = outputs;
        self.net.release = self.net.since();
        self.net
    }
}

fn arity_text(min: usize, max: usize, side: &str) -> String {
    match (min, max) {
        (min, max) if min == max => format!("it needs {}", count(min, side)),
        (min, usize::MAX) => format!("it needs at least {}", count(min, side)),
        (min, max) => format!("it needs {min} to {max} {side}s"),
    }
}

/// Returns the shapes of hints, which have the number of axes of each top, then w, h, c, or w, h, d, c of a
/// single top of four axes.
fn hinted(hints: &[i32], tops: usize) -> Vec<Shape> {
    let shape = |sizes: &[i32]| sizes.iter().map(|size| Dim::from(i64::from(*size))).collect::<Shape>();
    if let ([4, w, h, d, c], 1) = (hints, tops) {
        return vec![shape(&[*c, *d, *h, *w])];
    }
    let each = hints.chunks_exact(4).map(|hint| match *hint {
        [1, w, ..] => shape(&[w]),
        [2, w, h, _] => shape(&[h, w]),
        [3, w, h, c] => shape(&[c, h, w]),
        _ => Shape::default(),
    });
    each.collect()
}

#[cfg(test)]
pub(super) use text::given;
