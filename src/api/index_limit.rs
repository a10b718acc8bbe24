//! The number of rows of the tables that the elements of an input select.

use std::collections::BTreeMap;

use super::Conversion;
use crate::ncnn::{BlobId, Layer};

impl Conversion {
    /// Returns the inputs whose elements select rows of tables, with the number of rows of the smallest. The
    /// runtime reads the last row for each index beyond it, where onnxruntime returns an error.
    pub fn index_limits(&self) -> BTreeMap<String, i64> {
        let mut inputs: BTreeMap<BlobId, &str> = BTreeMap::new();
        for id in &self.net.inputs {
            let blob = self.net.blob(*id).name.as_str();
            if let Some(port) = self.inputs.iter().find(|port| port.blob == blob) {
                inputs.insert(*id, &port.name);
            }
        }
        let mut limits = BTreeMap::new();
        for layer in &self.net.layers {
            let Some(name) = layer.bottoms.first().and_then(|bottom| inputs.get(bottom)).copied() else {
                continue;
            };
            match &layer.layer {
                Layer::Embed(embed) => {
                    let rows = i64::from(embed.input_dim);
                    limits
                        .entry(name.to_owned())
                        .and_modify(|least: &mut i64| *least = rows.min(*least))
                        .or_insert(rows);
                }
                // All elements, in another shape.
                Layer::Split(_)
                | Layer::Reshape(_)
                | Layer::Noop(_)
                | Layer::Flatten(_)
                | Layer::Permute(_) => {
                    inputs.extend(layer.tops.iter().map(|top| (*top, name)));
                }
                _ => {}
            }
        }
        limits
    }
}
