//! Simplifying.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use clap::Args;
use onnx2ncnn::error::Errors;
use onnx2ncnn::{ExternalData, Options, Pass, Simplified, Storage, simplify};

use super::arguments::{Report, STANDARD_INPUT, Source, input};
use super::destination::{refused, writable};
use super::size::parse_bytes;
use super::summary::display_path;
use super::terminal::{count, list, printable};

const EXAMPLES: &str = "\
Examples:
  onnx2ncnn simplify model.onnx simple.onnx
  onnx2ncnn simplify model.onnx simple.onnx --input-shape 1,3,640,640
      fixes the sizes of a model's only input
  onnx2ncnn simplify large.onnx out/large.onnx --external-data large.data
      writes weights to out/large.data, which a model above 2 GB needs";

/// Write the simplified model as ONNX
///
/// It computes the same, with the same inputs and outputs. Operators that are not known stay as they are, and free sizes stay free.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Simplify {
    /// The ONNX model; - reads standard input
    pub model: PathBuf,

    /// The ONNX file to write
    pub out: PathBuf,

    /// Check the graph after every pass
    #[arg(long, help_heading = "Report")]
    pub check_passes: bool,

    #[command(flatten)]
    pub source: Source,

    #[command(flatten)]
    pub storage: StorageArguments,

    #[command(flatten)]
    pub report: Report,
}

/// Where weights are written.
#[derive(Debug, Args)]
#[command(next_help_heading = "External data")]
pub(super) struct StorageArguments {
    /// Write weights to this file in the folder of OUT
    #[arg(long, value_name = "FILE")]
    pub external_data: Option<String>,

    /// Keep weights of fewer bytes in OUT
    #[arg(long, value_name = "BYTES", value_parser = parse_threshold, requires = "external_data", default_value = "1024")]
    pub size_threshold: u64,

    /// Write a file each: FILE, a full stop and the name of the weight
    #[arg(long, requires = "external_data")]
    pub one_file_per_tensor: bool,

    /// Write tensors in attributes there too, which not every reader finds
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

/// Simplifies and writes; the answer is what there is to say about it.
pub(super) fn simplify_files(arguments: &Simplify) -> Result<String, Errors> {
    let start = Instant::now();
    let out = writable(&arguments.out)?;
    let model = &arguments.model;
    if model != Path::new(STANDARD_INPUT) && model.canonicalize().is_ok_and(|model| model == out) {
        return Err(refused(&out, "the result would overwrite the model itself").into());
    }
    let options = Options { check: arguments.check_passes, ..arguments.source.options() };
    let simplified = simplify(&input(model)?, &options)?;
    let files = simplified.write(&out, &arguments.storage.storage())?;
    Ok(describe(&simplified, &files, start.elapsed(), arguments.report.verbose))
}

/// Most files that are listed, unless all are asked for.
const MAX_FILES: usize = 10;

/// What each pass did, and what was written.
fn describe(simplified: &Simplified, files: &[PathBuf], elapsed: Duration, verbose: bool) -> String {
    let mut text = String::new();
    let changes = changes(&simplified.passes);
    let width = changes.iter().map(|change| change.name.len()).max().unwrap_or(0);
    for change in changes.iter().filter(|change| verbose || change.nodes != 0) {
        let nodes = count(change.nodes.unsigned_abs(), "node");
        let what = if change.nodes > 0 { "more" } else { "fewer" };
        let times = if change.times == 1 { String::new() } else { format!(", {} times", change.times) };
        let _ = writeln!(text, "{:width$}  {nodes} {what}{times}", change.name);
    }
    let nodes = |pass: Option<&Pass>| pass.map_or(0, |pass| pass.nodes);
    let (before, after) = (nodes(simplified.passes.first()), nodes(simplified.passes.last()));
    let seconds = elapsed.as_secs_f64();
    let _ = writeln!(text, "{after} of {} left in {seconds:.2} s", count(before, "node"));
    let most = if verbose { usize::MAX } else { MAX_FILES };
    let files: Vec<&PathBuf> = files.iter().rev().collect();
    list(&mut text, "  ", &files, most, |text, path| {
        let _ = writeln!(text, "  {}", printable(&display_path(path)));
    });
    text
}

/// What all runs of a pass did together.
struct Change {
    name: &'static str,
    times: usize,
    nodes: isize,
}

/// The passes, each once, in the order of their first run.
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
