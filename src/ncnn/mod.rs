//! The target: a net of layers and blobs, as ncnn reads it. This module is independent of ONNX.
//!
//! [`Conversion::net`](crate::Conversion::net) returns a net: its layers, each with params and weights, and
//! its blobs.
//!
//! Compatible versions of this crate add layers and params as ncnn does: end patterns over them in `..`.

mod binary;
mod block;
mod check;
mod contents;
mod cost;
mod depth;
mod diff;
mod embed;
#[cfg(test)]
mod example;
mod fault;
mod float16;
mod float32;
pub mod layer;
mod name;
pub(crate) mod pass;
mod phone;
mod provenance;
mod read;
mod share;
mod split;
mod table;
mod text;
mod unpack;
mod write;

use std::sync::LazyLock;

use smallvec::SmallVec;

use crate::common::index::{Index, IndexSet, RawIndex};
use crate::error::{Error, Result};
use crate::tensor::{DType, Shape};

pub(crate) use block::{BLOCKS_SINCE, BlockFormat, inverse, is_scale};
pub use contents::{Amount, Contents, LayerName, Sizes};
pub use cost::Cost;
pub(crate) use cost::USUAL_SIZE;
#[cfg(feature = "verify")]
pub(crate) use diff::Deviations;
pub use diff::{Difference, NetComparison, WeightChange};
pub(crate) use embed::Embedding;
pub(crate) use layer::LARGEST_HALF;
pub use layer::Layer;
pub(crate) use name::{Changes, Renamed};
pub use provenance::Provenance;
pub(crate) use share::share;
pub(crate) use table::Scales;
pub(crate) use text::{MAX_BOTTOMS, WINOGRAD, is_readable, letter};
pub(crate) use write::Watch;
pub use write::{Stored, Written};

/// A blob of a [`Net`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BlobId(RawIndex);

impl Index for BlobId {
    fn of(index: usize) -> BlobId {
        BlobId(RawIndex::of(index))
    }

    fn index(self) -> usize {
        self.0.get()
    }
}

/// The bottoms or tops of a layer; a few are stored inline.
pub type BlobIds = SmallVec<[BlobId; 4]>;

/// The type of the elements of a blob.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Element {
    /// 32-bit floats.
    F32,
    /// 32-bit integers, which Embed reads and Dequantize converts to float32.
    I32,
    /// 8-bit integers between convolutions in int8.
    I8,
    /// Keys or values that attention caches, in a layout private to the runtime: the shape is the shape of
    /// the value in the model, not of the Mat.
    Cache,
}

/// A bottom or top of layers: a Mat of at most four axes.
#[derive(Clone, Debug)]
pub struct Blob {
    /// The name in the `.param` file.
    pub name: String,
    /// Whether the blob has the name and the elements of a value of the model.
    pub is_value: bool,
    /// Sizes, outermost first: `[w]`, `[h, w]`, `[c, h, w]` or `[c, d, h, w]`.
    pub shape: Shape,
    /// The type of the elements.
    pub element: Element,
    /// The number of Mats of this shape: the elements of the batch, which the runtime computes one after the
    /// other.
    pub batch: u32,
    /// Whether half precision does not represent the elements, or the user keeps them in float32: the layers
    /// that compute or read the blob do so in float32.
    pub float32: bool,
}

/// A layer of a [`Net`].
#[derive(Clone, Debug)]
pub struct NetLayer {
    /// The name in the `.param` file.
    pub name: String,
    /// The type, params and weights.
    pub layer: Layer,
    /// The blobs that the layer reads.
    pub bottoms: BlobIds,
    /// The blobs that the layer computes.
    pub tops: BlobIds,
    /// Whether the layer computes in float32, even if the runtime computes in half precision.
    pub float32: bool,
    /// The nodes whose work the layer does.
    pub provenance: Provenance,
}

/// An output of a [`Net`].
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Output {
    /// The blob to extract. Several outputs may be the same blob until splits are inserted.
    pub blob: BlobId,
    /// The name to extract it by.
    pub name: String,
}

/// A network: layers in the order of execution.
#[derive(Clone, Debug)]
pub struct Net {
    blobs: Vec<Blob>,
    /// The layers, each after the layers whose tops it reads.
    pub layers: Vec<NetLayer>,
    /// The tops of the Input layers.
    pub inputs: Vec<BlobId>,
    /// The outputs.
    pub outputs: Vec<Output>,
    /// The oldest release of ncnn that must load the net, by date.
    pub release: u32,
    /// Whether weights that ncnn reads as float32 or float16 are written as float16.
    pub half: bool,
    /// Whether all layers compute in float32 on runtimes that compute in float16; blobs are stored in
    /// float16.
    pub precise: bool,
    /// Whether convolutions avoid the transforms of Winograd that lose most in float16.
    pub careful: bool,
    /// The tops of convolutions whose weights are too small for a transform in float16.
    small_weights: IndexSet<BlobId>,
}

impl Default for Net {
    fn default() -> Self {
        let (blobs, layers, inputs, outputs) = Default::default();
        let release = layer::OLDEST;
        let (half, precise, careful, small_weights) = Default::default();
        Net { blobs, layers, inputs, outputs, release, half, precise, careful, small_weights }
    }
}

/// Returns the oldest release that must load a net: the requested one if it is supported.
pub(crate) fn release(requested: Option<u32>) -> Result<u32> {
    let release = requested.unwrap_or(layer::OLDEST);
    if release < layer::OLDEST {
        let message = format!("{} is the oldest supported release of ncnn", layer::OLDEST);
        return Err(Error::usage(message));
    }
    Ok(release)
}

impl Net {
    /// Returns the oldest release of ncnn that loads the net.
    pub fn since(&self) -> u32 {
        self.layers.iter().map(|layer| layer.layer.since()).max().unwrap_or(layer::OLDEST)
    }

    /// Returns the layers of the user.
    pub(crate) fn custom_layers(&self) -> impl Iterator<Item = (&NetLayer, &layer::Custom)> {
        self.layers.iter().filter_map(|layer| match &layer.layer {
            Layer::Custom(custom) => Some((layer, &**custom)),
            _ => None,
        })
    }

    /// Returns whether a weight has float16 elements: of a net that was read, in its file.
    pub fn has_half_weights(&self) -> bool {
        let mut weights = self.layers.iter().flat_map(|layer| layer.layer.weights());
        weights.any(|weight| weight.tensor.dtype() == DType::F16)
    }

    /// Reserves capacity for `layers` layers of one top, and for as many blobs again from [`Net::split`].
    pub(crate) fn expect(&mut self, layers: usize) {
        self.layers.reserve(layers);
        self.blobs.reserve(2 * layers);
    }

    /// Adds a blob; returns its id.
    pub(crate) fn add_blob(&mut self, blob: Blob) -> BlobId {
        self.blobs.push(blob);
        BlobId::of(self.blobs.len() - 1)
    }

    /// Returns a blob of this net.
    pub fn blob(&self, id: BlobId) -> &Blob {
        static MISSING: LazyLock<Blob> = LazyLock::new(|| Blob {
            name: String::new(),
            is_value: false,
            shape: Shape::default(),
            element: Element::F32,
            batch: 1,
            float32: false,
        });
        self.blobs.get(id.index()).unwrap_or_else(|| &MISSING)
    }

    /// Returns the layers of these indices as a net, from `inputs` to `top`.
    #[cfg(feature = "verify")]
    pub(crate) fn alone(&self, layers: &[usize], inputs: &[BlobId], top: BlobId) -> Net {
        let mut part =
            Net { layers: Vec::new(), inputs: inputs.to_vec(), outputs: Vec::new(), ..self.clone() };
        for blob in inputs {
            part.layers.push(NetLayer {
                name: format!("input_{}", blob.index()),
                layer: Layer::from(layer::Input::default()),
                bottoms: BlobIds::new(),
                tops: [*blob].into_iter().collect(),
                float32: false,
                provenance: Provenance::default(),
            });
        }
        part.layers.extend(layers.iter().filter_map(|index| self.layers.get(*index).cloned()));
        part.outputs.push(Output { blob: top, name: self.blob(top).name.clone() });
        part
    }

    /// Returns the other side of a cache: the blob that a layer computes from it, or that it was computed
    /// from.
    pub(crate) fn continued(&self, id: BlobId) -> Option<BlobId> {
        if self.blob(id).element != Element::Cache {
            return None;
        }
        self.layers.iter().find_map(|layer| {
            let made = layer.tops.iter().enumerate().filter(|(index, _)| layer.layer.computes_cache(*index));
            let mut pairs = made.map(|(_, top)| top).rev().zip(layer.bottoms.iter().rev());
            pairs.find_map(|(top, bottom)| match id {
                id if id == *top => Some(*bottom),
                id if id == *bottom => Some(*top),
                _ => None,
            })
        })
    }

    /// Returns a blob for modification.
    pub(crate) fn blob_mut(&mut self, id: BlobId) -> Option<&mut Blob> {
        self.blobs.get_mut(id.index())
    }

    /// Returns the ids of all blobs in the order of their creation.
    pub fn blob_ids(&self) -> impl Iterator<Item = BlobId> + use<> {
        (0..self.blobs.len()).map(BlobId::of)
    }
}
