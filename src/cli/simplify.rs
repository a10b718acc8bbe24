//! Simplifying.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::time::Instant;

use clap::Args;
use onnx2ncnn::error::Errors;
use onnx2ncnn::{Options, Simplified, simplify};

use super::arguments::{Report, STANDARD_INPUT, Source, input};
use super::destination::{refused, writable};
use super::summary::display_path;
use super::terminal::{count, printable};

const EXAMPLES: &str = "\
Examples:
  onnx2ncnn simplify model.onnx simple.onnx
  onnx2ncnn simplify model.onnx simple.onnx --input-shape 1,3,640,640
      fixes the sizes of a model's only input";

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
    pub report: Report,
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
    let files = simplified.write(&out)?;
    Ok(describe(&simplified, &files, start, arguments.report.verbose))
}

fn describe(simplified: &Simplified, files: &[PathBuf], start: Instant, verbose: bool) -> String {
    let mut text = String::new();
    let passes = &simplified.passes;
    if verbose {
        let width = passes.iter().map(|pass| pass.name.len()).max().unwrap_or(0);
        for pass in passes {
            let _ = writeln!(text, "{:width$}  {}", pass.name, count(pass.nodes, "node"));
        }
    }
    let (before, after) = (passes.first(), passes.last());
    let (before, after) = (before.map_or(0, |pass| pass.nodes), after.map_or(0, |pass| pass.nodes));
    let elapsed = start.elapsed().as_secs_f64();
    let _ = writeln!(text, "{} of {} left in {elapsed:.2} s", after, count(before, "node"));
    for path in files {
        let _ = writeln!(text, "  {}", printable(&display_path(path)));
    }
    text
}
