//! The blobs that runtimes of half precision store in half precision.

use serde::Serialize;

use super::Conversion;
use crate::error::Result;
use crate::ncnn::BlobId;
use crate::report::{self, NodePart};

/// A blob that runtimes store in half precision: numbers above 65504 are infinite there.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct HalfBlob {
    /// The name of the blob.
    pub blob: String,
    /// The name with which [`Converter::float32`](crate::Converter::float32) keeps the blob in float32: that
    /// of the last node whose work the layer of the blob does, or of the node's first output if it has none,
    /// or of an input.
    pub name: String,
    /// The first blob that its layer reads; an input has none.
    pub bottom: Option<String>,
    /// The multiply-adds of its layer. A free size counts as 256.
    pub work: u64,
    /// The number of products that its layer adds in float16 for an element; 0 for other layers.
    pub terms: u64,
    /// Whether its layer is a convolution that [`Converter::careful`](crate::Converter::careful) makes more
    /// exact.
    pub is_roughly_transformed: bool,
}

impl Conversion {
    /// Returns the blobs that runtimes store in half precision, in the order of the layers. A blob whose
    /// elements are those of others, such as a reshape, is left out.
    ///
    /// # Errors
    ///
    /// The model cannot be read again.
    pub fn half_blobs(&self) -> Result<Vec<HalfBlob>> {
        let model = self.sources.read()?.graph;
        let (nodes, nodes_of) = report::trace(&model, &self.graph, &self.net);
        let named = |(index, id): (usize, BlobId)| {
            let blob = self.net.blob(id).name.clone();
            let work = nodes_of.get(index).into_iter().flatten().filter_map(|node| nodes.get(*node));
            let input = self.inputs.iter().find(|port| port.blob == blob);
            let name = input.map(|port| port.name.clone()).or_else(|| self.last_name(&blob, work))?;
            let layer = self.net.layers.get(index)?;
            let bottom = layer.bottoms.first().map(|bottom| self.net.blob(*bottom).name.clone());
            let (work, _) = self.net.usual_multiply_adds(layer);
            let terms = self.net.half_sums(layer);
            let is_roughly_transformed = self.net.is_roughly_transformed(layer);
            Some(HalfBlob { blob, name, bottom, work, terms, is_roughly_transformed })
        };
        // A constant that is an output has no node, and is float32.
        Ok(self.net.half_blobs().into_iter().filter_map(named).collect())
    }

    /// Returns the name of the node that computes the value of a blob, or of the last of these nodes.
    fn last_name<'n>(&self, blob: &str, nodes: impl Iterator<Item = &'n NodePart> + Clone) -> Option<String> {
        let value = self.value_of(blob);
        let node = nodes.clone().find(|node| node.outputs.iter().any(|output| output == value));
        let node = node.or_else(|| nodes.last())?;
        let mut names = [&node.name].into_iter().chain(&node.outputs);
        names.find(|name| !name.is_empty()).cloned()
    }
}
