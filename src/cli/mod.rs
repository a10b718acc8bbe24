//! The command: what it is told, what it tells, and what it answers.

mod arguments;
mod destination;
mod refusal;
mod shape;
mod size;
mod summary;
mod terminal;

use std::io::IsTerminal;
use std::process::ExitCode;
use std::time::Instant;

use clap::Parser;
use onnx2ncnn::error::{Error, ErrorKind, Errors};
use onnx2ncnn::{Input, Options, ReadOptions, convert};

use arguments::Arguments;
use destination::Destination;

/// The exit code of a model that is refused or invalid.
const REFUSED: u8 = 1;
/// The exit code of files that cannot be read or written; the parser of the command line uses it too.
const NOT_DONE: u8 = 2;

/// Runs the command with the arguments of this process.
pub fn run() -> ExitCode {
    let arguments = Arguments::parse();
    match convert_files(&arguments) {
        Ok(summary) => {
            if !arguments.quiet {
                terminal::tell(&summary, arguments.color);
            }
            ExitCode::SUCCESS
        }
        Err(errors) => {
            terminal::tell(
                &refusal::describe(errors.iter(), errors.cut(), arguments.verbose),
                arguments.color,
            );
            ExitCode::from(exit_code(&errors))
        }
    }
}

/// The highest exit code of all errors.
fn exit_code(errors: &Errors) -> u8 {
    let code = |error: &Error| match error.kind() {
        ErrorKind::Parse
        | ErrorKind::Invalid
        | ErrorKind::Unsupported
        | ErrorKind::Limit
        | ErrorKind::Internal => REFUSED,
        ErrorKind::Io | ErrorKind::Usage => NOT_DONE,
    };
    errors.iter().map(code).max().unwrap_or(REFUSED)
}

/// Converts and writes; the answer is what there is to say about it.
fn convert_files(arguments: &Arguments) -> Result<String, Errors> {
    let start = Instant::now();
    let destination = Destination::of(arguments)?;
    let input = Input::from_arg(&arguments.model);
    if input == Input::Stdin && std::io::stdin().is_terminal() {
        return Err(Error::usage("standard input is a terminal, which has no model to give").into());
    }
    let conversion = convert(&input, &options(arguments, &destination))?;
    let written = conversion.write(&destination.param, &destination.bin)?;
    Ok(summary::describe(&conversion, &written, &destination, start.elapsed(), arguments.verbose))
}

fn options(arguments: &Arguments, destination: &Destination) -> Options {
    let mut read = ReadOptions { data_dir: arguments.data_dir.clone(), ..ReadOptions::default() };
    if let Some(max_size) = arguments.max_size {
        read.max_size = max_size;
    }
    let shapes = arguments.input_shape.iter();
    Options {
        input_shapes: shapes
            .map(|given| (given.name.clone().unwrap_or_default(), given.shape.clone()))
            .collect(),
        inputs: arguments.inputs.clone(),
        outputs: arguments.outputs.clone(),
        double_as_float: arguments.double_as_float,
        emit_onnx: destination.onnx.clone(),
        skip: arguments.skip.iter().cloned().collect(),
        check: arguments.check,
        read,
    }
}
