//! Several nets over one `.bin` file.
//!
//! The runtime reads the weights of a net in the order of its layers. So nets can share a file if each of
//! them reads all of it: weights that a net lacks are a constant blob of it that nothing needs. The blob
//! takes memory, so nets that differ in many weights are refused.

use std::collections::BTreeSet;
use std::io::{self, Write};

use sha1::{Digest, Sha1};
use similar::{Algorithm, DiffOp, capture_diff_slices};

use super::layer::{MemoryData, Noop};
use super::{Blob, BlobIds, Element, Layer, Net, NetLayer, Provenance};
use crate::error::{Error, Result};
use crate::tensor::{DType, Dim, Tensor};

/// A net may skip at most its own weights divided by this.
const LEAST_SHARED: u64 = 10;

/// The bytes that any net may skip.
const FEW: u64 = 1 << 16;

/// The weights of a layer in the shared file.
struct Record {
    digest: [u8; 20],
    bytes: u64,
    /// The index of the layer in each net that has these weights.
    layers: Vec<Option<usize>>,
}

impl Record {
    /// Returns the index of the layer with these weights in a net, if it has one.
    fn layer(&self, net: usize) -> Option<usize> {
        self.layers.get(net).copied().flatten()
    }

    /// Returns the first net that has these weights, and the layer.
    fn owner<'n>(&self, nets: &'n [(&str, &mut Net)]) -> Option<(&'n str, &'n Net, &'n NetLayer)> {
        self.layers
            .iter()
            .zip(nets)
            .find_map(|(layer, (name, net))| Some((*name, &**net, net.layers.get((*layer)?)?)))
    }
}

/// Adds constant blobs to checked nets, so that they have the same `.bin` file. The names are for errors.
/// Returns the bytes of other nets that each net loads.
///
/// # Errors
///
/// `Unsupported` if a net would skip a large part of the file.
pub(crate) fn share(nets: &mut [(&str, &mut Net)]) -> Result<Vec<u64>> {
    let mut file: Vec<Record> = Vec::new();
    for (index, (_, net)) in nets.iter().enumerate() {
        file = merged(file, net.records(index)?);
        file.iter_mut().for_each(|record| record.layers.resize(index + 1, None));
    }
    let all: u64 = file.iter().map(|record| record.bytes).sum();
    let mut others = Vec::with_capacity(nets.len());
    for (index, (name, _)) in nets.iter().enumerate() {
        let needed = file.iter().filter(|record| record.layer(index).is_some());
        let needed: u64 = needed.map(|record| record.bytes).sum();
        let skipped = all - needed;
        if skipped > FEW.max(needed / LEAST_SHARED) {
            return Err(refusal(nets, &file, name, index, skipped));
        }
        others.push(skipped);
    }
    let mut gaps = Vec::with_capacity(nets.len());
    for index in 0..nets.len() {
        gaps.push(gaps_of(nets, &file, index)?);
    }
    for ((_, net), gaps) in nets.iter_mut().zip(gaps) {
        net.skip(gaps)?;
    }
    Ok(others)
}

/// Merges the records of a net into the records of earlier nets, in an order that contains both orders.
fn merged(file: Vec<Record>, net: Vec<Record>) -> Vec<Record> {
    let digests = |records: &[Record]| records.iter().map(|record| record.digest).collect::<Vec<_>>();
    let steps = capture_diff_slices(Algorithm::Myers, &digests(&file), &digests(&net));
    let (mut file, mut net) = (file.into_iter(), net.into_iter());
    let mut all = Vec::new();
    for step in steps {
        let (of_file, of_net) = match step {
            DiffOp::Equal { len, .. } => {
                all.extend(file.by_ref().zip(net.by_ref()).take(len).map(|(mut record, other)| {
                    record.layers.extend(other.layers.last());
                    record
                }));
                continue;
            }
            DiffOp::Delete { old_len, .. } => (old_len, 0),
            DiffOp::Insert { new_len, .. } => (0, new_len),
            DiffOp::Replace { old_len, new_len, .. } => (old_len, new_len),
        };
        all.extend(file.by_ref().take(of_file));
        all.extend(net.by_ref().take(of_net));
    }
    all
}

/// Returns the error of a net that would skip much, with the largest layer that it lacks.
fn refusal(nets: &[(&str, &mut Net)], file: &[Record], name: &str, index: usize, skipped: u64) -> Error {
    let lacking = file.iter().filter(|record| record.layer(index).is_none());
    let largest = lacking.max_by_key(|record| record.bytes).and_then(|record| record.owner(nets));
    let reason = largest.map_or_else(String::new, |(other, _, layer)| {
        format!(", {} \"{}\" of \"{other}\" among them", layer.layer.type_name(), layer.name)
    });
    let message = format!("\"{name}\" lacks {skipped} bytes of weights that others have{reason}");
    Error::unsupported(message).help("nets that share few weights are written one by one")
}

/// Returns the weights that a net lacks, each run of them with the index of the layer that it precedes.
fn gaps_of(nets: &[(&str, &mut Net)], file: &[Record], index: usize) -> Result<Vec<(usize, Vec<u8>)>> {
    let (mut gaps, mut bytes) = (Vec::new(), Vec::new());
    for record in file {
        match record.layer(index) {
            Some(_) if bytes.is_empty() => {}
            Some(layer) => gaps.push((layer, std::mem::take(&mut bytes))),
            None => {
                let owner = record.owner(nets);
                let (_, net, layer) = owner.ok_or_else(|| Error::internal("weights of no net"))?;
                net.write_weights(layer, &mut bytes)?;
            }
        }
    }
    if !bytes.is_empty() {
        let end = nets.get(index).map_or(0, |(_, net)| net.layers.len());
        gaps.push((end, bytes));
    }
    Ok(gaps)
}

impl Net {
    /// Returns the weights of each layer that has some, for the net of an index.
    fn records(&self, net: usize) -> Result<Vec<Record>> {
        let mut records = Vec::new();
        for (index, layer) in self.layers.iter().enumerate() {
            let mut written = Hashed::default();
            self.write_weights(layer, &mut written)?;
            if written.bytes > 0 {
                let mut layers = vec![None; net];
                layers.push(Some(index));
                records.push(Record { digest: written.sha1.finalize().into(), bytes: written.bytes, layers });
            }
        }
        Ok(records)
    }

    /// Adds constant blobs with these bytes before the layers of these indices, which ascend. Nothing
    /// computes with them.
    fn skip(&mut self, gaps: Vec<(usize, Vec<u8>)>) -> Result<()> {
        let blobs = self.blob_ids().map(|id| self.blob(id).name.clone());
        let mut names: BTreeSet<String> = self.layers.iter().map(|layer| layer.name.clone()).collect();
        names.extend(blobs);
        let mut layers = std::mem::take(&mut self.layers).into_iter();
        let mut kept = 0;
        for (number, (before, bytes)) in gaps.into_iter().enumerate() {
            self.layers.extend(layers.by_ref().take(before - kept));
            kept = before;
            let mut name = format!("skipped_{number}");
            while names.contains(&name) {
                name.push('_');
            }
            let elements = bytes.len() / size_of::<f32>();
            let blob = self.add_blob(Blob {
                name: name.clone(),
                is_value: false,
                shape: [Dim::from(elements)].into_iter().collect(),
                element: Element::F32,
                batch: 1,
                float32: false,
            });
            let data = Some(Tensor::from_raw(DType::F32, vec![elements], bytes.into())?);
            let memory = MemoryData { w: i32::try_from(elements)?, data, ..MemoryData::default() };
            let mut push = |name: String, layer: Layer, bottoms: BlobIds, tops: BlobIds| {
                let provenance = Provenance::default();
                self.layers.push(NetLayer { name, layer, bottoms, tops, float32: false, provenance });
            };
            let top: BlobIds = [blob].into_iter().collect();
            push(name.clone(), memory.into(), BlobIds::new(), top.clone());
            // The runtime takes a blob that no layer reads for an output.
            push(format!("{name}_end"), Noop::default().into(), top, BlobIds::new());
        }
        self.layers.extend(layers);
        Ok(())
    }
}

/// A writer that keeps only a digest.
#[derive(Default)]
struct Hashed {
    sha1: Sha1,
    bytes: u64,
}

impl Write for Hashed {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.sha1.update(bytes);
        self.bytes += u64::try_from(bytes.len()).map_err(io::Error::other)?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
