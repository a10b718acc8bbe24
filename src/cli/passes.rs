//! The passes that can be left out.

use std::fmt::Write as _;
use std::io::Write as _;
use std::process::ExitCode;

use onnx2ncnn::{PassInfo, passes};

/// Writes the table of all passes. It is the answer to a question, so it goes to standard output.
pub(super) fn list() -> ExitCode {
    let passes: Vec<PassInfo> = passes().collect();
    let width = passes.iter().map(|pass| pass.name.len()).max().unwrap_or(0);
    let mut text = String::new();
    for PassInfo { name, about, .. } in passes {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "{name:width$}  {about}");
    }
    // A reader that has gone away has seen what it wanted.
    let _ = anstream::stdout().write_all(text.as_bytes());
    ExitCode::SUCCESS
}
