//! A blob may be read once: a blob with several readers goes through a Split layer, an end for each.
//!
//! A blob that the user extracts has no other reader, since the runtime takes a blob away from the extractor when a layer reads it
//! (`NetPrivate::do_forward_layer` in `net.cpp`).

use std::collections::BTreeSet;

use smallvec::smallvec;

use super::layer::Split;
use super::{Blob, BlobId, BlobIds, MadeFor, Net, NetLayer};
use crate::numbered::{Map, Set};

/// A place that reads a blob.
enum Reader {
    Bottom { layer: usize, index: usize },
    Output(String),
}

impl Net {
    /// Gives each reader of a blob a blob of its own. Outputs that are the same blob under the same name are one reader.
    pub(crate) fn split(&mut self) {
        // Blobs with one reader are most of a net, and need no look at who it is.
        let mut read: Set<BlobId> = Set::default();
        let bottoms = self.layers.iter().flat_map(|layer| &layer.bottoms).copied();
        let outputs = self.outputs.iter().map(|output| output.blob);
        let several: Set<BlobId> = bottoms.filter(|blob| !read.insert(*blob)).chain(outputs).collect();
        let mut readers: Map<BlobId, Vec<Reader>> = Map::default();
        for (layer, net_layer) in self.layers.iter().enumerate() {
            for (index, bottom) in net_layer.bottoms.iter().enumerate() {
                if several.contains(*bottom) {
                    readers.push(*bottom, Reader::Bottom { layer, index });
                }
            }
        }
        let mut seen = BTreeSet::new();
        for output in &self.outputs {
            if seen.insert(output) {
                readers.push(output.blob, Reader::Output(output.name.clone()));
            }
        }
        readers.retain(|blob, readers| self.must_split(blob, readers));

        // Most blobs have none: each place is that of a pointer.
        let splits: Map<BlobId, Box<NetLayer>> =
            readers.iter().map(|(blob, readers)| (blob, Box::new(self.split_layer(blob, readers)))).collect();
        self.insert_behind_producers(splits);
    }

    fn insert_behind_producers(&mut self, mut splits: Map<BlobId, Box<NetLayer>>) {
        if splits.is_empty() {
            return;
        }
        let layers = Vec::with_capacity(self.layers.len() + splits.len());
        for layer in std::mem::replace(&mut self.layers, layers) {
            let tops = layer.tops.clone();
            self.layers.push(layer);
            self.layers.extend(tops.iter().filter_map(|top| splits.remove(*top)).map(|split| *split));
        }
    }

    fn must_split(&self, blob: BlobId, readers: &[Reader]) -> bool {
        match readers {
            [Reader::Bottom { .. }] => false,
            // The blob takes the name of the output, unless it carries that of an input.
            [Reader::Output(name)] => self.inputs.contains(&blob) && *name != self.blob(blob).name,
            _ => true,
        }
    }

    fn split_layer(&mut self, from: BlobId, readers: &[Reader]) -> NetLayer {
        let mut tops = BlobIds::with_capacity(readers.len());
        for (end, reader) in readers.iter().enumerate() {
            let blob = self.blob(from);
            let name = format!("{}_splitncnn_{end}", blob.name);
            let top = self.add_blob(Blob { name, shape: blob.shape.clone(), element: blob.element });
            tops.push(top);
            match reader {
                Reader::Bottom { layer, index } => {
                    let slot = self.layers.get_mut(*layer).and_then(|layer| layer.bottoms.get_mut(*index));
                    if let Some(bottom) = slot {
                        *bottom = top;
                    }
                }
                Reader::Output(name) => {
                    for output in &mut self.outputs {
                        if output.blob == from && output.name == *name {
                            output.blob = top;
                        }
                    }
                }
            }
        }
        let name = format!("split_{}", self.blob(from).name);
        NetLayer {
            name,
            layer: Split::default().into(),
            bottoms: smallvec![from],
            tops,
            made_for: MadeFor::default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ready(mut net: Net) -> (Vec<String>, Vec<String>) {
        net.split();
        let renamed = net.name(&[]).unwrap().ends;
        net.check().unwrap();
        (net.wiring(), renamed.iter().map(|r| format!("{} {}", r.from, r.to)).collect())
    }

    #[test]
    fn a_blob_with_one_reader_stays() {
        let mut net = Net::default();
        let x = net.push_input("x", &[4]);
        let a = net.push_abs("a", x);
        net.push_output("y", a);
        assert_eq!(ready(net), (vec![" > x".into(), "x > y".into()], vec![]));
    }

    #[test]
    fn each_reader_has_an_end() {
        let mut net = Net::default();
        let x = net.push_input("x", &[4]);
        let a = net.push_abs("a", x);
        let b = net.push_abs("b", a);
        let c = net.push_abs("c", a);
        net.push_output("a", a);
        net.push_output("b", b);
        net.push_output("c", c);
        let wires = [
            " > x",
            "x > a_1",
            "a_1 > a_splitncnn_0 a_splitncnn_1 a",
            "a_splitncnn_0 > b",
            "a_splitncnn_1 > c",
        ];
        assert_eq!(ready(net), (wires.map(String::from).to_vec(), vec![]));
    }

    #[test]
    fn a_blob_that_is_read_twice_by_one_layer_has_two_ends() {
        let mut net = Net::default();
        let x = net.push_input("x", &[4]);
        let y = net.push("y", crate::ncnn::layer::BinaryOp::default(), &[x, x], &[4]);
        net.push_output("y", y);
        let wires = [" > x", "x > x_splitncnn_0 x_splitncnn_1", "x_splitncnn_0 x_splitncnn_1 > y"];
        assert_eq!(ready(net), (wires.map(String::from).to_vec(), vec![]));
    }

    #[test]
    fn one_blob_can_be_two_outputs_and_one_output_twice() {
        let mut net = Net::default();
        let x = net.push_input("x", &[4]);
        let a = net.push_abs("a", x);
        for name in ["y", "z", "y"] {
            net.push_output(name, a);
        }
        let wires = [" > x", "x > a", "a > y z"];
        assert_eq!(ready(net), (wires.map(String::from).to_vec(), vec![]));
    }

    #[test]
    fn an_input_can_be_an_output() {
        let mut net = Net::default();
        let x = net.push_input("x", &[4]);
        net.push_output("y", x);
        assert_eq!(ready(net), (vec![" > x".into(), "x > y".into()], vec![]));

        // Under its own name it is what the user gave, as long as no layer takes it.
        let mut net = Net::default();
        let x = net.push_input("x", &[4]);
        net.push_output("x", x);
        assert_eq!(ready(net), (vec![" > x".into()], vec![]));

        let mut net = Net::default();
        let x = net.push_input("x", &[4]);
        let y = net.push_abs("y", x);
        net.push_output("x", x);
        net.push_output("y", y);
        let wires = [" > x", "x > x_splitncnn_0 x_1", "x_splitncnn_0 > y"];
        assert_eq!(ready(net), (wires.map(String::from).to_vec(), vec!["x x_1".into()]));
    }

    #[test]
    fn an_unused_input_stays() {
        let mut net = Net::default();
        net.push_input("unused", &[4]);
        let x = net.push_input("x", &[4]);
        let y = net.push_abs("y", x);
        net.push_output("y", y);
        assert_eq!(ready(net).0, [" > unused", " > x", "x > y"]);
    }
}
