//! The binary form of the `.param` file, with indices instead of names (`Net::load_param_bin`,
//! `ParamDict::load_param_bin`).

use std::collections::BTreeMap;

use super::layer::Param;
use super::text::{ARRAY, MAGIC};
use super::{BlobId, Net, NetLayer};
use crate::error::{Error, Result};

/// The id of a string param is written as this minus the id.
pub(super) const TEXT: i32 = -23400;

/// The end of the params of a layer.
pub(super) const END: i32 = -233;

impl Net {
    /// Returns the blobs in the order in which they are written.
    pub(super) fn tops(&self) -> impl Iterator<Item = BlobId> + '_ {
        self.layers.iter().flat_map(|layer| layer.tops.iter().copied())
    }

    /// Returns the binary form of the `.param` file.
    pub(super) fn binary_param(&self) -> Result<Vec<u8>> {
        let indices: BTreeMap<BlobId, i32> = self.tops().zip(0..).collect();
        let (layers, blobs) = self.counts();
        let hints = self.has_shape_hints();
        let mut words = Words::default();
        words.int(i32::try_from(MAGIC)?);
        words.int(i32::try_from(layers)?);
        words.int(i32::try_from(blobs)?);
        for layer in &self.layers {
            self.add_layer(&mut words, layer, &indices, hints)?;
        }
        Ok(words.0)
    }

    fn add_layer(
        &self,
        words: &mut Words,
        layer: &NetLayer,
        indices: &BTreeMap<BlobId, i32>,
        hints: bool,
    ) -> Result<()> {
        words.int(layer.layer.facts().index());
        words.int(i32::try_from(layer.bottoms.len())?);
        words.int(i32::try_from(layer.tops.len())?);
        for blob in layer.bottoms.iter().chain(&layer.tops) {
            let missing = || Error::internal("a blob that no layer computes");
            words.int(*indices.get(blob).ok_or_else(missing)?);
        }
        for (id, param) in self.params(layer, hints) {
            words.param(id, &param)?;
        }
        words.int(END);
        Ok(())
    }
}

/// Little-endian words of four bytes.
#[derive(Default)]
struct Words(Vec<u8>);

impl Words {
    fn int(&mut self, value: i32) {
        self.0.extend(value.to_le_bytes());
    }

    fn float(&mut self, value: f32) {
        self.0.extend(value.to_le_bytes());
    }

    fn head(&mut self, id: i32, len: usize) -> Result<()> {
        self.int(id);
        self.int(i32::try_from(len)?);
        Ok(())
    }

    fn param(&mut self, id: i32, param: &Param) -> Result<()> {
        match param {
            Param::Int(value) => {
                self.int(id);
                self.int(*value);
            }
            Param::Float(value) => {
                self.int(id);
                self.float(*value);
            }
            Param::Ints(values) => {
                self.head(ARRAY - id, values.len())?;
                values.iter().for_each(|value| self.int(*value));
            }
            Param::Floats(values) => {
                self.head(ARRAY - id, values.len())?;
                values.iter().for_each(|value| self.float(*value));
            }
            Param::Text(text) => {
                self.head(TEXT - id, text.len())?;
                self.0.extend(text.as_bytes());
                self.0.resize(self.0.len().next_multiple_of(4), 0);
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ncnn::layer::{Softmax, Split};

    #[test]
    fn params_follow_their_ids() {
        for (id, param, expected) in [
            (2, Param::Int(-233), vec![2, -233]),
            (3, Param::Float(1.5), vec![3, 0x3fc0_0000]),
            (4, Param::Ints(vec![7, -1]), vec![-23304, 2, 7, -1]),
            (10, Param::Floats(vec![-2.0]), vec![-23310, 1, i32::from_le_bytes((-2.0_f32).to_le_bytes())]),
            (6, Param::Text("0w,1h".into()), vec![-23406, 5, 0x312c_7730, 0x68]),
            (0, Param::Ints(Vec::new()), vec![-23300, 0]),
        ] {
            let mut words = Words::default();
            words.param(id, &param).unwrap();
            let expected: Vec<u8> = expected.iter().flat_map(|word: &i32| word.to_le_bytes()).collect();
            assert_eq!(words.0, expected, "{param:?}");
        }
    }

    #[test]
    fn blobs_are_indexed_in_file_order() {
        let mut net = Net::default();
        let x = net.push_input("x", &[4]);
        let first = net.push("first", Softmax { axis: 0, fixbug0: 1 }, &[x], &[4]);
        let split = net.push("split", Split::default(), &[first], &[4]);
        net.push_output("y", split);
        let words: Vec<i32> = net
            .binary_param()
            .unwrap()
            .chunks(4)
            .map(|word| i32::from_le_bytes(word.try_into().unwrap()))
            .collect();
        let hints = [-23330, 4, 1, 4, 1, 1, END];
        let expected = [
            &[7_767_517, 3, 3, 16, 0, 1, 0][..],
            &hints,
            &[32, 1, 1, 0, 1, 1, 1],
            &hints,
            &[33, 1, 1, 1, 2],
            &hints,
        ];
        assert_eq!(words, expected.concat());
    }
}
