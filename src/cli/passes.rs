//! The option `--list-passes`.

use std::fmt::Write as _;
use std::io::Write as _;

use onnx2ncnn::{PassInfo, passes};

use super::exit::DONE;

/// Prints the table of all passes to standard output.
pub(super) fn list() -> u8 {
    let passes: Vec<PassInfo> = passes().collect();
    let width = passes.iter().map(|pass| pass.name.len()).max().unwrap_or(0);
    let mut text = String::new();
    for PassInfo { name, about, .. } in passes {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "{name:width$}  {about}");
    }
    // A closed pipe is not an error.
    let _ = anstream::stdout().write_all(text.as_bytes());
    DONE
}
