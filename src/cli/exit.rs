//! The end of a command: its exit code, and its summary or errors.

use std::collections::BTreeMap;

use onnx2ncnn::Refusal;
use onnx2ncnn::error::{Error, ErrorKind};

use super::message::{MessageFormat, Report};
use super::next::{Line, Next};
use super::summary::Summary;
use super::{refusal, terminal};

/// The exit code of a command that succeeded.
pub(super) const DONE: u8 = 0;
/// The exit code for a refused or invalid model.
pub(super) const REFUSED: u8 = 1;
/// The exit code for files that cannot be read or written, and for an invalid command line.
pub(super) const NOT_DONE: u8 = 2;
/// The exit code for a result that differs from the model's, and for a net that does not load.
pub(super) const DIFFERENT: u8 = 4;

/// Prints the summary or the errors of a command that writes files.
pub(super) fn finish(done: Result<Summary, Refusal>, report: Report, format: MessageFormat) -> u8 {
    finish_command(done, None, report, format, true)
}

/// Like [`finish`]; `line` is the command line, if it converts, and `writes` says whether the command writes
/// files on success.
pub(super) fn finish_command(
    done: Result<Summary, Refusal>,
    line: Option<Line>,
    report: Report,
    format: MessageFormat,
    writes: bool,
) -> u8 {
    match done {
        Ok(summary) => {
            if !report.quiet {
                summary.print(report.color);
            }
            DONE
        }
        Err(errors) => {
            match format {
                MessageFormat::Json => {
                    let told = errors.report();
                    let remedies = told.remedies.iter().map(|remedy| BTreeMap::from([("remedy", remedy)]));
                    let lines = refusal::to_json(&told.diagnostics) + &refusal::to_json(remedies);
                    terminal::print(&lines, report.color);
                }
                MessageFormat::Human => {
                    let next = line.map_or_else(Vec::new, |line| Next::after(&line, errors.remedies()));
                    let text = refusal::describe(errors.iter(), &next, report.verbose, writes);
                    terminal::tell(&text, report.color);
                }
            }
            exit_code(&errors)
        }
    }
}

/// Returns the highest exit code of all errors.
fn exit_code(errors: &Refusal) -> u8 {
    let code = |error: &Error| match error.kind() {
        ErrorKind::Io | ErrorKind::Usage => NOT_DONE,
        ErrorKind::Mismatch | ErrorKind::InvalidNet => DIFFERENT,
        // All other kinds concern the model.
        _ => REFUSED,
    };
    errors.iter().map(code).max().unwrap_or(REFUSED)
}
