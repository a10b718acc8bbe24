//! Chains of many small nodes: the cost of a node must not depend on their number.

use std::fs;
use std::path::{Path, PathBuf};

use crate::message::Message;

/// The sizes of the values.
const SIZES: [u64; 4] = [1, 8, 4, 4];

/// The nodes after which the chain begins again at the input: the runtime bears no longer paths.
const LENGTH: usize = 10_000;

/// Returns the value that node `place` reads.
fn value(place: usize) -> String {
    format!("v{}", if place.is_multiple_of(LENGTH) { 0 } else { place })
}

/// The nodes of a chain.
#[derive(Clone, Copy)]
pub enum Link {
    Relu,
    /// With one weight for all.
    Conv,
    /// With a constant for each node.
    Add,
    /// Alternating sums of the last two values and Relu.
    Residual,
}

impl Link {
    /// Writes the model of a chain, and returns its path.
    pub fn write(self, folder: &Path, nodes: usize) -> PathBuf {
        let mut graph = Message::default();
        let mut weights = Message::default();
        for place in 0..nodes {
            let mut node = Message::default();
            node.text(1, &value(place));
            let op_type = match self {
                Link::Conv => {
                    node.text(1, "w");
                    "Conv"
                }
                Link::Add => {
                    let name = format!("c{place}");
                    node.text(1, &name);
                    weights.message(5, &constant(&name, &[1, 8, 1, 1], place));
                    "Add"
                }
                Link::Residual if place % 2 == 1 => {
                    node.text(1, &value(place - 1));
                    "Add"
                }
                Link::Relu | Link::Residual => "Relu",
            };
            node.text(2, &format!("v{}", place + 1));
            node.text(3, &format!("node{place}"));
            node.text(4, op_type);
            graph.message(1, &node);
        }
        if let Link::Conv = self {
            weights.message(5, &constant("w", &[8, 8, 1, 1], 0));
        }
        graph.text(2, "chain");
        graph.0.append(&mut weights.0);
        graph.message(11, &Message::value("v0", &SIZES));
        for end in (1..=nodes / LENGTH).map(|count| count * LENGTH) {
            graph.message(12, &Message::value(&format!("v{end}"), &SIZES));
        }
        let mut model = Message::model();
        model.message(7, &graph);
        let path = folder.join(format!("chain{nodes}.onnx"));
        fs::write(&path, &model.0).unwrap();
        path
    }
}

/// A TensorProto of float32 elements.
fn constant(name: &str, sizes: &[u64], seed: usize) -> Message {
    let mut tensor = Message::default();
    sizes.iter().for_each(|size| tensor.number(1, *size));
    tensor.number(2, 1);
    tensor.text(8, name);
    let elements = usize::try_from(sizes.iter().product::<u64>()).unwrap();
    let elements = (0..elements).map(|i| f32::from(u16::try_from((seed + i) % 997).unwrap()) / 997.0 - 0.5);
    let bytes: Vec<u8> = elements.flat_map(f32::to_le_bytes).collect();
    tensor.head(9, u64::try_from(bytes.len()).unwrap());
    tensor.0.extend(bytes);
    tensor
}
