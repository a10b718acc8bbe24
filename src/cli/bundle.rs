//! The conversion of a folder to a bundle.

use std::fmt::Write as _;
use std::path::Path;
use std::time::Instant;

use onnx2ncnn::error::Error;
use onnx2ncnn::{Refusal, convert_folder};

use super::arguments::Arguments;
use super::destination::Destination;
use super::summary::{self, Files, Stream, Summary};
use super::terminal::printable;

/// Converts the folder of a model of texts, and returns the summary.
pub(super) fn convert_to_bundle(arguments: &Arguments, to: &Path) -> Result<Summary, Refusal> {
    let start = Instant::now();
    let Arguments { split_at, ultralytics, further, dry_run, verify, half, .. } = arguments;
    if !split_at.is_empty()
        || ultralytics.is_some()
        || further.files().next().is_some()
        || *dry_run
        || *verify
        || half.data.is_some()
    {
        let what = "a folder becomes a folder of fixed files: other results than -o are for a model";
        return Err(Error::usage(what).in_file(&arguments.model).into());
    }
    let converter = arguments.choices.apply(arguments.source.converter()?)?;
    let bundle = convert_folder(&converter, &arguments.model, to)?;
    let destination =
        Destination { param: bundle.param.clone(), bin: bundle.bin.clone(), ..Destination::default() };
    let files = Files { destination: &destination, written: &bundle.written, dry_run: false };
    let mut summary =
        summary::describe(&bundle.conversion, &files, start.elapsed(), arguments.report.verbose);
    let mut text = String::new();
    for file in &bundle.further {
        let _ = writeln!(text, "  {}", printable(&file.display().to_string()));
    }
    let model = printable(&bundle.model.display().to_string());
    let added =
        if bundle.added.is_empty() { String::new() } else { format!(" with {}", bundle.added.join(" ")) };
    let _ = writeln!(text, "the {} is {model}{added}; to run it:", bundle.net);
    let program = printable(&bundle.program.display().to_string());
    let _ = writeln!(text, "  python3 {program} {}", bundle.example());
    summary.add(Stream::Error, text);
    Ok(summary)
}
