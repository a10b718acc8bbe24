//! The inputs and outputs of a net.

use crate::graph::{Graph, ValueId};
use crate::lower::interface_axes;
use crate::ncnn::{BlobId, Element, Net};
use crate::tensor::Dim;

/// A graph input or output and its blob in the net.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Port {
    /// The name in the model.
    pub name: String,
    /// The element type in the model, by its ONNX name.
    pub dtype: String,
    /// The shape in the model.
    pub shape: Vec<Dim>,
    /// The name of the blob.
    pub blob: String,
    /// The shape of the blob, outermost axis first.
    pub form: Vec<Dim>,
    /// Whether the runtime reads the blob as 32-bit integers.
    pub int32: bool,
    /// For a cache that the runtime keeps, the blob of the other side: of the output that continues an input,
    /// and reverse. The output is extracted with type 1, and passed to the input of the next call as it is;
    /// the input of the first call is not set. The layout is private to the runtime.
    pub cache: Option<String>,
}

impl Port {
    /// Returns the axes of the shape that each axis of the form merges. All others have size 1.
    pub fn axes(&self) -> Vec<Vec<usize>> {
        interface_axes(&self.shape)
    }

    /// The ports of `values`, each with its blob.
    pub(super) fn list(graph: &Graph, net: &Net, values: &[ValueId], blobs: Vec<BlobId>) -> Vec<Port> {
        values.iter().zip(blobs).map(|(value, blob)| Port::new(graph, net, *value, blob)).collect()
    }

    fn new(graph: &Graph, net: &Net, value: ValueId, blob: BlobId) -> Port {
        let cache = net.continued(blob).map(|other| net.blob(other).name.clone());
        let (value, blob) = (graph.value(value), net.blob(blob));
        Port {
            name: value.name.clone(),
            dtype: value.dtype.map_or_else(|| "?".to_owned(), |dtype| dtype.name().to_owned()),
            shape: value.shape.iter().flatten().cloned().collect(),
            blob: blob.name.clone(),
            form: blob.shape.to_vec(),
            int32: blob.element == Element::I32,
            cache,
        }
    }
}
