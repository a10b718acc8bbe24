//! The command `onnx2ncnn`.

use std::ffi::OsString;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;

use onnx2ncnn::cli::{self, Program};
use pyo3::prelude::*;

/// Runs a command line, of which the first word is the name of the program, and returns its exit code. The
/// process `interpreter`, with the words `before` those of a command line, runs this module from the file
/// `library`.
#[pyfunction]
pub fn main(
    py: Python<'_>,
    words: Vec<OsString>,
    interpreter: PathBuf,
    before: Vec<OsString>,
    library: PathBuf,
) -> u8 {
    let program = Program::Interpreter { executable: interpreter, words: before, library };
    let run = || catch_unwind(AssertUnwindSafe(|| cli::run(words, &program)));
    // The process runs only the command: a panic may end it.
    py.detach(run).unwrap_or_else(|_| std::process::abort())
}
