//! Arguments that several commands share.

use std::io::IsTerminal;
use std::path::{Path, PathBuf};

use clap::{Args, ColorChoice, ValueEnum};
use onnx2ncnn::error::{Error, Result};
use onnx2ncnn::{Input, Options};

use super::destination::NetFiles;
use super::half::HalfPrecision;
use super::options::{Files, Given, Net, Source};

/// The `MODEL` that means standard input.
pub(super) const STANDARD_INPUT: &str = "-";

/// The arguments of a conversion.
#[derive(Debug, Args)]
pub(super) struct Arguments {
    /// The ONNX model; - reads standard input
    pub model: PathBuf,

    #[command(flatten)]
    pub source: Given<Source>,

    #[command(flatten)]
    pub net: NetFiles,

    /// Write the folder that YOLO(DIR) of ultralytics reads: the net with the names in0 and out0, and metadata.yaml
    #[arg(long, value_name = "DIR", conflicts_with_all = ["param", "bin", "out"], help_heading = "Result")]
    pub ultralytics: Option<PathBuf>,

    #[command(flatten)]
    pub choices: Given<Net>,

    #[command(flatten)]
    pub half: HalfPrecision,

    /// Convert a chain of nets: cut the model at these values, and again where the option is given again
    ///
    /// The nets are model.ncnn.1.param and so on; a part that cannot be converted is written as model.ncnn.2.onnx. The list
    /// of them, with inputs and outputs, is model.ncnn.json.
    #[arg(long, value_name = "A,B", help_heading = "Model", hide_short_help = true, conflicts_with_all = [
        "inputs", "outputs", "auto_cut", "ultralytics", "rename", "scale", "mean", "norm", "bgr", "chw", "emit_onnx",
        "table", "param_bin", "id_header", "mem_header", "example", "metadata", "report", "html",
    ])]
    pub split_at: Vec<String>,

    /// Convert without writing anything
    #[arg(long, help_heading = "Result")]
    pub dry_run: bool,

    #[command(flatten)]
    pub further: Given<Files>,

    #[command(flatten)]
    pub format: Format,

    #[command(flatten)]
    pub report: Report,
}

impl Arguments {
    /// Returns the files of the net, and the further ones.
    pub fn results(&self) -> (NetFiles, Options) {
        let mut further = Options::clone(&self.further);
        match &self.ultralytics {
            Some(folder) => {
                further.metadata.get_or_insert_with(|| folder.join("metadata.yaml"));
                (NetFiles::of_ultralytics(folder), further)
            }
            None => (self.net.clone(), further),
        }
    }
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

/// Returns the model to read.
pub(super) fn input(model: &Path) -> Result<Input> {
    let input = Input::from_arg(model);
    if input == Input::Stdin && std::io::stdin().is_terminal() {
        return Err(Error::usage("standard input is a terminal, not a model"));
    }
    Ok(input)
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
