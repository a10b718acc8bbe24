//! The conversion of a model, and the proof that the written net computes the same.

use std::collections::{BTreeMap, BTreeSet};

use onnx2ncnn::error::{Error, ErrorKind};
use onnx2ncnn::ncnn::Net;
use onnx2ncnn::{Conversion, Converter, Input, ModelBytes, State};

/// The most bytes of a model, and the most elements of all blobs of a net that is proved.
const MOST: (u64, i64) = (1 << 20, 1 << 18);
/// The size that is tried for free ones.
const SIZE: i64 = 7;
/// The most layers of a window that are printed.
const SHOWN: usize = 12;

/// What became of models.
#[derive(Clone, Debug, Default)]
pub struct Tally {
    pub converted: usize,
    /// Models with an error, by its kind.
    pub refused: BTreeMap<String, usize>,
    /// Conversions without a proof, by the reason.
    pub unproved: BTreeMap<String, usize>,
    /// Windows by their states.
    pub windows: BTreeMap<State, usize>,
    /// Why windows are not covered.
    pub open: BTreeMap<String, usize>,
}

impl Tally {
    pub fn add(&mut self, other: Tally) {
        self.converted += other.converted;
        sum(&mut self.refused, other.refused);
        sum(&mut self.unproved, other.unproved);
        sum(&mut self.windows, other.windows);
        sum(&mut self.open, other.open);
    }
}

fn sum<T: Ord>(all: &mut BTreeMap<T, usize>, more: BTreeMap<T, usize>) {
    more.into_iter().for_each(|(key, count)| *all.entry(key).or_default() += count);
}

/// Converts a model and proves the net; returns what is wrong.
pub fn judge(model: Vec<u8>, options: &str, tally: &mut Tally) -> Vec<String> {
    let Ok(converter) = Converter::new().max_size(MOST.0).check(true).with_json(options) else {
        return Vec::new();
    };
    let input = Input::Memory(ModelBytes::new(model));
    let conversion = match converter.convert(&input) {
        Ok(conversion) => conversion,
        Err(refusal) => {
            let kind = refusal.iter().map(|error| error.kind().to_string()).next().unwrap_or_default();
            *tally.refused.entry(kind).or_default() += 1;
            return refusal.iter().filter_map(internal).collect();
        }
    };
    tally.converted += 1;
    let (mut param, mut bin) = (Vec::new(), Vec::new());
    // Constants that are evaluated when they are written may be invalid.
    if let Err(error) = conversion.write_to(&mut param, &mut bin) {
        *tally.refused.entry(error.kind().to_string()).or_default() += 1;
        return internal(&error).into_iter().collect();
    }
    let net = match Net::read(&param, bin.into()) {
        Ok(net) => net,
        Err(errors) => return vec![format!("the net is not read: {errors:?}")],
    };
    if is_large(&conversion) {
        *tally.unproved.entry("it is too large".to_owned()).or_default() += 1;
        return Vec::new();
    }
    let proofs = match conversion.prove(&converter, &input, &net) {
        Ok(proofs) => proofs,
        Err(error) => {
            *tally.unproved.entry(error.to_string()).or_default() += 1;
            return internal(&error).into_iter().collect();
        }
    };
    let mut faults = BTreeSet::new();
    for window in proofs.into_iter().flat_map(|proof| proof.windows) {
        *tally.windows.entry(window.state).or_default() += 1;
        if window.state == State::NotCovered {
            *tally.open.entry(window.reason.clone()).or_default() += 1;
        }
        if window.state == State::Differs {
            let layers = net.layers.iter().filter(|layer| window.layers.contains(&layer.name));
            let layers: Vec<&str> = layers.map(|layer| layer.layer.type_name()).take(SHOWN).collect();
            let (nodes, layers) = (window.nodes.join(" "), layers.join(" "));
            faults.insert(format!("\"{}\" [{nodes}: {layers}] {}", window.value, window.reason));
        }
    }
    faults.into_iter().collect()
}

fn internal(error: &Error) -> Option<String> {
    (error.kind() == ErrorKind::Internal).then(|| format!("an internal error: {error:?}"))
}

fn is_large(conversion: &Conversion) -> bool {
    let net = conversion.net();
    let sizes = conversion.sizes_at(SIZE).unwrap_or_default();
    let blobs = net.blob_ids().map(|blob| {
        let sizes = net.blob(blob).shape.iter().map(|size| size.substitute(&sizes).known().unwrap_or(SIZE));
        sizes.fold(1, i64::saturating_mul)
    });
    blobs.fold(0, i64::saturating_add) > MOST.1
}
