//! A chain of convolutions or products, written piece by piece: this process must not hold the weights, since
//! its memory would count as that of its children.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use crate::message::Message;

const CHANNELS: u64 = 1024;
const KERNEL: u64 = 3;
/// Rows and columns of a product whose weight has as many elements.
const COLUMNS: u64 = CHANNELS * KERNEL;
/// The elements of one weight: 37.7 MB of float32.
const ELEMENTS: u64 = CHANNELS * CHANNELS * KERNEL * KERNEL;
/// The float32 elements that are repeated to fill a weight.
const BLOCK: u64 = 16 * 1024;

/// The location of the weights.
#[derive(Clone, Copy, PartialEq)]
pub enum Place {
    /// In the model's `raw_data`.
    Inside,
    /// In one external file.
    External,
}

/// The operator of the layers.
#[derive(Clone, Copy, PartialEq)]
pub enum Operator {
    /// Unchanged weights.
    Conv,
    /// Transposed weights.
    MatMul,
}

/// A model.
pub struct Model {
    /// The operator of the layers.
    pub operator: Operator,
    /// The number of layers.
    pub layers: u64,
    /// The location of the weights.
    pub place: Place,
}

impl Model {
    /// Returns the bytes of all weights.
    pub fn weight_bytes(&self) -> u64 {
        self.layers * ELEMENTS * 4
    }

    /// Writes the model into a folder, and returns its path and that of the file with the weights.
    pub fn write(&self, folder: &Path) -> (PathBuf, PathBuf) {
        let (path, data) = (folder.join("model.onnx"), folder.join("weights.data"));
        let mut small = Message::default();
        for layer in 0..self.layers {
            small.message(1, &self.node(layer));
        }
        small.text(2, "chain");
        small.message(11, &self.value("v0"));
        small.message(12, &self.value(&format!("v{}", self.layers)));
        let heads: Vec<Message> = (0..self.layers).map(|layer| self.weight_head(layer)).collect();
        let inside = if self.place == Place::Inside { ELEMENTS * 4 } else { 0 };
        let tensors: u64 = heads.iter().map(|head| framed(head.len() + inside)).sum();

        let mut model = Message::model();
        model.head(7, small.len() + tensors);

        let mut out = BufWriter::new(File::create(&path).unwrap());
        out.write_all(&model.0).unwrap();
        out.write_all(&small.0).unwrap();
        for head in &heads {
            let mut frame = Message::default();
            frame.head(5, head.len() + inside);
            out.write_all(&frame.0).unwrap();
            out.write_all(&head.0).unwrap();
            if self.place == Place::Inside {
                write_weight(&mut out);
            }
        }
        out.flush().unwrap();
        if self.place == Place::Inside {
            return (path.clone(), path);
        }
        let mut out = BufWriter::new(File::create(&data).unwrap());
        (0..self.layers).for_each(|_| write_weight(&mut out));
        out.flush().unwrap();
        (path, data)
    }

    /// A TensorProto without the elements, which come last.
    fn weight_head(&self, layer: u64) -> Message {
        let mut tensor = Message::default();
        let dims: &[u64] = match self.operator {
            Operator::Conv => &[CHANNELS, CHANNELS, KERNEL, KERNEL],
            Operator::MatMul => &[COLUMNS, COLUMNS],
        };
        dims.iter().for_each(|dim| tensor.number(1, *dim));
        tensor.number(2, 1);
        tensor.text(8, &format!("w{layer}"));
        match self.place {
            Place::Inside => tensor.head(9, ELEMENTS * 4),
            Place::External => {
                let (offset, length) = (layer * ELEMENTS * 4, ELEMENTS * 4);
                for (key, value) in [
                    ("location", "weights.data"),
                    ("offset", &offset.to_string()),
                    ("length", &length.to_string()),
                ] {
                    let mut entry = Message::default();
                    entry.text(1, key);
                    entry.text(2, value);
                    tensor.message(13, &entry);
                }
                tensor.number(14, 1);
            }
        }
        tensor
    }

    /// A NodeProto: a convolution with pads of 1, or a product.
    fn node(&self, layer: u64) -> Message {
        let mut node = Message::default();
        node.text(1, &format!("v{layer}"));
        node.text(1, &format!("w{layer}"));
        node.text(2, &format!("v{}", layer + 1));
        node.text(3, &format!("layer{layer}"));
        if self.operator == Operator::MatMul {
            node.text(4, "MatMul");
            return node;
        }
        node.text(4, "Conv");
        let mut pads = Message::default();
        pads.text(1, "pads");
        (0..4).for_each(|_| pads.number(8, 1));
        pads.number(20, 7);
        node.message(5, &pads);
        node
    }

    /// A ValueInfoProto: one image, or some rows, of float32.
    fn value(&self, name: &str) -> Message {
        let sizes: &[u64] = match self.operator {
            Operator::Conv => &[1, CHANNELS, 16, 16],
            Operator::MatMul => &[1, 16, COLUMNS],
        };
        Message::value(name, sizes)
    }
}

fn write_weight(out: &mut impl Write) {
    let mut state = 0x9e37_79b9_u32;
    let block: Vec<u8> = (0..BLOCK)
        .flat_map(|_| {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            // The bits of a number from 1 to 2, shifted to be around zero.
            (f32::from_bits(0x3f80_0000 | state >> 9) - 1.5).to_le_bytes()
        })
        .collect();
    for _ in 0..ELEMENTS / BLOCK {
        out.write_all(&block).unwrap();
    }
}

/// The length of an initializer of `len` bytes with its header.
fn framed(len: u64) -> u64 {
    let mut head = Message::default();
    head.head(5, len);
    head.len() + len
}
