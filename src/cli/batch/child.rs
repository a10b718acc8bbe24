//! A process that converts one model, and what it answers: this program again, with the options that were given.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;

use clap::ArgMatches;
use clap::parser::ValueSource;
use onnx2ncnn::Conversion;
use onnx2ncnn::error::{Error, Result};
use onnx2ncnn::ncnn::Written;
use serde::{Deserialize, Serialize};

use super::super::command::command;

/// The option by which a process is told to answer.
const ANSWER: &str = "--answer";

/// Most bytes that are kept of what a process says; a hostile model may make it say much.
const MAX_SAID: u64 = 1 << 20;

/// What is said of a conversion that went well, on standard output.
#[derive(Debug, Serialize, Deserialize)]
pub(in crate::cli) struct Answer {
    /// The model and its external data; empty where a path is not a text.
    pub sources: Vec<PathBuf>,
    pub layers: usize,
    /// Bytes of both files.
    pub bytes: u64,
    pub warnings: usize,
}

impl Answer {
    /// What there is to say about a conversion.
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

/// The options of converting among those of a command line, in an order that does not depend on it.
pub(in crate::cli) fn given_words(matches: &ArgMatches) -> Vec<OsString> {
    /// What is said of one model is said by this process.
    const OWN: [&str; 3] = ["verbose", "quiet", "color"];
    let converting = command();
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

/// This program, even where its file has been replaced meanwhile.
pub(super) fn program() -> Result<PathBuf> {
    let running = Path::new("/proc/self/exe");
    if running.exists() {
        return Ok(running.to_owned());
    }
    std::env::current_exe().map_err(|e| Error::io("the program itself cannot be found", e))
}

/// How a process ended.
pub(super) struct Ended {
    pub status: ExitStatus,
    /// What it said, with colours.
    pub said: String,
    pub answer: Option<Answer>,
}

/// Converts one model in a process of its own, which holds `lock` as long as it lives.
pub(super) fn convert(
    program: &Path,
    words: &[OsString],
    files: [&Path; 3],
    lock: File,
) -> io::Result<Ended> {
    let mut command = Command::new(program);
    #[cfg(unix)]
    std::os::unix::process::CommandExt::arg0(&mut command, "onnx2ncnn");
    command.args(words).args([ANSWER, "--color=always", "--"]).args(files);
    let mut child = command.stdin(Stdio::from(lock)).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
    let (answer, said) = listen(&mut child);
    Ok(Ended { status: child.wait()?, said, answer: serde_json::from_str(&answer).ok() })
}

/// Both ends at once, since a process waits where one is full.
fn listen(child: &mut Child) -> (String, String) {
    let (answer, said) = (child.stdout.take(), child.stderr.take());
    thread::scope(|scope| {
        let answer = scope.spawn(move || read_all(answer));
        let said = read_all(said);
        (answer.join().unwrap_or_default(), said)
    })
}

/// As much as is kept; the rest is read past.
fn read_all(from: Option<impl Read>) -> String {
    let Some(mut from) = from else { return String::new() };
    let mut kept = Vec::new();
    // What cannot be read was not said; how the process ended tells whether that matters.
    let _ = from.by_ref().take(MAX_SAID).read_to_end(&mut kept);
    let _ = io::copy(&mut from, &mut io::sink());
    String::from_utf8_lossy(&kept).into_owned()
}
