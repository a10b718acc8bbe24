//! The command: arguments, output and exit codes.

mod arguments;
mod batch;
mod bundle;
mod check;
mod command;
mod condition;
mod convert;
mod destination;
mod diff;
mod exit;
mod explain;
mod form;
mod generate;
mod half;
mod input_value;
mod inspect;
mod location;
mod loss;
mod message;
mod net;
mod next;
mod options;
mod passes;
mod process;
mod program;
mod python;
mod quantize;
mod refusal;
mod repeated;
mod sampled;
mod shape;
mod simplify;
mod size;
mod split;
mod summary;
mod terminal;
mod variant;
mod verify;

use std::ffi::OsString;
use std::io::Write as _;

use command::Command;
use exit::{DONE, NOT_DONE, finish, finish_command};
use message::MessageFormat;
use next::Line;
pub use program::Program;
// For the Python package, which comes from the same source.
#[doc(hidden)]
pub use half::HALF_MODES;
#[doc(hidden)]
pub use python::{COMPARE, INT8_COSINE, MAX_LOSS, MODELS_TOLERANCE, QUANTIZE, SIZES, WEIGHTS};
#[doc(hidden)]
pub use quantize::candidates;

/// Returns the conditions on the free sizes of a net as a few clauses; `None` if there are none.
#[doc(hidden)]
pub fn conditions_in_words(conversion: &onnx2ncnn::Conversion) -> Option<String> {
    condition::describe(conversion, false).map(|text| text.replace(" (-v)", ""))
}

/// Runs the command line `words`, of which the first is the name of the program, and returns its exit code.
/// Help, and errors of the command line, end the process. `program` runs the command line of each model of a
/// batch.
pub fn run(words: impl IntoIterator<Item = OsString>, program: &Program) -> u8 {
    process::prepare();
    let code = run_command(Command::parse(words), program);
    let code = if code == DONE && terminal::lost_output() { NOT_DONE } else { code };
    // A process that is not a program of Rust does not do this at its end. A closed pipe is not an error.
    let _ = std::io::stdout().flush();
    code
}

fn run_command(command: Result<Command, clap::Error>, program: &Program) -> u8 {
    let command = match command {
        Ok(command) => command,
        Err(error) => error.exit(),
    };
    match command {
        Command::Convert(arguments) => {
            let format = arguments.format.message_format;
            let line = Line { options: &arguments.words, files: &arguments.named_files() };
            finish_command(convert::convert_files(&arguments), Some(line), arguments.report, format, true)
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
            finish_command(inspect::inspect_file(&arguments), None, arguments.report, format, false)
        }
        Command::Explain(arguments) => explain::explain(&arguments),
        Command::Runner(_) => generate::runner(),
        Command::Completions(arguments) => generate::completions(&arguments, command::command()),
        Command::Man(arguments) => generate::man(&arguments, command::command()),
        Command::Verify(arguments) => verify::verify_files(&arguments),
        Command::Check(arguments) => check::check_net(&arguments),
        Command::Diff(arguments) => diff::compare_nets(&arguments),
    }
}
