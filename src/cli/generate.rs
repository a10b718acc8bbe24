//! Shell completions and the manual page, generated from the arguments, and the source of the program of
//! devices.

use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use clap::Args;
use clap_complete::Shell;
use onnx2ncnn::error::Error;

use super::exit::{DONE, finish};
use super::message::{MessageFormat, Report};

/// The name of the command.
const NAME: &str = "onnx2ncnn";

/// The output of errors.
const QUIET: Report = Report { verbose: false, quiet: true, color: clap::ColorChoice::Auto };

/// Write completions for a shell to standard output
#[derive(Debug, Args)]
pub(super) struct Completions {
    /// The shell
    pub shell: Shell,
}

/// Prints the completions of a shell.
pub(super) fn completions(arguments: &Completions, mut command: clap::Command) -> u8 {
    let mut text = Vec::new();
    clap_complete::generate(arguments.shell, &mut command, NAME, &mut text);
    tell(&text)
}

/// Write the manual page of the program or of a command to standard output
#[derive(Debug, Args)]
pub(super) struct Man {
    /// The command
    pub command: Option<String>,

    /// Write all pages to this folder, which is made
    #[arg(short, long, value_name = "DIR", conflicts_with = "command")]
    pub out: Option<PathBuf>,
}

/// Prints a manual page, or writes all of them.
pub(super) fn man(arguments: &Man, command: clap::Command) -> u8 {
    if let Some(folder) = &arguments.out {
        return match write_pages(documented(command), folder) {
            Ok(()) => DONE,
            Err(error) => {
                let error = Error::io("the pages cannot be written", error).in_file(folder);
                finish(Err(error.into()), QUIET, MessageFormat::Human)
            }
        };
    }
    let mut pages = documented(command);
    pages.build();
    let found = match &arguments.command {
        Some(name) => pages.find_subcommand(name).cloned(),
        None => Some(pages.clone()),
    };
    let Some(page) = found else {
        let names: Vec<&str> = pages.get_subcommands().map(clap::Command::get_name).collect();
        let error = Error::usage("unknown command").help(format!("the commands are {}", names.join(", ")));
        return finish(Err(error.into()), QUIET, MessageFormat::Human);
    };
    let mut text = Vec::new();
    // Writing to memory cannot fail.
    let _ = clap_mangen::Man::new(page).render(&mut text);
    tell(&text)
}

/// Writes a page for the program and for each of its commands.
fn write_pages(pages: clap::Command, folder: &Path) -> io::Result<()> {
    std::fs::create_dir_all(folder)?;
    clap_mangen::generate_to(pages.disable_help_subcommand(true), folder)
}

/// Returns a definition of the command line in which the short help has all options: the pages have the texts
/// of these.
fn documented(command: clap::Command) -> clap::Command {
    let shown = |command: clap::Command| command.mut_args(|arg| arg.hide_short_help(false));
    shown(command.name(NAME)).mut_subcommands(shown)
}

/// Write the source in C++ of the program that `verify --device` starts
#[derive(Debug, Args)]
pub(super) struct Runner {}

/// Prints the source.
pub(super) fn runner() -> u8 {
    tell(include_bytes!("runner.cpp"))
}

fn tell(text: &[u8]) -> u8 {
    // A closed pipe is not an error.
    let _ = io::stdout().write_all(text);
    DONE
}
