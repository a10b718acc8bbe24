//! The command: arguments, output and exit codes.

mod arguments;
mod batch;
mod command;
mod condition;
mod convert;
mod destination;
mod explain;
mod generate;
mod input_value;
mod inspect;
mod next;
mod options;
mod passes;
mod place;
mod process;
mod program;
mod python;
mod quantize;
mod refusal;
mod shape;
mod simplify;
mod size;
mod summary;
mod terminal;
mod verify;

use std::ffi::OsString;
use std::io::Write as _;

use onnx2ncnn::Refusal;
use onnx2ncnn::error::{Error, ErrorKind};

use arguments::{MessageFormat, Report};
use command::Command;
use next::Next;
pub use program::Program;
use summary::Summary;
// For the Python package, which comes from the same source.
#[doc(hidden)]
pub use python::{COMPARE, MODELS_TOLERANCE, QUANTIZE, SIZES};
#[doc(hidden)]
pub use quantize::candidates;
#[doc(hidden)]
pub use verify::INT8_COSINE;

/// The exit code of a command that succeeded.
const DONE: u8 = 0;
/// The exit code for a refused or invalid model.
const REFUSED: u8 = 1;
/// The exit code for files that cannot be read or written, and for an invalid command line.
const NOT_DONE: u8 = 2;

/// The exit code for a result that differs from the model's.
const DIFFERENT: u8 = 4;

/// Runs the command line `words`, of which the first is the name of the program, and returns its exit code.
/// Help, and errors of the command line, end the process. `program` runs the command line of each model of a
/// batch.
pub fn run(words: impl IntoIterator<Item = OsString>, program: &Program) -> u8 {
    process::prepare();
    let words: Vec<OsString> = words.into_iter().collect();
    let code = run_command(Command::parse(words.clone()), &words, program);
    // A process that is not a program of Rust does not do this at its end. A closed pipe is not an error.
    let _ = std::io::stdout().flush();
    code
}

fn run_command(command: Result<Command, clap::Error>, words: &[OsString], program: &Program) -> u8 {
    let command = match command {
        Ok(command) => command,
        Err(error) => error.exit(),
    };
    match command {
        Command::Convert(arguments) => {
            let format = arguments.format.message_format;
            finish_command(convert::convert_files(&arguments), words, arguments.report, format, true)
        }
        Command::ListPasses => passes::list(),
        Command::Simplify(arguments) => {
            let format = arguments.format.message_format;
            finish(simplify::simplify_files(&arguments), arguments.report, format)
        }
        Command::Quantize(arguments) => {
            let format = arguments.format.message_format;
            finish(quantize::quantize_files(&arguments), arguments.report, format)
        }
        Command::Batch(arguments) => batch::convert_all(&arguments, program),
        Command::Inspect(arguments) => {
            let format = if arguments.json { MessageFormat::Json } else { MessageFormat::Human };
            finish_command(inspect::inspect_file(&arguments), &[], arguments.report, format, false)
        }
        Command::Explain(arguments) => explain::explain(&arguments),
        Command::Completions(arguments) => generate::completions(&arguments),
        Command::Man(arguments) => generate::man(&arguments),
        Command::Verify(arguments) => verify::verify_files(&arguments),
    }
}

/// Prints the summary or the errors of a command that writes files.
fn finish(done: Result<Summary, Refusal>, report: Report, format: MessageFormat) -> u8 {
    finish_command(done, &[], report, format, true)
}

/// Like [`finish`]; `words` is the command line, if it converts, and `writes` says whether the command writes files on success.
fn finish_command(
    done: Result<Summary, Refusal>,
    words: &[OsString],
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
                    terminal::print(&refusal::to_json(&errors.report().diagnostics), report.color);
                }
                MessageFormat::Human => {
                    let remedies = if words.is_empty() { &[] } else { errors.remedies() };
                    let next = Next::after(words, remedies);
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
        ErrorKind::Mismatch => DIFFERENT,
        // All other kinds concern the model.
        _ => REFUSED,
    };
    errors.iter().map(code).max().unwrap_or(REFUSED)
}
