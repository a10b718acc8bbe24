//! The proof that the files of a conversion compute its model.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Read as _;
use std::path::Path;

use bytes::Bytes;

use super::free_size::known_shape;
use super::{Conversion, Converter, Refusal};
use crate::Weights;
use crate::error::{Error, ErrorKind, Errors, Result};
use crate::graph::Graph;
use crate::lower::{AssumedFact, Assumption};
use crate::ncnn::{Net, Written};
use crate::onnx::{Input, Model};
use crate::pipeline::Port;
use crate::report::{ComparisonPart, Distance, Report};
use crate::tensor::Dim;
use crate::verify::{Assumed, Pair, Proof, State, Subject, WindowProof, prove};

/// The least free sizes of comparisons.
const SIZES: [i64; 3] = [1, 2, 7];

impl Conversion {
    /// Compares a net, as its files state it, with the model of this conversion, without its rounding if that
    /// was removed. Each part between blobs with names of values of the model is computed twice from the
    /// same elements. Neither a runtime nor a step of the conversion is used. Files may be damaged where it
    /// has no effect on these elements: so the weights are those of this conversion, too, unless the net has
    /// other layers. With free sizes there is a proof for each of the smallest ones from 1, 2 and 7 on for
    /// which the net is valid.
    ///
    /// # Errors
    ///
    /// `Usage` if no sizes are found for which the net is valid; `Io` if the model cannot be read again.
    pub fn prove(&self, converter: &Converter, input: &Input, net: &Net) -> Result<Vec<Proof>> {
        let mut proofs = self.prove_windows(converter, input, net)?;
        if let Some(first) = proofs.first_mut() {
            first.add(self.net().deviations(net)?);
        }
        Ok(proofs)
    }

    /// Compares a net like [`Conversion::prove`], without the weights of this conversion.
    fn prove_windows(&self, converter: &Converter, input: &Input, net: &Net) -> Result<Vec<Proof>> {
        self.sources.check_unchanged()?;
        let model = self.proved_model(converter, input)?;
        let ignored = self.unread_inputs();
        let mut assumed = BTreeMap::new();
        for Assumption { value, fact, .. } in &self.assumptions {
            match fact {
                AssumedFact::WholeExponent => drop(assumed.insert(value.clone(), Assumed::Whole)),
                AssumedFact::NotTiny => drop(assumed.insert(value.clone(), Assumed::NotTiny)),
                AssumedFact::ExactInteger => drop(assumed.entry(value.clone()).or_insert(Assumed::Exact)),
                _ => {}
            }
        }
        let mut tried: BTreeSet<BTreeMap<String, Dim>> = BTreeSet::new();
        let mut proofs = Vec::new();
        for size in SIZES {
            let missing = || Error::usage("no sizes are found for which the net is valid");
            let sizes = self.sizes_at(size).ok_or_else(missing)?;
            if tried.insert(sizes.clone()) {
                let (pairs, shapes) = (self.pairs(&sizes)?, self.input_shapes(&sizes)?);
                let lengths = self.further_lengths(&model.graph, &sizes)?;
                let drops_rounding = self.options.int8;
                let subject = Subject {
                    model: &model,
                    net,
                    pairs,
                    lengths,
                    ignored: &ignored,
                    drops_rounding,
                    assumed: &assumed,
                    shapes,
                };
                proofs.push(prove(&subject)?);
            }
        }
        Ok(proofs)
    }

    /// Returns the model with which the net is compared: as it was read, or without its rounding.
    fn proved_model(&self, converter: &Converter, input: &Input) -> Result<Model> {
        if !self.options.dequantize {
            return Ok(converter.exposed(input, &BTreeSet::new())?.model);
        }
        let refused =
            |refusal: Refusal| Error::internal(format!("a second conversion is refused: {refusal}"));
        let float =
            converter.clone().weights(Weights::Float).keep_onnx(true).convert(input).map_err(refused)?;
        float.simplified.ok_or_else(|| Error::internal("the model without its rounding is not kept"))
    }

    /// Writes the files like [`Conversion::write`], after they have been read back and compared as by
    /// [`Conversion::prove`]. If a part differs, no file is written.
    ///
    /// # Errors
    ///
    /// Those of both; `Mismatch` if a part differs, `Usage` if no part could be compared.
    pub fn write_proved(
        &self,
        converter: &Converter,
        input: &Input,
        (param, bin): (&Path, &Path),
    ) -> Result<(Written, Vec<Proof>)> {
        let mut proofs = Vec::new();
        let staged = self.stage(param, bin, None, |files| {
            let content = |path: &Path| -> Result<Vec<u8>> {
                let staged = files.iter().find(|(target, _)| target.named() == path);
                let (_, whole) = staged.ok_or_else(|| Error::internal("a file is missing"))?;
                let mut bytes = Vec::new();
                let failed = |error| Error::io("the new file cannot be read", error).in_file(path);
                whole.open()?.read_to_end(&mut bytes).map_err(failed)?;
                Ok(bytes)
            };
            let unread = |errors: Errors| Error::internal(format!("the new files cannot be read: {errors}"));
            let net = self.read_net(&content(param)?, content(bin)?.into()).map_err(unread)?;
            // The weights are those of this conversion: it has just written them.
            proofs = Proof::compared(self.prove_windows(converter, input, &net)?)?;
            if let Some(first) = Proof::first_difference(&proofs) {
                let message = format!("{}: \"{}\": {}", Proof::verdict(&proofs), first.value, first.reason);
                let help = "this is a fault of the converter; please report it";
                return Err(Error::new(ErrorKind::Mismatch, message).help(help));
            }
            Ok(Some(self.comparison(&proofs)))
        })?;
        Ok((self.move_staged(staged)?, proofs))
    }

    /// Reads a net that this conversion wrote, with the layers of the user that it has.
    ///
    /// # Errors
    ///
    /// As [`Net::read`].
    pub fn read_net(&self, param: &[u8], bin: Bytes) -> std::result::Result<Net, Errors> {
        self.net().read_like(param, bin)
    }

    /// Returns the report of the written files with the result of [`Conversion::prove`] for each blob: the
    /// least that is known of it, and the largest error.
    ///
    /// # Errors
    ///
    /// The files of the net cannot be computed, or the model cannot be read again.
    pub fn proved_report(&self, proofs: &[Proof]) -> Result<Report> {
        Ok(self.report(self.written()?)?.with_comparison(self.comparison(proofs)))
    }

    fn comparison(&self, proofs: &[Proof]) -> ComparisonPart {
        let is_output = |window: &WindowProof| self.outputs.iter().any(|port| port.name == window.value);
        let (mut outputs, mut layers) = (Vec::new(), Vec::new());
        let first = proofs.first().map(|proof| proof.windows.as_slice()).unwrap_or_default();
        for (index, window) in first.iter().enumerate() {
            let all = proofs.iter().filter_map(|proof| proof.windows.get(index));
            let worst = all.clone().min_by_key(|window| window.state).unwrap_or(window);
            let error = all.filter_map(|window| window.error).max_by(f64::total_cmp);
            let distance = Distance {
                name: window.value.clone(),
                blob: Some(window.blob.clone()),
                same: worst.state != State::Differs,
                relative: error.filter(|error| error.is_finite()),
                why: worst.reason.clone(),
                note: worst.state.to_string(),
                ..Distance::default()
            };
            if is_output(window) { &mut outputs } else { &mut layers }.push(distance);
        }
        ComparisonPart { outputs, layers, seconds: None, verdict: Some(Proof::verdict(proofs)) }
    }

    /// Returns the values that are blobs, with the sizes of the blobs for these values of the free sizes.
    fn pairs(&self, sizes: &BTreeMap<String, Dim>) -> Result<Vec<Pair>> {
        // Blobs that passes removed may have the names of others.
        let tops = self.net.layers.iter().flat_map(|layer| &layer.tops).map(|top| self.net.blob(*top));
        let forms: BTreeMap<&str, &[Dim]> = tops.map(|blob| (blob.name.as_str(), &*blob.shape)).collect();
        let inputs = self.inputs.iter().map(|port| (port.name.as_str(), port.blob.as_str(), false));
        let outputs = self.outputs.iter().map(|port| (port.name.as_str(), port.blob.as_str(), true));
        let inner = self.inner_blobs();
        let inner = inner.iter().map(|inner| (inner.value.as_str(), inner.blob.as_str(), false));
        let pair = |(value, blob, is_output): (&str, &str, bool)| {
            let (mut form, order) =
                (forms.get(blob).copied().unwrap_or_default().to_vec(), self.order_of(value));
            if let (Some(order), Some(port)) = (order, self.cache(value)) {
                form = order.iter().filter_map(|axis| port.shape.get(axis + 1)).cloned().collect();
            }
            let sizes = known_shape(&form, sizes)?;
            Ok(Pair { value: value.to_owned(), blob: blob.to_owned(), sizes, order, is_output })
        };
        inputs.chain(outputs).chain(inner).map(pair).collect()
    }

    /// Returns the input or output of a name if it is a cache of the runtime.
    fn cache(&self, name: &str) -> Option<&Port> {
        let mut ports = self.inputs.iter().chain(&self.outputs);
        ports.find(|port| port.name == name && port.cache.is_some())
    }

    /// Returns the axes of a cache, behind the batch, in the order of the runtime: the axis along which it
    /// grows is the second one. `None` if they are so in the model.
    fn order_of(&self, name: &str) -> Option<[usize; 3]> {
        let cache = self.cache(name)?;
        let other = self.cache(cache.cache.as_deref()?)?;
        let grown = cache.shape.iter().zip(&other.shape).position(|(a, b)| a != b)?.checked_sub(1)?;
        let rest: Vec<usize> = (0..3).filter(|axis| *axis != grown).collect();
        let [first, last] = <[usize; 2]>::try_from(rest).ok()?;
        Some([first, grown, last]).filter(|order| *order != [0, 1, 2])
    }

    /// Returns the blobs of inputs that the model has not, with their sizes: the length of the caches.
    fn further_lengths(
        &self,
        graph: &Graph,
        sizes: &BTreeMap<String, Dim>,
    ) -> Result<Vec<(String, Vec<usize>)>> {
        let inputs: BTreeSet<&str> =
            graph.inputs.iter().map(|input| graph.value(*input).name.as_str()).collect();
        let others = self.inputs.iter().filter(|port| !inputs.contains(port.name.as_str()));
        others.map(|port| Ok((port.blob.clone(), known_shape(&port.shape, sizes)?))).collect()
    }
}
