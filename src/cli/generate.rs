//! Shell completions and the manual page, generated from the arguments.

use std::io::Write as _;

use clap::Args;
use clap_complete::Shell;

use super::DONE;
use super::command::command;

/// The name of the command.
const NAME: &str = "onnx2ncnn";

/// Write completions for a shell to standard output
#[derive(Debug, Args)]
pub(super) struct Completions {
    /// The shell
    pub shell: Shell,
}

/// Prints the completions of a shell.
pub(super) fn completions(arguments: &Completions) -> u8 {
    let mut text = Vec::new();
    clap_complete::generate(arguments.shell, &mut command(), NAME, &mut text);
    tell(&text)
}

/// Prints the manual page.
pub(super) fn man() -> u8 {
    let mut text = Vec::new();
    // Writing to memory cannot fail.
    let _ = clap_mangen::Man::new(command().name(NAME)).render(&mut text);
    tell(&text)
}

fn tell(text: &[u8]) -> u8 {
    // A closed pipe is not an error.
    let _ = std::io::stdout().write_all(text);
    DONE
}
