//! What computes in float32 on processors that compute in float16, chosen by samples.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use onnx2ncnn::error::{Error, ErrorKind};
use onnx2ncnn::report::Distance;
use onnx2ncnn::{Conversion, Converter, Input, OptionValue, Refusal, Storage, Weights};

use super::arguments::{Arguments, HalfPrecision};
use super::location::{input, temporary_folder, write_net};
use super::python::{Choice, Comparison, INT8_COSINE, NetRequest};
use super::sampled::Sampled;
use super::terminal::{STRONG, labelled, printable};
use crate::common::count::count;

/// The error in half precision for which a choice is made, unless weights are rounded by the samples.
const HALF_ERROR: f64 = 0.01;

/// The modes of all layers, of which one of less time is before the others. All but the first are options.
pub const HALF_MODES: [&str; 3] = ["default", "careful", "precise"];

impl HalfPrecision {
    /// Returns what is chosen for a model, if there are samples.
    pub fn choose(
        &self,
        arguments: &Arguments,
        sampled: &Sampled,
        model: &Input,
    ) -> Result<Option<Choice>, Refusal> {
        let default = (!arguments.choices.weights.rounds()).then_some(HALF_ERROR);
        let (Some(_), Some(half_error)) = (&self.data, self.half_error.or(default)) else {
            return Ok(None);
        };
        let converter = sampled.converter()?;
        let mut conversion = converter.convert(model)?;
        let mut measured = conversion.half_blobs()?;
        if arguments.choices.weights != Weights::Float {
            // The runtime computes products with integers in float32, many times slower than those with
            // floats.
            let sums: BTreeMap<_, _> = measured.iter().map(|blob| (blob.name.clone(), blob.terms)).collect();
            conversion = converter.weights(Weights::Float).convert(model)?;
            measured = conversion.half_blobs()?;
            for blob in &mut measured {
                blob.terms = sums.get(&blob.name).map_or(blob.terms, |terms| blob.terms.min(*terms));
            }
        }
        let request = move |request: NetRequest| -> Result<NetRequest, Error> {
            Ok(NetRequest {
                measured,
                half_error: Some(half_error),
                modes: HALF_MODES.iter().skip(requested_mode(arguments)).copied().collect(),
                ..request
            })
        };
        let comparison = compare(&conversion, arguments, sampled, request)?;
        let differs = |output: &&Distance| !output.same && output.note.is_empty();
        if let Some(output) = comparison.outputs.iter().find(differs) {
            let message = format!("the output \"{}\" differs in float32: {}", output.name, output.describe());
            return Err(Error::new(ErrorKind::Mismatch, message).into());
        }
        Ok(comparison.choice)
    }
}

impl Choice {
    /// Sets the chosen options.
    pub fn apply(&self, converter: Converter) -> Result<Converter, Error> {
        let converter = match self.option(0) {
            Some(option) => converter.with(option, OptionValue::Flag(true))?,
            None => converter,
        };
        Ok(converter.float32(&self.float32))
    }

    /// Returns what is chosen, with its error: that of a run in float16 if this machine has it.
    pub fn describe(
        &self,
        conversion: &Conversion,
        arguments: &Arguments,
        sampled: &Sampled,
    ) -> Result<String, Error> {
        let half = |vulkan: bool| {
            let request = |request: NetRequest| Ok(NetRequest { fp16: true, vulkan, ..request });
            compare(conversion, arguments, sampled, request).ok().and_then(|comparison| largest(&comparison))
        };
        let measured = half(false).map(|error| (error, "on this processor"));
        let measured = measured.or_else(|| Some((half(true)?, "on this GPU")));
        let mut text = String::new();
        let options = self.options(requested_mode(arguments));
        let error = match measured {
            Some((error, processor)) => {
                format!("{error:.2e} measured {processor}, {:.2e} predicted", self.error)
            }
            None => format!("{:.2e} predicted", self.error),
        };
        let samples = count(self.samples, "sample");
        let without = match options.is_empty() {
            true => String::new(),
            false => format!(", {:.2e} without {options}", self.default),
        };
        labelled(&mut text, STRONG, "error in float16", &format!("{error}{without}, on {samples}"));
        Ok(text)
    }

    /// Returns the option of the mode, if it comes after the requested one.
    fn option(&self, requested: usize) -> Option<&'static str> {
        HALF_MODES.into_iter().skip(requested + 1).find(|mode| *mode == self.mode)
    }

    /// Returns the options that choose the same, after the requested mode.
    fn options(&self, requested: usize) -> String {
        let mut text = String::new();
        if let Some(option) = self.option(requested) {
            let _ = write!(text, "--{option}");
        }
        if !self.float32.is_empty() {
            let space = if text.is_empty() { "" } else { " " };
            let _ = write!(text, "{space}--float32 \"{}\"", printable(&self.float32.join(",")));
        }
        text
    }
}

/// Returns the index of the mode that the user requests.
fn requested_mode(arguments: &Arguments) -> usize {
    match (arguments.choices.careful, arguments.choices.precise) {
        (_, true) => 2,
        (true, _) => 1,
        _ => 0,
    }
}

/// Returns the largest error of an output, relative to its largest magnitude.
fn largest(comparison: &Comparison) -> Option<f64> {
    let errors = comparison.outputs.iter().map(|output| output.relative);
    errors.collect::<Option<Vec<_>>>()?.into_iter().reduce(f64::max)
}

/// Compares a net with its model on the samples; the request is changed before.
fn compare(
    conversion: &Conversion,
    arguments: &Arguments,
    sampled: &Sampled,
    change: impl FnOnce(NetRequest) -> Result<NetRequest, Error>,
) -> Result<Comparison, Refusal> {
    let mut model = sampled.path()?.to_owned();
    let room = temporary_folder()?;
    let (param, bin) = (room.path().join("net.param"), room.path().join("net.bin"));
    write_net(conversion, &param, &bin)?;
    if !sampled.is_plain() || !arguments.choices.has_plain_pixels() {
        model = room.path().join("model.onnx");
        let exposed = arguments
            .choices
            .apply(arguments.source.converter()?)?
            .expose(&input(&arguments.model)?, &BTreeSet::new())?;
        exposed.write(&model, &Storage::AsNeeded)?;
    }
    let request = NetRequest::new(conversion, model, param, bin)?;
    let cosine = arguments.choices.weights.rounds().then_some(INT8_COSINE);
    let request = NetRequest { data: arguments.half.data.clone(), sampled: true, cosine, ..request };
    Ok(change(request)?.ask(&arguments.half.python)?)
}
