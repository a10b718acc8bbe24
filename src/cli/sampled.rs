//! The model of a conversion with samples, by which its weights may be rounded first.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use onnx2ncnn::error::{Error, Result};
use onnx2ncnn::{Converter, Input, Refusal, Weights};
use tempfile::TempDir;

use super::arguments::Arguments;
use super::location::{path_to_read_again, temporary_folder};
use super::python::{Round, Rounded};
use super::terminal::{STRONG, labelled, printable};
use crate::common::count::count;

/// The ways of rounding.
const BY_SAMPLES: &str = "by samples";
const PLAIN: &str = "to the nearest integers";

/// The model to convert: the model itself, or its copy with rounded weights.
pub(super) struct Sampled<'a> {
    model: &'a Path,
    rounded: Option<(PathBuf, Rounded, TempDir)>,
    arguments: &'a Arguments,
}

impl<'a> Sampled<'a> {
    /// Rounds the weights of a model, if there are samples and the options ask for integers.
    pub fn of(arguments: &'a Arguments, model: &Input) -> std::result::Result<Sampled<'a>, Refusal> {
        let plain = Sampled { model: &arguments.model, rounded: None, arguments };
        let max_loss = arguments.half.max_loss;
        if max_loss.is_some() && !matches!(arguments.choices.weights, Weights::Int4 | Weights::Int6) {
            return Err(Error::usage("--max-loss is for --weights int4 and int6").into());
        }
        let (Some(data), Some(bits)) = (&arguments.half.data, arguments.choices.weights.bits()) else {
            return Ok(plain);
        };
        if !arguments.choices.has_plain_pixels() {
            let message = "with samples, the weights of a model whose input is pixels are not rounded";
            return Err(Error::usage(message)
                .help("omit --data, or --scale, --mean, --norm, --bgr and --chw")
                .into());
        }
        let room = temporary_folder()?;
        let (float, rounded) = (room.path().join("float.onnx"), room.path().join("rounded.onnx"));
        arguments.source.write_simplified(model, &float)?;
        let sizes = Weights::SIZES.into();
        let request =
            Round { model: float, data: data.clone(), bits, sizes, max_loss, rounded: rounded.clone() };
        let done = request.ask(&arguments.half.python)?;
        Ok(Sampled { rounded: Some((rounded, done, room)), ..plain })
    }

    /// Returns the path of the model.
    pub fn path(&self) -> Result<&Path> {
        match &self.rounded {
            Some((path, ..)) => Ok(path),
            None => path_to_read_again(self.model),
        }
    }

    /// Returns the model to read, if it is a copy.
    pub fn input(&self) -> Option<Input> {
        self.rounded.as_ref().map(|(path, ..)| Input::Path(path.clone()))
    }

    /// Returns the converter of the model.
    pub fn converter(&self) -> Result<Converter> {
        let Arguments { choices, source, half, .. } = self.arguments;
        let converter = match self.rounded {
            Some(_) => source.converter_of_simplified(),
            None => source.converter()?,
        };
        let converter = choices.apply(converter)?;
        // Matrices that are not in blocks stay in float.
        Ok(if half.max_loss.is_some() { converter.weights(Weights::Keep) } else { converter })
    }

    /// Returns whether the model is read without changes.
    pub fn is_plain(&self) -> bool {
        self.rounded.is_some() || self.arguments.source.is_plain()
    }

    /// Returns the warnings of rounding.
    pub fn warnings(&self) -> &[String] {
        self.rounded.as_ref().map_or(&[], |(_, rounded, _)| &rounded.warnings)
    }

    /// Returns the errors of rounding.
    pub fn describe(&self) -> String {
        let mut text = String::new();
        let Some((_, rounded, _)) = &self.rounded else { return text };
        let samples = count(rounded.samples, "sample");
        let (chosen, other) = match rounded.by_samples {
            true => (BY_SAMPLES, PLAIN),
            false => (PLAIN, BY_SAMPLES),
        };
        let of = format!("with weights rounded {chosen}, on {samples} held out");
        labelled(&mut text, STRONG, "errors of outputs", &of);
        for output in &rounded.outputs {
            let name = printable(&output.name);
            let (error, rest) = match rounded.by_samples {
                true => (output.error, output.plain),
                false => (output.plain, output.error),
            };
            let _ = writeln!(text, "  {error:.4}  \"{name}\", {rest:.4} {other}");
        }
        if let Some(loss) = rounded.loss {
            let bits = rounded.bits.iter().map(|(bits, matrices)| match bits {
                32 => format!("{matrices} in float"),
                _ => format!("{matrices} of {bits} bits"),
            });
            let matrices = bits.collect::<Vec<_>>().join(", ");
            labelled(&mut text, STRONG, "matrices", &format!("{matrices}, for a loss of {loss:.2e}"));
        }
        text
    }
}
