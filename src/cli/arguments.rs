//! Arguments that several commands share.

use std::io::IsTerminal;
use std::path::{Path, PathBuf};

use clap::builder::{NonEmptyStringValueParser, PossibleValuesParser, TypedValueParser};
use clap::{Args, ColorChoice, ValueEnum};
use onnx2ncnn::error::{Error, Result};
use onnx2ncnn::{Converter, Input, Quantization, Weights};

use super::destination::NetFiles;
use super::input_value::{GivenValue, parse_input_value};
use super::shape::{InputShape, parse_input_shape};
use super::size::parse_bytes;

/// The `MODEL` that means standard input.
pub(super) const STANDARD_INPUT: &str = "-";

/// The arguments of a conversion.
#[derive(Debug, Args)]
pub(super) struct Arguments {
    /// The ONNX model; - reads standard input
    pub model: PathBuf,

    #[command(flatten)]
    pub source: Source,

    #[command(flatten)]
    pub net: NetFiles,

    #[command(flatten)]
    pub choices: Choices,

    /// Convert without writing anything
    #[arg(long, help_heading = "Result")]
    pub dry_run: bool,

    /// Also write the simplified model as ONNX, with --dequantize the float network
    #[arg(long, value_name = "FILE", help_heading = "Further files")]
    pub emit_onnx: Option<PathBuf>,

    /// Also write the table of a quantized model's scales that ncnn2int8 reads
    #[arg(
        long,
        value_name = "FILE",
        requires = "dequantize",
        help_heading = "Further files",
        hide_short_help = true
    )]
    pub table: Option<PathBuf>,

    /// Also write the .param file in its binary form, which has indices instead of names
    #[arg(long, value_name = "FILE", help_heading = "Further files", hide_short_help = true)]
    pub param_bin: Option<PathBuf>,

    /// Also write a C header with these indices
    #[arg(long, value_name = "FILE", help_heading = "Further files", hide_short_help = true)]
    pub id_header: Option<PathBuf>,

    /// Also write a C header with the bytes of the binary .param file and the .bin file
    #[arg(long, value_name = "FILE", help_heading = "Further files", hide_short_help = true)]
    pub mem_header: Option<PathBuf>,

    /// Write a report as JSON, also if the model is refused
    #[arg(long = "report", value_name = "FILE.json", help_heading = "Further files")]
    pub json: Option<PathBuf>,

    /// Write a report as an HTML page with a drawing of the network, also if the model is refused
    #[arg(long, value_name = "FILE.html", help_heading = "Further files")]
    pub html: Option<PathBuf>,

    #[command(flatten)]
    pub format: Format,

    #[command(flatten)]
    pub report: Report,
}

/// The form of messages.
#[derive(Clone, Copy, Debug, Args)]
pub(super) struct Format {
    /// The form of messages: text on standard error, or a line of JSON for each on standard output
    #[arg(
        long,
        value_name = "FORMAT",
        default_value = "human",
        help_heading = "Messages",
        hide_short_help = true
    )]
    pub message_format: MessageFormat,
}

/// See [`Format`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum MessageFormat {
    /// Text.
    Human,
    /// Objects as in a report.
    Json,
}

/// Options of the net.
#[derive(Debug, Args)]
pub(super) struct Choices {
    /// Convert inputs of float64 to float32, the only precision of ncnn
    #[arg(long, help_heading = "Model", hide_short_help = true)]
    pub double_as_float: bool,

    /// Write weights in float16
    #[arg(long, help_heading = "Result")]
    pub fp16: bool,

    /// The weights of matrix products and tables
    ///
    /// Floats; the integers in blocks of the model, which stay so with `keep`; or floats rounded to such integers. Other than
    /// floats they require ncnn 20261020.
    #[arg(long, value_name = "TYPE", default_value = "float", value_parser = weights(), help_heading = "Result")]
    pub weights: Weights,

    /// Let all layers compute in float32 on processors that compute in float16
    #[arg(long, help_heading = "Result")]
    pub precise: bool,

    /// Keep the results of these nodes in float32 on processors that compute in float16: names of nodes or of their
    /// outputs, or of inputs; `verify --magnitudes` prints them
    #[arg(long, value_name = "A,B", value_delimiter = ',', value_parser = name(), help_heading = "Result", hide_short_help = true)]
    pub float32: Vec<String>,

    /// Let the runtime keep the caches of a decoder (ncnn 20260113 or later)
    #[arg(long, help_heading = "Result")]
    pub kv_cache: bool,

    /// Compute a quantized model with int8 layers, by the scales of the model
    #[arg(long, conflicts_with = "dequantize", help_heading = "Result")]
    pub int8: bool,

    /// Remove the rounding of a quantized model, and compute in float32
    #[arg(long, help_heading = "Result")]
    pub dequantize: bool,

    /// The oldest release of ncnn that must load the result, by its date
    ///
    /// Newer ones have more layers. The default is 20240410, or 20250428, 20250916 or 20260113 if free sizes require it.
    #[arg(long, value_name = "YYYYMMDD", value_parser = parse_release, help_heading = "Result")]
    pub ncnn_version: Option<u32>,

    /// Refuse a model if its net relies on assumed facts of values
    ///
    /// A net relies on two kinds of facts that cannot be proved. A run prints as `assumed` what may be wrong for some inputs of
    /// a model, such as integers within 2^24; --strict refuses these. It prints as `expected` that inputs are finite, which
    /// holds for nearly every use, and which --strict accepts.
    #[arg(long, help_heading = "Result")]
    pub strict: bool,

    /// Rename the blob of an input, an output, or an intermediate value
    #[arg(long, value_name = "OLD=NEW", value_parser = parse_rename, help_heading = "Result")]
    pub rename: Vec<(String, String)>,

    /// Check the graph after every pass
    #[arg(long, help_heading = "Model", hide_short_help = true)]
    pub check: bool,
}

impl Choices {
    /// Sets these options on a converter.
    pub fn apply(&self, converter: Converter) -> Converter {
        let converter = converter
            .double_as_float(self.double_as_float)
            .fp16(self.fp16)
            .precise(self.precise)
            .float32(&self.float32)
            .weights(self.weights)
            .kv_cache(self.kv_cache)
            .strict(self.strict)
            .quantization(self.quantization())
            .check(self.check);
        let converter = match self.ncnn_version {
            Some(release) => converter.ncnn_version(release),
            None => converter,
        };
        self.rename.iter().fold(converter, |converter, (old, new)| converter.rename(old, new))
    }

    /// Returns the treatment of quantized models.
    fn quantization(&self) -> Quantization {
        match (self.int8, self.dequantize) {
            (true, _) => Quantization::Int8,
            (_, true) => Quantization::Float,
            _ => Quantization::Exact,
        }
    }
}

/// Returns the model to read.
pub(super) fn input(model: &Path) -> Result<Input> {
    let input = Input::from_arg(model);
    if input == Input::Stdin && std::io::stdin().is_terminal() {
        return Err(Error::usage("standard input is a terminal, not a model"));
    }
    Ok(input)
}

/// Options for reading a model.
#[derive(Debug, Args)]
pub(super) struct Source {
    /// The shape of an input: numbers, or names for free sizes [NAME: the only input]
    #[arg(long, value_name = "NAME:1,3,H,W", value_parser = parse_input_shape, help_heading = "Model")]
    pub input_shape: Vec<InputShape>,

    /// Make an input a constant: a number, a list such as 1,2,3, or an array in a file, @FILE.npy
    #[arg(long, value_name = "NAME=VALUE", value_parser = parse_input_value, help_heading = "Model")]
    pub set: Vec<GivenValue>,

    /// Keep only the nodes after these values, which become the inputs
    #[arg(long, value_name = "A,B", value_delimiter = ',', value_parser = name(), help_heading = "Model")]
    pub inputs: Vec<String>,

    /// Keep only the nodes before these values, which become the outputs
    #[arg(long, value_name = "A,B", value_delimiter = ',', value_parser = name(), help_heading = "Model")]
    pub outputs: Vec<String>,

    /// Make random numbers inputs
    #[arg(long, help_heading = "Model", hide_short_help = true)]
    pub random_as_input: bool,

    /// The folder of external data [default: the folder of the model]
    #[arg(long, value_name = "DIR", help_heading = "Model", hide_short_help = true)]
    pub data_dir: Option<PathBuf>,

    /// Refuse a larger model file, such as 8GB
    #[arg(long, value_name = "SIZE", value_parser = parse_bytes, help_heading = "Model", hide_short_help = true)]
    pub max_size: Option<u64>,

    /// Skip these passes, see --list-passes
    #[arg(long, value_name = "NAME", value_delimiter = ',', value_parser = name(), help_heading = "Model", hide_short_help = true)]
    pub skip: Vec<String>,
}

impl Source {
    /// Returns a converter with these options.
    pub fn converter(&self) -> Converter {
        let mut converter = Converter::new()
            .inputs(&self.inputs)
            .outputs(&self.outputs)
            .random_as_input(self.random_as_input);
        for InputShape { name, shape } in &self.input_shape {
            converter = converter.input_shape(name.clone().unwrap_or_default(), shape.iter().cloned());
        }
        for GivenValue { name, value } in &self.set {
            converter = converter.set(name, value.clone());
        }
        if let Some(folder) = &self.data_dir {
            converter = converter.data_dir(folder);
        }
        if let Some(max_size) = self.max_size {
            converter = converter.max_size(max_size);
        }
        self.skip.iter().fold(converter, |converter, pass| converter.skip(pass))
    }

    /// Returns whether the model is read without changes: other programs read the same.
    pub fn is_plain(&self) -> bool {
        self.inputs.is_empty()
            && self.outputs.is_empty()
            && self.set.is_empty()
            && self.data_dir.is_none()
            && !self.random_as_input
    }
}

/// The amount and style of output.
#[derive(Clone, Copy, Debug, Args)]
pub(super) struct Report {
    /// Print more: passes, and every node of a refusal
    #[arg(short, long, help_heading = "Messages")]
    pub verbose: bool,

    /// Print only errors
    #[arg(short, long, conflicts_with = "verbose", help_heading = "Messages")]
    pub quiet: bool,

    /// When to use colours
    #[arg(
        long,
        value_name = "WHEN",
        default_value = "auto",
        help_heading = "Messages",
        hide_short_help = true
    )]
    pub color: ColorChoice,
}

/// Parses the date of a release of ncnn.
fn parse_release(text: &str) -> std::result::Result<u32, String> {
    let date = text.strip_prefix("1.0.").unwrap_or(text);
    let digits = date.len() == 8 && date.chars().all(|c| c.is_ascii_digit());
    let number = date.parse().ok().filter(|_| digits);
    number
        .filter(|n: &u32| (1..=12).contains(&(n / 100 % 100)) && (1..=31).contains(&(n % 100)))
        .ok_or_else(|| "expected the date of a release of ncnn, such as 20250503".to_owned())
}

/// Returns the parser of a type of weights.
pub(super) fn weights() -> impl TypedValueParser<Value = Weights> {
    PossibleValuesParser::new(Weights::NAMES.map(|(name, _)| name)).try_map(|name| name.parse::<Weights>())
}

/// Parses `old=new`. Names may contain the sign: the last one ends the old name.
pub(super) fn parse_rename(text: &str) -> std::result::Result<(String, String), String> {
    match text.rsplit_once('=') {
        Some((old, new)) if !old.is_empty() && !new.is_empty() => Ok((old.to_owned(), new.to_owned())),
        _ => Err("expected the name of a value, =, and the new name of its blob".to_owned()),
    }
}

/// Returns the parser of an item of a list of names.
pub(super) fn name() -> NonEmptyStringValueParser {
    NonEmptyStringValueParser::new()
}
