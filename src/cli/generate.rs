//! Files for a shell and for `man`, made of the arguments themselves.

use std::io::Write as _;
use std::process::ExitCode;

use clap::Args;
use clap_complete::Shell;

use super::command::command;

/// The name that users call the command by.
const NAME: &str = "onnx2ncnn";

/// Write completions for a shell to standard output
#[derive(Debug, Args)]
pub(super) struct Completions {
    /// The shell
    pub shell: Shell,
}

/// Writes what a shell reads to complete the command line.
pub(super) fn completions(arguments: &Completions) -> ExitCode {
    let mut text = Vec::new();
    clap_complete::generate(arguments.shell, &mut command(), NAME, &mut text);
    tell(&text)
}

/// Writes the page of the manual.
pub(super) fn man() -> ExitCode {
    let mut text = Vec::new();
    // Writing to memory cannot fail.
    let _ = clap_mangen::Man::new(command().name(NAME)).render(&mut text);
    tell(&text)
}

fn tell(text: &[u8]) -> ExitCode {
    // A reader that has gone away has seen what it wanted.
    let _ = std::io::stdout().write_all(text);
    ExitCode::SUCCESS
}
