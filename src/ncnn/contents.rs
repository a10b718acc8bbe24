//! What a net contains, and what it needs of a runtime.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use super::layer::{OLDEST, Trait};
use super::{BlobId, Layer, Net, NetLayer};
use crate::error::Result;
use crate::tensor::{DType, Dim};

/// What a [`Net`] contains, and what it needs of a runtime.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct Contents {
    /// The number of layers.
    pub layers: usize,
    /// The number of blobs.
    pub blobs: usize,
    /// The number of layers of each type.
    pub types: BTreeMap<&'static str, usize>,
    /// The amount of weights of each element type: `float32`, `float16`, `int8`, or `blocks` of integers.
    pub weights: BTreeMap<&'static str, Amount>,
    /// The inputs.
    pub inputs: Vec<Sizes>,
    /// The outputs: the blobs that no layer reads.
    pub outputs: Vec<Sizes>,
    /// The names of inputs that no layer reads.
    pub unread_inputs: Vec<String>,
    /// The names of blobs that no layer reads, of layers whose other tops are read. They may be outputs.
    pub unread_tops: Vec<String>,
    /// The oldest release of ncnn that loads the net; older releases than the first one are not known.
    pub since: u32,
    /// The layers that need this release, if it is not the oldest that is known.
    pub newest: Vec<LayerName>,
    /// The layers that have no code for the GPU, or must not run there.
    pub without_gpu: Vec<LayerName>,
    /// The layers that compute in float32 on runtimes of half precision, because the file says so.
    pub float32: Vec<LayerName>,
}

/// An amount of weights.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Amount {
    /// The number of elements; of weights in blocks of integers, the number of bytes.
    pub elements: u64,
    /// The number of their bytes, without tags and padding.
    pub bytes: u64,
}

/// An input or output, and its sizes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Sizes {
    /// The name of the blob.
    pub name: String,
    /// The sizes, outermost first, if the file states them.
    pub shape: Option<Vec<i64>>,
}

/// The type and name of a layer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct LayerName {
    /// The name in the layer registry of ncnn.
    #[serde(rename = "type")]
    pub type_name: &'static str,
    /// The name in the `.param` file.
    pub name: String,
}

impl LayerName {
    /// Returns the name of a layer.
    pub(super) fn of(layer: &NetLayer) -> LayerName {
        LayerName { type_name: layer.layer.type_name(), name: layer.name.clone() }
    }
}

/// Returns the name of the element type of a weight.
pub(super) fn element_name(dtype: DType) -> &'static str {
    match dtype {
        DType::F32 => "float32",
        DType::U8 => "blocks",
        other => other.name(),
    }
}

impl Net {
    /// Returns what the net contains, and what it needs of a runtime.
    ///
    /// # Errors
    ///
    /// If the size of a weight exceeds 64 bits.
    pub fn contents(&self) -> Result<Contents> {
        let mut types = BTreeMap::new();
        let mut weights: BTreeMap<&'static str, Amount> = BTreeMap::new();
        for layer in &self.layers {
            *types.entry(layer.layer.type_name()).or_default() += 1;
            for weight in layer.layer.weights() {
                let amount = weights.entry(element_name(weight.tensor.dtype())).or_default();
                amount.elements = amount.elements.saturating_add(u64::try_from(weight.tensor.len())?);
                amount.bytes = amount.bytes.saturating_add(weight.tensor.byte_len()?);
            }
        }
        let unread: BTreeSet<BlobId> = self.outputs.iter().map(|output| output.blob).collect();
        let inputs = self.input_sizes();
        let name = |blob: BlobId| self.blob(blob).name.clone();
        // A Split may have an output among its tops.
        let several = self.layers.iter().filter(|layer| {
            let is_other = !matches!(layer.layer, Layer::Input(_) | Layer::Split(_));
            is_other && layer.tops.iter().any(|top| !unread.contains(top))
        });
        let chosen = |is_chosen: &dyn Fn(&NetLayer) -> bool| -> Vec<LayerName> {
            self.layers.iter().filter(|layer| is_chosen(layer)).map(LayerName::of).collect()
        };
        let since = self.since();
        let (layers, blobs) = self.counts();
        Ok(Contents {
            layers,
            blobs,
            types,
            weights,
            unread_inputs: inputs
                .keys()
                .filter(|blob| unread.contains(blob))
                .map(|blob| name(*blob))
                .collect(),
            unread_tops: several
                .flat_map(|layer| layer.tops.iter().copied())
                .filter(|top| unread.contains(top))
                .map(name)
                .collect(),
            outputs: unread
                .iter()
                .filter(|blob| !inputs.contains_key(blob))
                .map(|blob| Sizes { name: name(*blob), shape: self.hinted(*blob) })
                .collect(),
            inputs: inputs.into_iter().map(|(blob, shape)| Sizes { name: name(blob), shape }).collect(),
            since,
            newest: chosen(&|layer| since > OLDEST && layer.layer.since() == since),
            without_gpu: chosen(&|layer| {
                let is_computed = !layer.layer.has(Trait::Source);
                is_computed && (!layer.layer.has(Trait::Gpu) || self.avoids_gpu(layer))
            }),
            float32: chosen(&|layer| layer.float32),
        })
    }

    /// Returns the sizes that shape hints state for a blob.
    fn hinted(&self, blob: BlobId) -> Option<Vec<i64>> {
        Dim::known_sizes(self.blob(blob).shape.iter()).filter(|sizes| !sizes.is_empty())
    }

    /// Returns the inputs with the sizes of their shape hints, or of the layer Input.
    fn input_sizes(&self) -> BTreeMap<BlobId, Option<Vec<i64>>> {
        let mut all = BTreeMap::new();
        for layer in &self.layers {
            let Layer::Input(input) = &layer.layer else { continue };
            let sizes = [input.c, input.d, input.h, input.w].into_iter().filter(|size| *size != 0);
            let sizes: Vec<i64> = sizes.map(i64::from).collect();
            let stated = Some(sizes).filter(|sizes| !sizes.is_empty());
            all.extend(layer.tops.iter().map(|top| (*top, self.hinted(*top).or(stated.clone()))));
        }
        all
    }
}
