//! Programs that a build calls.

use std::path::Path;
use std::process::{Command, Stdio};

use crate::Result;

/// Returns a command in a folder.
pub fn command(folder: &Path, program: &str, words: &[&str]) -> Command {
    let mut command = Command::new(program);
    command.args(words).current_dir(folder);
    command
}

/// Runs a command, and returns an error if it fails.
pub fn run(command: &mut Command) -> Result<()> {
    let line = line(command);
    eprintln!("+ {line}");
    let status = command.status().map_err(|error| format!("{line}: {error}"))?;
    if status.success() { Ok(()) } else { Err(format!("{line}: {status}").into()) }
}

/// Runs a command, and returns its standard output.
pub fn output(command: &mut Command) -> Result<Vec<u8>> {
    let line = line(command);
    let done = command.stderr(Stdio::inherit()).output().map_err(|error| format!("{line}: {error}"))?;
    if done.status.success() { Ok(done.stdout) } else { Err(format!("{line}: {}", done.status).into()) }
}

/// Puts the programs of a folder before others that a command finds.
pub fn with_path(command: &mut Command, folder: &Path) -> Result<()> {
    let set =
        command.get_envs().find(|(name, _)| *name == "PATH").and_then(|(_, path)| Some(path?.to_owned()));
    let old = set.or_else(|| std::env::var_os("PATH")).unwrap_or_default();
    let all = std::iter::once(folder.to_owned()).chain(std::env::split_paths(&old));
    command.env("PATH", std::env::join_paths(all)?);
    Ok(())
}

/// Gives a command the changes of the environment that another one has.
pub fn with_environment(command: &mut Command, of: &Command) {
    for (name, value) in of.get_envs() {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
}

fn line(command: &Command) -> String {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    words.map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ")
}
