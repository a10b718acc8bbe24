//! The result of a model as a line of JSON, for programs.

use std::path::PathBuf;

use anstream::adapter::strip_str;
use serde::Serialize;

use super::super::exit::{DIFFERENT, REFUSED};
use super::child::{Reasons, Summary};
use super::outcome::Outcome;

/// The result of a model.
#[derive(Debug, Serialize)]
struct Row<'a> {
    /// The name of the results, without the ending `.ncnn.param`, relative to the folder of results.
    name: &'a str,
    /// `converted`, `up to date`, `refused`, `failed`, `differs`, `timed out` or `broken off`.
    status: &'static str,
    /// The number of layers of the net.
    layers: Option<usize>,
    /// The bytes of both files of the net.
    bytes: Option<u64>,
    /// The warnings about the net.
    warnings: &'a [String],
    /// The files of the result, below the folder of results.
    files: &'a [PathBuf],
    /// The seconds that the conversion took.
    seconds: Option<f64>,
    #[serde(flatten)]
    reasons: &'a Reasons,
    /// The output of the process of a model that was not converted.
    output: String,
}

impl<'a> Row<'a> {
    /// Adds the net.
    fn of_net(self, summary: &'a Summary, files: &'a [PathBuf]) -> Row<'a> {
        let (layers, bytes) = (Some(summary.layers), Some(summary.bytes));
        Row { layers, bytes, warnings: &summary.warnings, files, ..self }
    }
}

/// Returns the status of a model whose conversion ended with an exit code.
pub(super) fn status_of(code: u8) -> &'static str {
    match code {
        REFUSED => "refused",
        DIFFERENT => "differs",
        _ => "failed",
    }
}

/// Returns the line of a finished model; `None` if it is postponed.
pub(super) fn row(name: &str, outcome: &Outcome) -> Option<String> {
    let plain = |text: &str| strip_str(text).to_string();
    let no_reasons = Reasons::default();
    let empty = |status| Row {
        name,
        status,
        layers: None,
        bytes: None,
        warnings: &[],
        files: &[],
        seconds: None,
        reasons: &no_reasons,
        output: String::new(),
    };
    let row = match outcome {
        Outcome::Converted { summary, elapsed, files, .. } => {
            Row { seconds: Some(elapsed.as_secs_f64()), ..empty("converted").of_net(summary, files) }
        }
        Outcome::UpToDate { summary, files } => empty("up to date").of_net(summary, files),
        Outcome::Refused { code, output, reasons } => {
            Row { reasons, output: plain(output), ..empty(status_of(*code)) }
        }
        Outcome::Broken { how, is_late, output } => {
            let status = if *is_late { "timed out" } else { "broken off" };
            Row { output: format!("the conversion {how}\n{}", plain(output)), ..empty(status) }
        }
        Outcome::Failed(error) => Row { output: format!("{error:#}"), ..empty("failed") },
        Outcome::Busy => return None,
    };
    // The fields are numbers and text, so no error is known.
    serde_json::to_string(&row).ok()
}
