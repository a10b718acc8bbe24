//! Nets read from their files, of any writer: the `.param` text or its binary form, and the `.bin` file.
//!
//! The files may be damaged: each fault is an error with its line, and memory is in proportion to the files.

mod binary;
mod text;
mod weights;

use std::collections::BTreeMap;

use bytes::Bytes;

use super::layer::StatedParams;
use super::text::{FEATURE_MASK, HALF_PRECISION, SHAPE_HINTS};
use super::{Blob, BlobId, BlobIds, Element, Layer, Net, NetLayer, Output, Provenance, check};
use crate::common::count::count;
use crate::error::{Error, Errors, Result};
use crate::tensor::{Dim, Shape};
use weights::Reader;

/// The magic number in the first bytes of the binary form.
const MAGIC: [u8; 4] = super::text::MAGIC.to_le_bytes();

/// The layers of the user by their names.
type CustomByName = BTreeMap<String, Layer>;

/// A layer as its file states it.
struct Entry {
    /// The line of the text, or the index in the binary form.
    location: String,
    type_name: String,
    name: String,
    bottoms: Vec<String>,
    tops: Vec<String>,
    /// The layer without its params, and the params; an error if the type is not known or a param is none.
    layer: Result<(Layer, StatedParams)>,
}

/// The head of a file: the numbers of layers and blobs.
struct Counts {
    layers: usize,
    blobs: usize,
}

impl Net {
    /// Reads a net from the bytes of a `.param` file, or of its binary form, and of a `.bin` file.
    ///
    /// Layers have the params and weights of the files. Blobs have the sizes of the shape hints; without
    /// hints they have no shape. Blobs that no layer reads are outputs. A blob of the binary
    /// form has its index as its name.
    ///
    /// # Errors
    ///
    /// Each fault with its line: `InvalidNet` if the runtime would not load the files, or misread them, or
    /// lack a blob that it has freed after another reader; `Unsupported` for a layer that is not known here.
    pub fn read(param: &[u8], bin: Bytes) -> std::result::Result<Net, Errors> {
        Net::read_with(param, bin, &CustomByName::new())
    }

    /// Like [`Net::read`], of files that may have the layers of the user that this net has, by their names.
    ///
    /// # Errors
    ///
    /// As [`Net::read`].
    #[cfg(feature = "verify")]
    pub(crate) fn read_like(&self, param: &[u8], bin: Bytes) -> std::result::Result<Net, Errors> {
        let custom = self.custom_layers().map(|(layer, _)| (layer.name.clone(), layer.layer.clone()));
        Net::read_with(param, bin, &custom.collect())
    }

    fn read_with(param: &[u8], bin: Bytes, custom: &CustomByName) -> std::result::Result<Net, Errors> {
        Net::wired(param, bin, custom).map_err(Errors::into_invalid_net)
    }

    fn wired(param: &[u8], bin: Bytes, custom: &CustomByName) -> std::result::Result<Net, Errors> {
        let (counts, entries) = if param.starts_with(&MAGIC) {
            binary::entries(param)?
        } else {
            let text = std::str::from_utf8(param);
            let wrong = |_| Error::invalid("the .param file is neither text nor its binary form");
            text::entries(text.map_err(wrong)?, custom)?
        };
        let mut wiring = Wiring::new(bin);
        let found = entries.len();
        for entry in entries {
            match entry {
                Ok(entry) => wiring.add(entry),
                Err(error) => wiring.skip(error),
            }
        }
        wiring.end(&counts, found)
    }
}

/// The net of the layers so far, and the faults.
struct Wiring {
    net: Net,
    blobs: BTreeMap<String, BlobId>,
    /// The location of the reader of each blob.
    readers: BTreeMap<BlobId, String>,
    weights: Reader,
    errors: Vec<Error>,
    /// Whether the blobs of all lines so far are known: if not, no missing blob is a fault.
    knows_blobs: bool,
    /// Whether it is known where the next weight begins.
    knows_weights: bool,
}

/// A layer with params and weights, and the params that every layer may have.
struct Loaded {
    layer: Layer,
    hints: Vec<i32>,
    mask: i32,
}

impl Wiring {
    fn new(bin: Bytes) -> Wiring {
        Wiring {
            net: Net::default(),
            blobs: BTreeMap::new(),
            readers: BTreeMap::new(),
            weights: Reader::new(bin),
            errors: Vec::new(),
            knows_blobs: true,
            knows_weights: true,
        }
    }

    /// Adds a line of which nothing is known.
    fn skip(&mut self, error: Error) {
        (self.knows_blobs, self.knows_weights) = (false, false);
        self.errors.push(error);
    }

    /// Adds a layer, or its faults.
    fn add(&mut self, entry: Entry) {
        let Entry { location, type_name, name, bottoms, tops, layer } = entry;
        let mut faults = Vec::new();
        let loaded = layer.and_then(|(layer, params)| self.load(layer, params));
        let loaded = loaded.map_err(|error| faults.push(error)).ok();
        self.knows_weights &= loaded.is_some();
        if let Some(Loaded { layer, .. }) = &loaded {
            for (found, arity, side) in
                [(bottoms.len(), layer.bottoms(), "bottom"), (tops.len(), layer.tops(), "top")]
            {
                if !(arity.min..=arity.max).contains(&found) {
                    let needed = arity_text(arity.min, arity.max, side);
                    faults.push(Error::invalid(format!("{needed}, and it has {found}")));
                }
            }
        }
        faults.extend([&name].into_iter().chain(&tops).filter_map(|name| check::check_name(name).err()));
        let bottoms = self.bottoms(&bottoms, &location, &mut faults);
        let hints = loaded.as_ref().map(|loaded| loaded.hints.as_slice()).unwrap_or_default();
        let tops = self.tops(tops, hints, &mut faults);
        let described = format!("{location}, {type_name} \"{name}\"");
        if let Some(Loaded { layer, mask, .. }) = loaded {
            if matches!(layer, Layer::Input(_)) {
                self.net.inputs.extend(&tops);
            }
            let float32 = mask & HALF_PRECISION == HALF_PRECISION;
            let layer = NetLayer { name, layer, bottoms, tops, float32, provenance: Provenance::default() };
            // Without sizes of the bottom, only the numbers of elements that the params state are known.
            let has_sizes = |blob: &BlobId| !self.net.blob(*blob).shape.is_empty();
            if self.knows_weights && layer.bottoms.first().is_some_and(has_sizes) {
                faults.extend(self.net.check_weights(&layer).err());
            }
            self.net.layers.push(layer);
        }
        self.errors.extend(faults.into_iter().map(|fault| fault.in_part(&described)));
    }

    /// Sets the params and weights of a layer.
    fn load(&mut self, mut layer: Layer, mut params: StatedParams) -> Result<Loaded> {
        let hints: Option<Vec<i32>> = params.take(SHAPE_HINTS)?;
        let mask: Option<i32> = params.take(FEATURE_MASK)?;
        layer.settable().set(&params)?;
        if self.knows_weights {
            self.weights.load(&mut layer, &params)?;
        }
        Ok(Loaded { layer, hints: hints.unwrap_or_default(), mask: mask.unwrap_or_default() })
    }

    /// Returns the bottoms of these names.
    fn bottoms(&mut self, names: &[String], location: &str, faults: &mut Vec<Error>) -> BlobIds {
        let mut read = BlobIds::new();
        for name in names {
            let Some(blob) = self.blobs.get(name) else {
                if self.knows_blobs {
                    let message = format!("bottom \"{name}\" is not a top of an earlier layer");
                    faults.push(Error::invalid(message));
                }
                continue;
            };
            if let Some(other) = self.readers.insert(*blob, location.to_owned()) {
                let other =
                    if other == location { "the layer twice".to_owned() } else { format!("{other}, too") };
                let message =
                    format!("bottom \"{name}\" is read by {other}, and the runtime frees it before");
                faults.push(Error::invalid(message).help("give each reader a top of a layer Split"));
            }
            read.push(*blob);
        }
        read
    }

    /// Adds the tops of these names.
    fn tops(&mut self, names: Vec<String>, hints: &[i32], faults: &mut Vec<Error>) -> BlobIds {
        let mut shapes = hinted(hints, names.len()).into_iter();
        let mut computed = BlobIds::new();
        for name in names {
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
            if self.blobs.contains_key(&name) {
                faults.push(Error::invalid(format!("top \"{name}\" is a top of an earlier layer")));
            }
            self.blobs.insert(name, blob);
            computed.push(blob);
        }
        computed
    }

    /// Returns the net, or all faults.
    fn end(mut self, counts: &Counts, layers: usize) -> std::result::Result<Net, Errors> {
        if self.knows_weights {
            self.errors.extend(self.weights.end().err());
        }
        for (stated, found, noun) in
            [(counts.layers, layers, "layer"), (counts.blobs, self.net.blobs.len(), "blob")]
        {
            // A file that breaks off has fewer of both.
            if self.knows_blobs && stated != found {
                let stated = count(stated, noun);
                let message = format!("the .param file states {stated} and has {found}");
                self.errors.push(Error::invalid(message));
            }
        }
        if counts.layers == 0 {
            self.errors.push(Error::invalid("the net has no layers"));
        }
        Errors::check(self.errors)?;
        let unread = self.blobs.into_iter().filter(|(_, blob)| !self.readers.contains_key(blob));
        let mut outputs: Vec<Output> = unread.map(|(name, blob)| Output { blob, name }).collect();
        outputs.sort_by_key(|output| output.blob);
        self.net.outputs = outputs;
        self.net.release = self.net.since();
        Ok(self.net)
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
pub(super) use text::read_params;
