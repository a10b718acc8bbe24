//! The process that converts one model, and its answer. The process runs this program with the options of the
//! batch.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, ExitStatus, Stdio};
use std::thread;

use clap::parser::ValueSource;
use clap::{ArgMatches, Command};
use onnx2ncnn::Conversion;
use onnx2ncnn::ncnn::Written;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::super::Program;

/// The variable of the environment that requests an answer.
pub(in crate::cli) const ANSWER: &str = "ONNX2NCNN_ANSWER";

/// The maximum bytes of output to keep from a process, which a hostile model may provoke.
const MAX_SAID: u64 = 1 << 20;

/// The answer of a successful conversion, on standard output.
#[derive(Debug, Serialize, Deserialize)]
pub(in crate::cli) struct Answer {
    /// The model and its external data; empty if a path is not valid UTF-8.
    pub sources: Vec<PathBuf>,
    pub layers: usize,
    /// The bytes of both files.
    pub bytes: u64,
    pub warnings: usize,
}

impl Answer {
    /// Creates the answer of a conversion.
    pub fn of(conversion: &Conversion, written: &Written) -> Answer {
        let are_text = conversion.sources().iter().all(|path| path.to_str().is_some());
        Answer {
            sources: if are_text { conversion.sources().to_vec() } else { Vec::new() },
            layers: written.layers,
            bytes: written.param_bytes.saturating_add(written.bin_bytes),
            warnings: conversion.warnings.len().saturating_add(written.warnings.len()),
        }
    }
}

/// Returns the options of a command line that are among those of a conversion, `converting`, in an order that does not
/// depend on the line.
pub(in crate::cli) fn given_words(matches: &ArgMatches, converting: &Command) -> Vec<OsString> {
    /// Options of the batch process itself.
    const OWN: [&str; 4] = ["verbose", "quiet", "color", "out"];
    let mut words = Vec::new();
    for arg in converting.get_arguments().filter(|arg| !OWN.contains(&arg.get_id().as_str())) {
        let id = arg.get_id().as_str();
        let given = matches.ids().any(|known| known.as_str() == id)
            && matches.value_source(id) == Some(ValueSource::CommandLine);
        let (true, Some(long)) = (given, arg.get_long()) else { continue };
        if !arg.get_action().takes_values() {
            words.push(OsString::from(format!("--{long}")));
            continue;
        }
        for value in matches.get_raw(id).into_iter().flatten() {
            let mut word = OsString::from(format!("--{long}="));
            word.push(value);
            words.push(word);
        }
    }
    words
}

/// The result of a process.
pub(super) struct Ended {
    pub status: ExitStatus,
    /// Its output, with colours.
    pub said: String,
    /// The answer of a successful conversion.
    pub answer: Option<Answer>,
    /// The errors of any other, as in a report.
    pub diagnostics: Option<Value>,
}

/// Converts one model in a new process, which holds `lock` as long as it lives.
pub(super) fn convert(
    program: &Program,
    words: &[OsString],
    files: [&Path; 3],
    lock: File,
) -> io::Result<Ended> {
    let mut command = program.command().map_err(io::Error::other)?;
    command.args(words).args(["--color=always", "--"]).args(files).env(ANSWER, "1");
    let mut child = command.stdin(Stdio::from(lock)).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
    let (answer, said) = listen(&mut child);
    let status = child.wait()?;
    let (answer, diagnostics) = if status.success() {
        (serde_json::from_str(&answer).ok(), None)
    } else {
        (None, serde_json::from_str(&answer).ok())
    };
    Ok(Ended { status, said, answer, diagnostics })
}

/// Reads both streams at once, since a process blocks if one of them is full.
fn listen(child: &mut Child) -> (String, String) {
    let (answer, said) = (child.stdout.take(), child.stderr.take());
    thread::scope(|scope| {
        let answer = scope.spawn(move || read_all(answer));
        let said = read_all(said);
        (answer.join().unwrap_or_default(), said)
    })
}

/// Reads up to the limit, and discards the rest.
fn read_all(from: Option<impl Read>) -> String {
    let Some(mut from) = from else { return String::new() };
    let mut kept = Vec::new();
    // A read error is treated as the end; the exit status decides whether it matters.
    let _ = from.by_ref().take(MAX_SAID).read_to_end(&mut kept);
    let _ = io::copy(&mut from, &mut io::sink());
    String::from_utf8_lossy(&kept).into_owned()
}
