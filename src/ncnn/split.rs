//! Insertion of Split layers, since each blob may have one reader.
//!
//! An extracted blob has no other reader, since the runtime releases a blob when a layer reads it
//! (`NetPrivate::do_forward_layer` in `net.cpp`).

use std::collections::{BTreeMap, BTreeSet};

use smallvec::smallvec;

use super::layer::Split;
use super::{Blob, BlobId, Net, NetLayer, Output, Provenance};
use crate::common::index::{Index, IndexMap};

impl Net {
    /// Gives each reader of a blob a separate copy. Outputs with the same blob and name are one reader.
    pub(crate) fn split(&mut self) {
        let mut readers: IndexMap<BlobId, u32> = IndexMap::default();
        let mut outputs: BTreeMap<BlobId, BTreeSet<&str>> = BTreeMap::new();
        for output in &self.outputs {
            outputs.entry(output.blob).or_default().insert(&output.name);
        }
        let bottoms = self.layers.iter().flat_map(|layer| &layer.bottoms).copied();
        let extracted = outputs.iter().flat_map(|(blob, names)| names.iter().map(|_| *blob));
        for blob in bottoms.chain(extracted) {
            let before = readers.get(blob).copied().unwrap_or(0);
            readers.insert(blob, before + 1);
        }
        // A blob takes the name of its only output, but an input keeps its name and is split.
        let inputs: BTreeSet<BlobId> = self.inputs.iter().copied().collect();
        let has_other_name = |blob: &BlobId| {
            inputs.contains(blob)
                && outputs.get(blob).is_some_and(|names| !names.contains(&*self.blob(*blob).name))
        };
        let renamed: BTreeSet<BlobId> = outputs.keys().copied().filter(has_other_name).collect();
        readers.retain(|blob, readers| *readers > 1 || renamed.contains(&blob));
        if readers.is_empty() {
            return;
        }

        // The next copy of each split blob.
        let mut copies: IndexMap<BlobId, BlobId> = IndexMap::default();
        let layers = Vec::with_capacity(self.layers.len() + readers.len());
        for mut layer in std::mem::replace(&mut self.layers, layers) {
            for bottom in &mut layer.bottoms {
                take_copy(&mut copies, bottom);
            }
            let tops = layer.tops.clone();
            self.layers.push(layer);
            for top in tops {
                if let Some(readers) = readers.get(top) {
                    let split = self.split_layer(top, *readers);
                    copies.extend(split.tops.first().map(|copy| (top, *copy)));
                    self.layers.push(split);
                }
            }
        }
        let mut of_outputs: BTreeMap<(BlobId, &str), BlobId> = BTreeMap::new();
        for Output { blob, name } in &mut self.outputs {
            *blob = *of_outputs.entry((*blob, name.as_str())).or_insert_with(|| {
                let mut copy = *blob;
                take_copy(&mut copies, &mut copy);
                copy
            });
        }
    }

    fn split_layer(&mut self, from: BlobId, readers: u32) -> NetLayer {
        let blob = self.blob(from).clone();
        let name = blob.name.clone();
        let copy =
            |index: u32| Blob { name: format!("{name}_splitncnn_{index}"), is_value: false, ..blob.clone() };
        NetLayer {
            name: format!("split_{name}"),
            layer: Split::default().into(),
            bottoms: smallvec![from],
            tops: (0..readers).map(|index| self.add_blob(copy(index))).collect(),
            float32: blob.float32,
            provenance: Provenance::default(),
        }
    }
}

/// Replaces a split blob by its next copy.
fn take_copy(copies: &mut IndexMap<BlobId, BlobId>, blob: &mut BlobId) {
    if let Some(next) = copies.get_mut(*blob) {
        *blob = *next;
        *next = BlobId::of(next.index() + 1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ready(mut net: Net) -> (Vec<String>, Vec<String>) {
        net.split();
        let renamed = net.name(&[], std::iter::empty()).unwrap().ends;
        net.check().unwrap();
        (net.wiring(), renamed.iter().map(|r| format!("{} {}", r.from, r.to)).collect())
    }

    #[test]
    fn each_reader_has_a_copy() {
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
    fn blob_read_twice_by_one_layer_has_two_copies() {
        let mut net = Net::default();
        let x = net.push_input("x", &[4]);
        let y = net.push("y", crate::ncnn::layer::BinaryOp::default(), &[x, x], &[4]);
        net.push_output("y", y);
        let wires = [" > x", "x > x_splitncnn_0 x_splitncnn_1", "x_splitncnn_0 x_splitncnn_1 > y"];
        assert_eq!(ready(net), (wires.map(String::from).to_vec(), vec![]));
    }

    #[test]
    fn blob_with_repeated_outputs_has_a_copy_per_name() {
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
    fn input_can_be_an_output() {
        let mut net = Net::default();
        let x = net.push_input("x", &[4]);
        net.push_output("y", x);
        assert_eq!(ready(net), (vec![" > x".into(), "x > y".into()], vec![]));

        // An output with the name of the input needs no copy if no layer reads it.
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
}
