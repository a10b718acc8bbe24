//! Weights that many nodes read, such as those of an unrolled loop, as one blob.
//!
//! Layers do not share weights: each has a copy in the file and in memory. A layer that reads its weight
//! from a blob packs it on each run, which takes as long as the product itself over some rows (NCNN.md). So
//! those of more rows are shared if copies would make the net much larger, and most others if the copies are
//! large.

use std::collections::BTreeMap;

use crate::error::Result;
use crate::graph::{Graph, Node, Value, ValueId};
use crate::op::element_count;
use crate::pass::builder::program_node;
use crate::pass::pattern::int;
use crate::pass::rewrite::{Rewrite, pass};
use crate::tensor::Tensor;

/// The passes that share weights, which follow all others.
pub const SHARING: &[Rewrite] = &[pass!(self::share_weights [Conv Gemm MatMul]
    "weights of products and convolutions, of which copies would make the net much larger, as blobs")];

/// Copies may take this part of all weights, and as many bytes.
const ALLOWED_PART: u64 = 2;
/// See [`ALLOWED_PART`].
const ALLOWED_BYTES: u64 = 1 << 20;

/// The bytes of copies that fit no cache of a processor: reading them from memory takes as long as packing
/// one.
const LARGE_BYTES: u64 = 1 << 25;

/// The readers of the weight of a convolution up to which large copies stay: it takes up to 17 times as long
/// if it packs its weight (two images in VGG16 404 ms instead of 24).
const FEW_CONVOLUTIONS: u64 = 4;

/// The bytes of copies of a weight below which they stay.
const FEW_BYTES: u64 = 1 << 16;

/// The rows of a product, and the positions of a convolution, over which it takes as long as packing its
/// weight.
const ROWS: u64 = 16;
/// See [`ROWS`].
const POSITIONS: u64 = 1 << 12;

/// The input of the weight.
const WEIGHT: usize = 1;

/// The readers of a weight.
#[derive(Default)]
struct Weight {
    bytes: u64,
    readers: u64,
    is_of_convolutions: bool,
    /// Whether all products take longer than packing the weight.
    is_cheap: bool,
    /// The blob of the weight.
    blob: Option<ValueId>,
}

impl Weight {
    fn copied_bytes(&self) -> u64 {
        self.bytes.saturating_mul(self.readers.saturating_sub(1))
    }
}

/// An identity of the elements and the shape of a weight.
type Key = ((usize, u64, u64), Vec<usize>);

/// Returns whether weights will be shared. Layers with several weights, such as attention,
/// would copy them.
pub fn shares_weights(graph: &Graph) -> bool {
    !shared_weights(graph).is_empty()
}

/// Returns the weights of which copies would make the net much larger.
fn shared_weights(graph: &Graph) -> BTreeMap<Key, Weight> {
    let mut weights: BTreeMap<Key, Weight> = BTreeMap::new();
    let mut all: BTreeMap<Key, u64> = BTreeMap::new();
    for (_, node) in graph.nodes() {
        for tensor in node.inputs.iter().flatten().filter_map(|id| graph.value(*id).constant.as_ref()) {
            all.insert(key(tensor), float32_bytes(tensor));
        }
        if let Some((tensor, is_cheap)) = weight_of(graph, node) {
            let weight = weights.entry(key(tensor)).or_default();
            weight.bytes = float32_bytes(tensor);
            weight.is_cheap = is_cheap && (weight.readers == 0 || weight.is_cheap);
            weight.is_of_convolutions |= node.is("Conv");
            weight.readers += 1;
        }
    }
    let copied = |weights: &BTreeMap<Key, Weight>| {
        weights.values().map(Weight::copied_bytes).fold(0, u64::saturating_add)
    };
    let is_large = copied(&weights) >= LARGE_BYTES;
    weights.retain(|_, weight| {
        let stays = weight.is_of_convolutions && weight.readers <= FEW_CONVOLUTIONS;
        weight.is_cheap || is_large && !stays
    });
    let stored = all.into_values().fold(0, u64::saturating_add);
    if copied(&weights) < (stored / ALLOWED_PART).saturating_add(ALLOWED_BYTES) {
        return BTreeMap::new();
    }
    weights.retain(|_, weight| weight.copied_bytes() >= FEW_BYTES);
    weights
}

fn share_weights(graph: &mut Graph) -> Result<bool> {
    let mut weights = shared_weights(graph);
    if weights.is_empty() {
        return Ok(false);
    }
    graph.rewrite_nodes(|graph, id| {
        let Some(mut node) = graph.node(id).cloned() else { return Ok(None) };
        let weight = weight_of(graph, &node).and_then(|(tensor, _)| weights.get_mut(&key(tensor)));
        let (Some(weight), Some(Some(input))) = (weight, node.inputs.get_mut(WEIGHT)) else {
            return Ok(None);
        };
        let mut nodes = Vec::new();
        let blob = *weight.blob.get_or_insert_with(|| {
            let name = graph.value(*input).name.clone();
            let blob = graph.add_value(Value { name, ..Value::default() });
            nodes.push(program_node("Stored", *input, blob));
            blob
        });
        *input = blob;
        nodes.push(node);
        Ok(Some(nodes))
    })?;
    Ok(weights.values().any(|weight| weight.blob.is_some()))
}

/// Returns the weight of a node whose layer may read it from a blob, and whether that takes little time
/// compared with the product.
fn weight_of<'g>(graph: &'g Graph, node: &Node) -> Option<(&'g Tensor, bool)> {
    let value = |index: usize| node.input(index).map(|id| graph.value(id));
    let (data, weight) = (value(0)?, value(WEIGHT)?);
    let (data_shape, tensor) = (data.shape.as_deref()?, weight.constant.as_ref()?);
    let output = || graph.value(node.output(0)?).shape.as_deref();
    let (rows, least) = match data_shape {
        [batch, _, _, _] if node.is("Conv") && batch.is(1) && int(node, "group").unwrap_or(1) == 1 => {
            (output()?.get(2..)?, POSITIONS)
        }
        [.., _, _] if (node.is("Gemm") || node.is("MatMul")) && tensor.shape().len() == 2 => {
            (output()?.split_last()?.1, ROWS)
        }
        _ => return None,
    };
    // A free size is taken for a large one.
    let is_cheap = element_count(rows).is_none_or(|rows| rows >= least);
    data.constant.is_none().then_some((tensor, is_cheap))
}

fn key(tensor: &Tensor) -> Key {
    (tensor.identity(), tensor.shape().to_vec())
}

fn float32_bytes(tensor: &Tensor) -> u64 {
    u64::try_from(tensor.len()).unwrap_or(u64::MAX).saturating_mul(4)
}
