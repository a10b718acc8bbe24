//! What a net costs in several forms of its weights: bytes, time and loss.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use clap::ValueEnum;
use onnx2ncnn::error::Error;
use onnx2ncnn::{Conversion, Converter, Input, Quantization, Refusal, Weights};

use super::location::{temporary_folder, write_net};
use super::message::Report;
use super::options::{Requested, Source};
use super::python::{NetRequest, PythonArguments, Quantize, Round};
use super::quantize::candidates;
use super::size::display_bytes;
use super::terminal::{STRONG, Waiting, labelled, printable, widths};

/// A form of the weights of a net.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Form {
    /// Weights in float16
    Fp16,
    /// Layers in int8, by the samples
    Int8,
    /// Weights of matrices and tables in 8 bits
    WeightsInt8,
    /// Weights of matrices in 6 bits, rounded by the samples
    WeightsInt6,
    /// Weights of matrices in 4 bits, rounded by the samples
    WeightsInt4,
}

impl Form {
    /// Returns what makes a net of this form.
    fn command(self) -> &'static str {
        match self {
            Form::Fp16 => "--fp16",
            Form::Int8 => "quantize --data",
            Form::WeightsInt8 => "--weights int8",
            Form::WeightsInt6 => "--weights int6 --data",
            Form::WeightsInt4 => "--weights int4 --data",
        }
    }
}

/// A model in float, and the samples on which its nets are compared with it.
struct Subject<'a> {
    model: PathBuf,
    converter: Converter,
    /// The net in float32.
    plain: Conversion,
    room: &'a Path,
    data: &'a Path,
    python: &'a PythonArguments,
}

/// What is measured of a net.
struct Row {
    bytes: u64,
    seconds: f64,
    /// The outputs, each with one minus its cosine if that is known.
    losses: Vec<(String, Option<f64>)>,
}

/// Returns a table of the net in float32 and in these forms: the bytes of both files, the time of a run on
/// one thread of this processor, and the loss of each output on the samples.
pub(super) fn describe_forms(
    model: &Input,
    source: &Requested<Source>,
    forms: &[Form],
    data: &Path,
    python: &PythonArguments,
    report: Report,
) -> Result<String, Refusal> {
    std::fs::metadata(data).map_err(|error| Error::io("the samples cannot be read", error).in_file(data))?;
    let room = temporary_folder()?;
    let float = room.path().join("float.onnx");
    source.write_simplified(model, &float)?;
    let converter = source.converter_of_simplified();
    let plain = converter.convert(&Input::Path(float.clone()))?;
    let subject = Subject { model: float, converter, plain, room: room.path(), data, python };
    let waiting = Waiting::for_work("float32", report);
    let mut rows = vec![("float32".to_owned(), String::new(), Ok(subject.measure(&subject.plain)?))];
    for form in forms {
        let name = form.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default();
        waiting.say(name.clone());
        let made = subject.convert(*form).and_then(|conversion| subject.measure(&conversion));
        rows.push((name, form.command().to_owned(), made));
    }
    let mut text = table(&rows);
    if subject.plain.sorts()? {
        labelled(
            &mut text,
            STRONG,
            "note",
            "the model sorts: each row is compared with the nearest one, whatever its position; the last rows of a selection may be others",
        );
    }
    Ok(text)
}

impl Subject<'_> {
    /// Converts the model in a form.
    fn convert(&self, form: Form) -> Result<Conversion, Refusal> {
        let float = Input::Path(self.model.clone());
        let converter = self.converter.clone();
        let weights = match form {
            Form::Fp16 => return converter.fp16(true).convert(&float),
            Form::Int8 => {
                let quantized = self.quantized()?;
                return converter.quantization(Quantization::Int8).convert(&Input::Path(quantized));
            }
            Form::WeightsInt8 => return converter.weights(Weights::Int8).convert(&float),
            Form::WeightsInt6 => Weights::Int6,
            Form::WeightsInt4 => Weights::Int4,
        };
        let rounded = self.room.join("rounded.onnx");
        let request = Round {
            model: self.model.clone(),
            data: self.data.to_owned(),
            bits: weights.bits().unwrap_or_default(),
            sizes: Weights::SIZES.into(),
            max_loss: None,
            rounded: rounded.clone(),
        };
        request.ask(self.python)?;
        converter.weights(weights).convert(&Input::Path(rounded))
    }

    /// Writes the model quantized by the samples.
    fn quantized(&self) -> Result<PathBuf, Refusal> {
        let quantized = self.room.join("quantized.onnx");
        let request = Quantize {
            model: self.model.clone(),
            data: self.data.to_owned(),
            samples: self.room.join("samples.npz"),
            method: "min-max".to_owned(),
            candidates: candidates(&self.plain, false)?,
            quantized: quantized.clone(),
            ..Quantize::default()
        };
        request.ask(self.python)?;
        Ok(quantized)
    }

    /// Writes a net, and runs it on the samples.
    fn measure(&self, conversion: &Conversion) -> Result<Row, Refusal> {
        let (param, bin) = (self.room.join("net.param"), self.room.join("net.bin"));
        let written = write_net(conversion, &param, &bin)?;
        let request = NetRequest {
            data: Some(self.data.to_owned()),
            sampled: true,
            timed: true,
            // The loss is printed, and judged by nobody.
            cosine: Some(0.0),
            ..NetRequest::new(conversion, self.model.clone(), param, bin)?
        };
        let comparison = request.ask(self.python)?;
        Ok(Row {
            bytes: written.param_bytes.saturating_add(written.bin_bytes),
            seconds: comparison.seconds.unwrap_or(f64::NAN),
            losses: comparison.losses().map(|(name, loss)| (name.to_owned(), loss)).collect(),
        })
    }
}

/// Describes the rows: of several outputs, one in each line. Nets that cannot be made have the reason.
fn table(rows: &[(String, String, Result<Row, Refusal>)]) -> String {
    let mut cells = vec![["form", "bytes", "time", "loss", "made by"].map(str::to_owned)];
    let mut reasons = String::new();
    for (form, command, made) in rows {
        match made {
            Ok(Row { bytes, seconds, losses }) => {
                let figures = [display_bytes(*bytes), format!("{:.2} ms", seconds * 1e3)];
                for (at, (output, loss)) in losses.iter().enumerate() {
                    let loss = loss.map_or_else(|| "unknown".to_owned(), |loss| format!("{loss:.1e}"));
                    let loss = if losses.len() > 1 { format!("{loss} {}", printable(output)) } else { loss };
                    cells.push(match (at, figures.clone()) {
                        (0, [bytes, time]) => [form.clone(), bytes, time, loss, command.clone()],
                        _ => [String::new(), String::new(), String::new(), loss, String::new()],
                    });
                }
            }
            Err(errors) => {
                // Writing to a string cannot fail.
                let reason = errors.iter().next().map(|error| printable(error.message())).unwrap_or_default();
                let _ = writeln!(reasons, "{STRONG}{form}{STRONG:#}: {reason}");
            }
        }
    }
    let columns = widths(&cells);
    let mut text = String::new();
    for row in &cells {
        let padded: Vec<String> =
            row.iter().zip(columns).map(|(cell, width)| format!("{cell:width$}")).collect();
        let _ = writeln!(text, "{}", padded.join("  ").trim_end());
    }
    text + &reasons
}
