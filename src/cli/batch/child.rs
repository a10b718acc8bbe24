//! The process that converts one model, and its answer. The process runs this program with the options of the
//! batch.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, ExitStatus, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use onnx2ncnn::ncnn::Written;
use onnx2ncnn::{Conversion, Refusal};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::super::Program;

/// The variable of the environment that requests an answer.
pub(in crate::cli) const ANSWER: &str = "ONNX2NCNN_ANSWER";

/// The maximum bytes of output to keep from a process, which a hostile model may provoke.
const MAX_OUTPUT: u64 = 1 << 20;

/// The answer of a successful conversion, on standard output.
#[derive(Debug, Serialize, Deserialize)]
pub(in crate::cli) struct Answer {
    /// The model and its external data; empty if a path is not valid UTF-8.
    pub sources: Vec<PathBuf>,
    pub summary: Summary,
}

/// The facts of a net that a batch prints.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(in crate::cli) struct Summary {
    pub layers: usize,
    /// The bytes of both files.
    pub bytes: u64,
    pub warnings: Vec<String>,
}

/// The answer of a conversion that failed, on standard output.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(in crate::cli) struct Reasons {
    /// The errors, as in a report.
    pub diagnostics: Vec<Value>,
    /// Options with which the model, or a part of it, can be converted, as in a report.
    pub remedies: Vec<Value>,
}

impl Reasons {
    /// Returns the reasons of a refusal.
    pub fn of(refusal: &Refusal) -> Reasons {
        fn values(items: &[impl Serialize]) -> Vec<Value> {
            // The items are numbers and text, so no error is known.
            items.iter().filter_map(|item| serde_json::to_value(item).ok()).collect()
        }
        let report = refusal.report();
        Reasons { diagnostics: values(&report.diagnostics), remedies: values(&report.remedies) }
    }
}

impl Answer {
    /// Creates the answer of a conversion.
    pub fn of(conversion: &Conversion, written: &Written) -> Answer {
        let are_text = conversion.sources().iter().all(|path| path.to_str().is_some());
        Answer {
            sources: if are_text { conversion.sources().to_vec() } else { Vec::new() },
            summary: Summary {
                layers: written.layers,
                bytes: written.param_bytes.saturating_add(written.bin_bytes),
                warnings: conversion.warnings.iter().chain(&written.warnings).cloned().collect(),
            },
        }
    }
}

/// The result of a process.
pub(super) struct Ended {
    pub status: ExitStatus,
    /// Its output, with colours.
    pub output: String,
    /// The answer of a successful conversion.
    pub answer: Option<Answer>,
    /// The reasons of any other.
    pub reasons: Reasons,
    /// Whether it was stopped because it took too long.
    pub is_late: bool,
}

/// Converts one model in a new process, which keeps `lock` as long as it lives, and which is stopped after
/// `timeout`.
pub(super) fn convert(
    program: &Program,
    words: &[OsString],
    files: [&Path; 3],
    lock: File,
    timeout: Option<Duration>,
) -> io::Result<Ended> {
    let mut command = program.command().map_err(io::Error::other)?;
    command.args(words).args(["--color=always", "--"]).args(files).env(ANSWER, "1");
    let mut child = command.stdin(Stdio::from(lock)).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
    let (answer, output, is_late) = listen(&mut child, timeout);
    let status = child.wait()?;
    let (answer, reasons) = if status.success() {
        (serde_json::from_str(&answer).ok(), Reasons::default())
    } else {
        (None, serde_json::from_str(&answer).unwrap_or_default())
    };
    Ok(Ended { status, output, answer, reasons, is_late })
}

/// Reads both streams at once, since a process blocks if one of them is full. Stops the process after
/// `timeout`, and returns whether that happened.
fn listen(child: &mut Child, timeout: Option<Duration>) -> (String, String, bool) {
    let (answer, output) = (child.stdout.take(), child.stderr.take());
    let (done, ended) = mpsc::channel::<()>();
    thread::scope(|scope| {
        let answer = scope.spawn(move || read_all(answer));
        let watch = timeout.map(|timeout| {
            scope.spawn(move || {
                let is_late = ended.recv_timeout(timeout) == Err(RecvTimeoutError::Timeout);
                // A process that has just ended cannot be stopped.
                is_late && child.kill().is_ok()
            })
        });
        let output = read_all(output);
        let answer = answer.join().unwrap_or_default();
        drop(done);
        (answer, output, watch.is_some_and(|watch| watch.join().unwrap_or(false)))
    })
}

/// Reads up to the limit, and discards the rest.
fn read_all(from: Option<impl Read>) -> String {
    let Some(mut from) = from else { return String::new() };
    let mut kept = Vec::new();
    // A read error is treated as the end; the exit status decides whether it matters.
    let _ = from.by_ref().take(MAX_OUTPUT).read_to_end(&mut kept);
    let _ = io::copy(&mut from, &mut io::sink());
    String::from_utf8_lossy(&kept).into_owned()
}
