//! The command `simplify`.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use clap::Args;
use onnx2ncnn::Refusal;
use onnx2ncnn::error::{Error, ErrorKind};
use onnx2ncnn::report::Diagnostic;
use onnx2ncnn::{Converter, ExternalData, Input, Pass, Simplified, Storage};

use super::location::{Outputs, STANDARD_INPUT, input, is_folder, refused};
use super::message::{Format, MessageFormat, Report};
use super::options::{Requested, Source};
use super::python::{PythonArguments, Request};
use super::refusal;
use super::size::parse_bytes;
use super::summary::{Stream, Summary, display_path};
use super::terminal::{NOTICE, STRONG, labelled, list, printable};
use crate::common::count::count;
use serde_json::json;

const EXAMPLES: &str = "\
Examples:
  onnx2ncnn simplify model.onnx simple.onnx
  onnx2ncnn simplify model.onnx simple.onnx --input-shape 1,3,640,640
      fixes the sizes of a model's only input
  onnx2ncnn simplify large.onnx out/large.onnx --external-data large.data
      writes weights to out/large.data, which a model above 2 GB needs";

/// Write the simplified model as ONNX
///
/// Its results, inputs and outputs stay the same. Unknown operators are kept, and free sizes stay free.
#[derive(Debug, Args)]
#[command(after_long_help = EXAMPLES)]
pub(super) struct Simplify {
    /// The ONNX model; - reads standard input
    pub model: PathBuf,

    /// The ONNX file to write; - for standard output
    #[arg(value_name = "OUT", required_unless_present = "output")]
    pub out: Option<PathBuf>,

    #[command(flatten)]
    pub source: Requested<Source>,

    /// The ONNX file to write, or its folder; folders are made
    #[arg(
        short,
        long = "out",
        id = "output",
        value_name = "FILE.onnx|DIR",
        conflicts_with = "out",
        help_heading = "Result"
    )]
    pub output: Option<PathBuf>,

    /// Simplify without writing anything
    #[arg(long, help_heading = "Result")]
    pub dry_run: bool,

    #[command(flatten)]
    pub storage: StorageArguments,

    /// Compare original and result in onnxruntime on N random inputs before writing
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000), help_heading = "Comparison")]
    pub check: Option<u32>,

    #[command(flatten)]
    pub python: PythonArguments,

    /// Check the graph after every pass
    #[arg(long, help_heading = "Model", hide_short_help = true)]
    pub check_passes: bool,

    #[command(flatten)]
    pub format: Format,

    #[command(flatten)]
    pub report: Report,
}

/// The storage of weights.
#[derive(Debug, Args)]
#[command(next_help_heading = "External data")]
pub(super) struct StorageArguments {
    /// Write weights to this file in the folder of OUT
    #[arg(long, value_name = "FILE")]
    pub external_data: Option<String>,

    /// Keep smaller weights in OUT; lists of at most 128 bytes, which may decide shapes, always stay there
    #[arg(long, value_name = "BYTES", value_parser = parse_threshold, requires = "external_data", default_value = "1024")]
    pub size_threshold: u64,

    /// Write a separate file for each weight: FILE, a full stop and the name of the weight
    #[arg(long, requires = "external_data")]
    pub one_file_per_tensor: bool,

    /// Also write tensors in attributes there, which some readers do not support
    #[arg(long, requires = "external_data")]
    pub convert_attributes: bool,
}

fn parse_threshold(text: &str) -> Result<u64, String> {
    if text == "0" { Ok(0) } else { parse_bytes(text) }
}

impl StorageArguments {
    fn storage(&self) -> Storage {
        let Some(location) = &self.external_data else { return Storage::Inline };
        Storage::External(ExternalData {
            size_threshold: self.size_threshold,
            one_file_per_tensor: self.one_file_per_tensor,
            convert_attributes: self.convert_attributes,
            ..ExternalData::new(location)
        })
    }
}

/// Simplifies and writes a model, and returns the summary.
pub(super) fn simplify_files(arguments: &Simplify) -> Result<Summary, Refusal> {
    let start = Instant::now();
    let model = &arguments.model;
    let mut outputs = Outputs::default();
    let out = outputs.add(&named_file(arguments)?)?;
    if model != Path::new(STANDARD_INPUT) && model.canonicalize().is_ok_and(|model| model == out) {
        return Err(refused(&out, "the result would overwrite the model itself").into());
    }
    let converter = arguments.source.converter()?.check(arguments.check_passes);
    let input = input(model)?;
    if arguments.check.is_some() && input == Input::Stdin {
        return Err(
            Error::usage("a model from standard input cannot be read again for the comparison").into()
        );
    }
    let simplified = converter.simplify(&input)?;
    let storage = arguments.storage.storage();
    if outputs.uses_standard_output() && matches!(storage, Storage::External(_)) {
        return Err(
            Error::usage("external data are written next to a file, not next to standard output").into()
        );
    }
    let write = || -> Result<Vec<PathBuf>, Refusal> {
        let Some(rounds) = arguments.check else { return Ok(simplified.write(&out, &storage)?) };
        let original = Original::of(arguments, &input, &converter)?;
        Ok(simplified
            .write_checked(&out, &storage, |result| compare(&original, result, rounds, arguments))?)
    };
    let mut files = Vec::new();
    if !arguments.dry_run {
        files = outputs.write(write)?;
        files.retain(|file| !outputs.is_piped(file));
    }
    let verbose = arguments.report.verbose;
    Ok(match arguments.format.message_format {
        MessageFormat::Human => describe(&simplified, &files, start.elapsed(), arguments, verbose),
        MessageFormat::Json => to_json(&simplified, &files),
    })
}

/// Returns the file that the arguments name: in a folder, it has the name of the model.
fn named_file(arguments: &Simplify) -> Result<PathBuf, Error> {
    let Some(out) = arguments.out.as_ref().or(arguments.output.as_ref()) else {
        return Err(Error::usage("the file to write has no name"));
    };
    if arguments.output.is_none() || !is_folder(out) {
        return Ok(out.clone());
    }
    match arguments.model.file_name().filter(|_| arguments.model != Path::new(STANDARD_INPUT)) {
        Some(name) => Ok(out.join(name)),
        None => Err(refused(out, "a model from standard input has no name for the result")),
    }
}

/// The model to compare with: the original, or the selected part of it.
struct Original {
    path: PathBuf,
    /// The folder of a part.
    _room: Option<tempfile::TempDir>,
}

impl Original {
    fn of(arguments: &Simplify, input: &Input, converter: &Converter) -> Result<Original, Refusal> {
        // Only this program finds external data in another folder.
        if arguments.source.is_plain() {
            return Ok(Original { path: arguments.model.clone(), _room: None });
        }
        let room = tempfile::tempdir().map_err(|e| Error::io("the folder cannot be created", e))?;
        let path = room.path().join("part.onnx");
        converter.expose(input, &BTreeSet::new())?.write(&path, &Storage::AsNeeded)?;
        Ok(Original { path, _room: Some(room) })
    }
}

/// Returns an error if the result differs from the original.
fn compare(original: &Original, result: &Path, rounds: u32, arguments: &Simplify) -> Result<(), Error> {
    let comparison = Request::models(&original.path, result, rounds).ask(&arguments.python)?;
    match comparison.outputs.iter().find(|output| !output.same) {
        None => Ok(()),
        Some(output) => {
            let what = format!("the result differs from the original: {}", output.describe());
            let error = Error::new(ErrorKind::Mismatch, what)
                .help("this is a fault of the converter; please report it, with the pass whose --skip helps");
            Err(if output.name.is_empty() {
                error
            } else {
                error.at_part(format!("output \"{}\"", output.name))
            })
        }
    }
}

/// The maximum number of listed warnings and files, without -v.
const MAX_LINES: usize = 10;

/// Returns the summary of passes and files.
fn describe(
    simplified: &Simplified,
    files: &[PathBuf],
    elapsed: Duration,
    arguments: &Simplify,
    verbose: bool,
) -> Summary {
    let mut summary = Summary::default();
    let mut text = String::new();
    let most = if verbose { usize::MAX } else { MAX_LINES };
    let warnings: Vec<&String> = simplified.warnings.iter().collect();
    list(&mut text, "", &warnings, most, |text, warning| {
        labelled(text, NOTICE, "warning", &printable(warning));
    });
    summary.add(Stream::Error, text);
    let mut table = String::new();
    let changes = changes(&simplified.passes);
    let width = changes.iter().map(|change| change.name.len()).max().unwrap_or(0);
    for change in changes.iter().filter(|change| verbose || change.nodes != 0) {
        let nodes = count(change.nodes.unsigned_abs(), "node");
        let what = if change.nodes > 0 { "more" } else { "fewer" };
        let times = if change.times == 1 { String::new() } else { format!(", {} times", change.times) };
        let _ = writeln!(table, "{:width$}  {nodes} {what}{times}", change.name);
    }
    // A result on standard output has nothing next to it.
    let is_piped = files.is_empty() && !arguments.dry_run;
    summary.add(if verbose && !is_piped { Stream::Output } else { Stream::Error }, table);
    let mut text = String::new();
    if let Some(rounds) = arguments.check {
        let times = if rounds == 1 { "once".to_owned() } else { format!("{rounds} times") };
        let _ = writeln!(text, "the same in onnxruntime, compared {times}");
    }
    let nodes = |pass: Option<&Pass>| pass.map_or(0, |pass| pass.nodes);
    let (before, after) = (nodes(simplified.passes.first()), nodes(simplified.passes.last()));
    let seconds = elapsed.as_secs_f64();
    let _ = writeln!(text, "{after} of {} left in {seconds:.2} s", count(before, "node"));
    let files: Vec<&PathBuf> = files.iter().rev().collect();
    list(&mut text, "  ", &files, most, |text, path| {
        let _ = writeln!(text, "  {}", printable(&display_path(path)));
    });
    if arguments.dry_run {
        labelled(&mut text, STRONG, "dry run", "nothing was written");
    }
    summary.add(Stream::Error, text);
    summary
}

/// Returns the warnings as lines of JSON, and the files in the last line.
fn to_json(simplified: &Simplified, files: &[PathBuf]) -> Summary {
    let warnings: Vec<Diagnostic> =
        simplified.warnings.iter().map(|text| Diagnostic::warning(text)).collect();
    let mut lines = refusal::to_json(&warnings);
    let names: Vec<String> = files.iter().map(|path| path.display().to_string()).collect();
    let nodes = simplified.passes.last().map(|pass| pass.nodes);
    let _ = writeln!(lines, "{}", json!({ "done": { "files": names, "nodes": nodes } }));
    Summary::of_results(lines)
}

/// The total effect of a pass.
struct Change {
    name: &'static str,
    times: usize,
    nodes: isize,
}

/// Returns each pass once, in the order of the first runs.
fn changes(passes: &[Pass]) -> Vec<Change> {
    let mut changes: Vec<Change> = Vec::new();
    for (before, pass) in passes.iter().zip(passes.iter().skip(1)) {
        let nodes = pass.nodes.saturating_sub(before.nodes).cast_signed()
            - before.nodes.saturating_sub(pass.nodes).cast_signed();
        match changes.iter_mut().find(|change| change.name == pass.name) {
            Some(change) => {
                change.times += 1;
                change.nodes += nodes;
            }
            None => changes.push(Change { name: pass.name, times: 1, nodes }),
        }
    }
    changes
}
