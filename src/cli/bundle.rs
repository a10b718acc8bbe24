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

/// The most characters of the options of a net that are printed.
const MAX_OPTIONS: usize = 100;

/// Converts a folder to a bundle, and returns the summary.
pub(super) fn convert_to_bundle(arguments: &Arguments, to: &Path) -> Result<Summary, Refusal> {
    let start = Instant::now();
    let Arguments { split_at, variant, ultralytics, further, dry_run, verify, half, .. } = arguments;
    if !split_at.is_empty()
        || !variant.is_empty()
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
    let mut whole = Summary::default();
    for net in &bundle.nets {
        let destination =
            Destination { param: net.param.clone(), bin: net.bin.clone(), ..Destination::default() };
        let files = Files { destination: &destination, written: &net.written, dry_run: false };
        let model = printable(&net.model.display().to_string());
        let added = net.added.join(" ");
        let options = match added.len() {
            0 => String::new(),
            1..=MAX_OPTIONS => format!(" with {added}"),
            _ => " with the options in bundle.json".to_owned(),
        };
        whole.add(Stream::Error, format!("{}: {model}{options}\n", net.name));
        whole.append(summary::describe(&net.conversion, &files, start.elapsed(), arguments.report.verbose));
    }
    let mut text = String::new();
    for file in &bundle.further {
        let _ = writeln!(text, "  {}", printable(&file.display().to_string()));
    }
    let program = printable(&bundle.program.display().to_string());
    let _ = writeln!(text, "to run it:\n  python3 {program} {}", bundle.example);
    whole.add(Stream::Error, text);
    Ok(whole)
}
