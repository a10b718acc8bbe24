//! The result of a model as a line of JSON, for programs.

use std::path::PathBuf;

use anstream::adapter::strip_str;
use onnx2ncnn::Refusal;
use serde::Serialize;
use serde_json::Value;

use super::super::exit::REFUSED;
use super::outcome::Outcome;

/// The result of a model.
#[derive(Debug, Default, Serialize)]
struct Row<'a> {
    /// The name of the results, without the ending `.ncnn.param`, relative to the folder of results.
    name: &'a str,
    /// `converted`, `up to date`, `refused`, `failed` or `broken off`.
    status: &'static str,
    /// The number of layers of a converted model.
    layers: Option<usize>,
    /// The bytes of both files of a converted model.
    bytes: Option<u64>,
    /// The warnings of a converted model.
    warnings: &'a [String],
    /// The written files, below the folder of results.
    files: &'a [PathBuf],
    /// The seconds that the conversion took.
    seconds: Option<f64>,
    /// The errors, as in a report.
    diagnostics: Value,
    /// The output of the process of a model that was not converted.
    output: String,
}

/// Returns the line of a finished model; `None` if it is postponed.
pub(super) fn row(name: &str, outcome: &Outcome) -> Option<String> {
    let none = || Value::Array(Vec::new());
    let plain = |text: &str| strip_str(text).to_string();
    let empty = Row { name, diagnostics: none(), ..Row::default() };
    let row = match outcome {
        Outcome::Converted { answer, elapsed, files, .. } => Row {
            status: "converted",
            layers: Some(answer.layers),
            bytes: Some(answer.bytes),
            warnings: &answer.warnings,
            files,
            seconds: Some(elapsed.as_secs_f64()),
            ..empty
        },
        Outcome::UpToDate => Row { status: "up to date", ..empty },
        Outcome::Refused { code, output, diagnostics } => Row {
            status: if *code == REFUSED { "refused" } else { "failed" },
            diagnostics: diagnostics.clone().unwrap_or_else(none),
            output: plain(output),
            ..empty
        },
        Outcome::Broken { how, output } => {
            Row { status: "broken off", output: format!("the conversion {how}\n{}", plain(output)), ..empty }
        }
        Outcome::Failed(error) => Row { status: "failed", output: format!("{error:#}"), ..empty },
        Outcome::Busy => return None,
    };
    // The fields are numbers and text, so no error is known.
    serde_json::to_string(&row).ok()
}

/// Returns the errors of a refused model as JSON.
pub(in crate::cli) fn diagnostics(refusal: &Refusal) -> String {
    serde_json::to_string(&refusal.report().diagnostics).unwrap_or_default()
}
