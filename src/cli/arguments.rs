//! What can be said of a model on the command line, whatever is to be done with it.

use std::io::IsTerminal;
use std::path::{Path, PathBuf};

use clap::builder::NonEmptyStringValueParser;
use clap::{Args, ColorChoice};
use onnx2ncnn::error::{Error, Result};
use onnx2ncnn::{Converter, Input, Quantization};

use super::shape::{InputShape, parse_input_shape};
use super::size::parse_bytes;

/// What `MODEL` is where the model comes from standard input.
pub(super) const STANDARD_INPUT: &str = "-";

/// What converting can be told.
#[derive(Debug, Args)]
pub(super) struct Arguments {
    /// The ONNX model; - reads standard input
    pub model: PathBuf,

    /// The .param file to write [default: model.ncnn.param beside model.onnx]
    pub param: Option<PathBuf>,

    /// The .bin file to write [default: beside the .param file, by its name]
    pub bin: Option<PathBuf>,

    /// Also write the simplified model as ONNX, with --dequantize the float network
    #[arg(long, value_name = "FILE", help_heading = "Model")]
    pub emit_onnx: Option<PathBuf>,

    /// Also write the table of a quantized model's scales that ncnn2int8 reads
    #[arg(long, value_name = "FILE", requires = "dequantize", help_heading = "Result")]
    pub table: Option<PathBuf>,

    /// Also write the .param file in its binary form, which has numbers for names
    #[arg(long, value_name = "FILE", help_heading = "Result")]
    pub param_bin: Option<PathBuf>,

    /// Also write a C header with these numbers
    #[arg(long, value_name = "FILE", help_heading = "Result")]
    pub id_header: Option<PathBuf>,

    /// Also write a C header with the bytes of the binary .param file and the .bin file
    #[arg(long, value_name = "FILE", help_heading = "Result")]
    pub mem_header: Option<PathBuf>,

    /// Answer to `batch` on standard output
    #[arg(long, hide = true)]
    pub answer: bool,

    #[command(flatten)]
    pub choices: Choices,

    /// Write a report as JSON, also where the model is refused
    #[arg(long = "report", value_name = "FILE.json", help_heading = "Report")]
    pub json: Option<PathBuf>,

    /// Write a report as a page that shows the network, also where the model is refused
    #[arg(long, value_name = "FILE.html", help_heading = "Report")]
    pub html: Option<PathBuf>,

    #[command(flatten)]
    pub source: Source,

    #[command(flatten)]
    pub report: Report,
}

/// What the net is to be, whichever model it is made of.
#[derive(Debug, Args)]
pub(super) struct Choices {
    /// Take double-precision inputs as float32, which is all that ncnn computes in
    #[arg(long, help_heading = "Model")]
    pub double_as_float: bool,

    /// Write weights in float16
    #[arg(long, help_heading = "Result")]
    pub fp16: bool,

    /// Compute a model that is quantized throughout in integers, with int8 layers, as onnxruntime does
    #[arg(long, conflicts_with = "dequantize", help_heading = "Result")]
    pub int8: bool,

    /// Leave out the rounding of a model that is quantized throughout, and compute in float
    #[arg(long, help_heading = "Result")]
    pub dequantize: bool,

    /// The release of ncnn that must load the result, by its date: a newer one has more layers [default: 20240410, or 20250428 or
    /// 20250916 where sizes that stay free take it]
    #[arg(long, value_name = "YYYYMMDD", value_parser = parse_release, help_heading = "Result")]
    pub ncnn_version: Option<u32>,

    /// Call the blob of a value by another name: of an input, an output, or a value inside
    #[arg(long, value_name = "OLD=NEW", value_parser = parse_rename, help_heading = "Result")]
    pub rename: Vec<(String, String)>,

    /// Check the graph after every pass
    #[arg(long, help_heading = "Report")]
    pub check: bool,
}

impl Choices {
    /// The same converter with these choices.
    pub fn apply(&self, converter: Converter) -> Converter {
        let converter = converter
            .double_as_float(self.double_as_float)
            .fp16(self.fp16)
            .quantization(self.quantization())
            .check(self.check);
        let converter = match self.ncnn_version {
            Some(release) => converter.ncnn_version(release),
            None => converter,
        };
        self.rename.iter().fold(converter, |converter, (old, new)| converter.rename(old, new))
    }

    /// What becomes of a quantized model.
    fn quantization(&self) -> Quantization {
        match (self.int8, self.dequantize) {
            (true, _) => Quantization::Int8,
            (_, true) => Quantization::Float,
            _ => Quantization::Exact,
        }
    }
}

/// The model to read.
pub(super) fn input(model: &Path) -> Result<Input> {
    let input = Input::from_arg(model);
    if input == Input::Stdin && std::io::stdin().is_terminal() {
        return Err(Error::usage("standard input is a terminal, which has no model to give"));
    }
    Ok(input)
}

/// What of a model is meant, and how it is read.
#[derive(Debug, Args)]
pub(super) struct Source {
    /// The shape of an input: numbers, or names for sizes that stay free [NAME: the only input]
    #[arg(long, value_name = "NAME:1,3,H,W", value_parser = parse_input_shape, help_heading = "Model")]
    pub input_shape: Vec<InputShape>,

    /// Take only what comes after these values; they become the inputs
    #[arg(long, value_name = "A,B", value_delimiter = ',', value_parser = name(), help_heading = "Model")]
    pub inputs: Vec<String>,

    /// Take only what comes before these values; they become the outputs
    #[arg(long, value_name = "A,B", value_delimiter = ',', value_parser = name(), help_heading = "Model")]
    pub outputs: Vec<String>,

    /// The folder of external data [default: the folder of the model]
    #[arg(long, value_name = "DIR", help_heading = "Model")]
    pub data_dir: Option<PathBuf>,

    /// Refuse a model file of more bytes than this, such as 8GB
    #[arg(long, value_name = "SIZE", value_parser = parse_bytes, help_heading = "Model")]
    pub max_size: Option<u64>,

    /// Leave out these passes, of those that --list-passes names
    #[arg(long, value_name = "NAME", value_delimiter = ',', value_parser = name(), help_heading = "Passes")]
    pub skip: Vec<String>,
}

impl Source {
    /// What was said of the model; everything else is as usual.
    pub fn converter(&self) -> Converter {
        let mut converter = Converter::new().inputs(&self.inputs).outputs(&self.outputs);
        for InputShape { name, shape } in &self.input_shape {
            converter = converter.input_shape(name.clone().unwrap_or_default(), shape.iter().cloned());
        }
        if let Some(folder) = &self.data_dir {
            converter = converter.data_dir(folder);
        }
        if let Some(max_size) = self.max_size {
            converter = converter.max_size(max_size);
        }
        self.skip.iter().fold(converter, |converter, pass| converter.skip(pass))
    }

    /// Whether the model is meant as it lies there: other programs read the same.
    pub fn is_plain(&self) -> bool {
        self.inputs.is_empty() && self.outputs.is_empty() && self.data_dir.is_none()
    }
}

/// How much is told, and how.
#[derive(Clone, Copy, Debug, Args)]
pub(super) struct Report {
    /// Tell more: passes, and every node of a refusal
    #[arg(short, long, help_heading = "Report")]
    pub verbose: bool,

    /// Tell nothing but errors
    #[arg(short, long, conflicts_with = "verbose", help_heading = "Report")]
    pub quiet: bool,

    /// When to use colours
    #[arg(long, value_name = "WHEN", default_value = "auto", help_heading = "Report")]
    pub color: ColorChoice,
}

/// A date as ncnn's releases are numbered by.
fn parse_release(text: &str) -> std::result::Result<u32, String> {
    let date = text.strip_prefix("1.0.").unwrap_or(text);
    let digits = date.len() == 8 && date.chars().all(|c| c.is_ascii_digit());
    let number = date.parse().ok().filter(|_| digits);
    number
        .filter(|n: &u32| (1..=12).contains(&(n / 100 % 100)) && (1..=31).contains(&(n % 100)))
        .ok_or_else(|| "a release of ncnn is called by its date, such as 20250503".to_owned())
}

/// `old=new`. Names may hold the sign: the last one ends the old name.
pub(super) fn parse_rename(text: &str) -> std::result::Result<(String, String), String> {
    match text.rsplit_once('=') {
        Some((old, new)) if !old.is_empty() && !new.is_empty() => Ok((old.to_owned(), new.to_owned())),
        _ => Err("it is the name of a value, =, and what to call its blob".to_owned()),
    }
}

fn name() -> NonEmptyStringValueParser {
    NonEmptyStringValueParser::new()
}
