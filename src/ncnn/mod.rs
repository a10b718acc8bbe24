//! The target: a net of layers and blobs, as ncnn's runtime reads it. Nothing here knows ONNX.
//!
//! [`Conversion::net`](crate::Conversion::net) gives a net to read: its layers, each with its params and weights, and its blobs.
//!
//! Layers and params are added as ncnn gets them, in versions that are compatible otherwise: patterns over them end in `..`.

mod binary;
mod check;
mod cost;
mod embed;
#[cfg(test)]
mod example;
mod halves;
pub mod layer;
mod name;
pub(crate) mod pass;
mod provenance;
mod split;
mod table;
mod text;
mod write;

use std::sync::LazyLock;

use smallvec::SmallVec;

use crate::common::index::{Index, RawIndex};
use crate::error::{Error, Result};
use crate::tensor::Shape;

pub(crate) use embed::Embedding;
pub use layer::Layer;
pub(crate) use name::{Changes, Renamed};
pub use provenance::Provenance;
pub(crate) use table::Scales;
pub(crate) use text::is_readable;
pub use write::{Stored, Written};

/// A blob of a [`Net`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BlobId(RawIndex);

impl Index for BlobId {
    fn of(number: usize) -> BlobId {
        BlobId(RawIndex::of(number))
    }

    fn index(self) -> usize {
        self.0.get()
    }
}

/// Blobs that a layer reads or computes. Most have a few, which are in the layer itself.
pub type BlobIds = SmallVec<[BlobId; 4]>;

/// How the runtime reads the elements of a blob.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Element {
    /// Singles: everything but token ids.
    F32,
    /// 32-bit integers, which Embed reads, and Dequantize makes float32 values of.
    I32,
}

/// What a layer computes: a Mat of at most four axes.
#[derive(Clone, Debug)]
pub struct Blob {
    /// The name in the `.param` file.
    pub name: String,
    /// Sizes, outermost first: `[w]`, `[h, w]`, `[c, h, w]` or `[c, d, h, w]`.
    pub shape: Shape,
    /// The kind of the elements.
    pub element: Element,
}

/// A layer in its place.
#[derive(Clone, Debug)]
pub struct NetLayer {
    /// The name in the `.param` file.
    pub name: String,
    /// Type, params and weights.
    pub layer: Layer,
    /// Blobs that are read.
    pub bottoms: BlobIds,
    /// Blobs that are computed.
    pub tops: BlobIds,
    /// What it does. A layer that takes over what another one does has its numbers too.
    pub provenance: Provenance,
}

/// A blob that users extract, and by which name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Output {
    /// What is extracted. Several outputs may be the same blob until [`Net::split`].
    pub blob: BlobId,
    /// The name to extract it by.
    pub name: String,
}

/// A network: layers in the order of execution.
#[derive(Clone, Debug)]
pub struct Net {
    blobs: Vec<Blob>,
    /// The layers, each after those that it reads from.
    pub layers: Vec<NetLayer>,
    /// Blobs of the Input layers; their names are those that users give.
    pub inputs: Vec<BlobId>,
    /// Blobs that users extract.
    pub outputs: Vec<Output>,
    /// The oldest release of the runtime that must load the net, by its date.
    pub release: u32,
    /// Whether weights that the runtime reads in either precision are written as float16.
    pub half: bool,
}

impl Default for Net {
    fn default() -> Self {
        let (blobs, layers, inputs, outputs) = Default::default();
        Net { blobs, layers, inputs, outputs, release: layer::OLDEST, half: false }
    }
}

/// The oldest release that must load a net: that which is asked for, if this program writes for it.
pub(crate) fn release(asked: Option<u32>) -> Result<u32> {
    let release = asked.unwrap_or(layer::OLDEST);
    if release < layer::OLDEST {
        let message = format!("{} is the oldest release of ncnn that this program writes for", layer::OLDEST);
        return Err(Error::usage(message));
    }
    Ok(release)
}

impl Net {
    /// The oldest release of the runtime that loads the net.
    pub fn since(&self) -> u32 {
        self.layers.iter().map(|layer| layer.layer.since()).max().unwrap_or(layer::OLDEST)
    }

    /// Makes room for layers of one blob that may come, and for as many blobs that they may be split into. Room that stays empty takes no
    /// memory.
    pub(crate) fn expect(&mut self, layers: usize) {
        self.layers.reserve(layers);
        self.blobs.reserve(2 * layers);
    }

    /// Adds a blob.
    pub(crate) fn add_blob(&mut self, blob: Blob) -> BlobId {
        self.blobs.push(blob);
        BlobId::of(self.blobs.len() - 1)
    }

    /// A blob. Ids are only made by this net, so the blob exists.
    pub fn blob(&self, id: BlobId) -> &Blob {
        static MISSING: LazyLock<Blob> =
            LazyLock::new(|| Blob { name: String::new(), shape: Shape::default(), element: Element::F32 });
        self.blobs.get(id.index()).unwrap_or_else(|| &MISSING)
    }

    /// A blob, to change it.
    pub(crate) fn blob_mut(&mut self, id: BlobId) -> Option<&mut Blob> {
        self.blobs.get_mut(id.index())
    }

    /// All blobs, in the order of their making.
    pub fn blob_ids(&self) -> impl Iterator<Item = BlobId> + use<> {
        (0..self.blobs.len()).map(BlobId::of)
    }
}
