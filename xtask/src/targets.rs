//! The systems that commands, libraries for C and wheels are built for.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::archive::{self, Built};
use crate::emulator::{self, Program};
use crate::run::run;
use crate::{Folders, Result, toolchain};

/// A target of the compiler.
pub struct Target {
    pub triple: &'static str,
    pub linker: Linker,
    /// The emulator that runs its programs on another system, if there is one.
    pub emulator: Option<&'static emulator::Emulator>,
}

/// What links for a target, and compiles C.
#[derive(Clone, Copy, PartialEq)]
pub enum Linker {
    /// Zig, for the oldest glibc that Rust supports, or with a description of the libraries of macOS.
    Zig,
    /// Debian's mingw.
    Mingw,
}

pub const TARGETS: [Target; 5] = [
    target("x86_64-unknown-linux-gnu", Linker::Zig, Some(&emulator::QEMU_X86_64)),
    target("aarch64-unknown-linux-gnu", Linker::Zig, Some(&emulator::QEMU_AARCH64)),
    target("x86_64-pc-windows-gnu", Linker::Mingw, Some(&emulator::WINE)),
    target("aarch64-apple-darwin", Linker::Zig, None),
    target("x86_64-apple-darwin", Linker::Zig, None),
];

const fn target(
    triple: &'static str,
    linker: Linker,
    emulator: Option<&'static emulator::Emulator>,
) -> Target {
    Target { triple, linker, emulator }
}

/// Returns the targets that `XTASK_TARGETS` names, or `all`; without the variable, that of this machine.
pub fn chosen(folders: &Folders) -> Result<Vec<&'static Target>> {
    let asked = match std::env::var("XTASK_TARGETS") {
        Ok(asked) => asked,
        Err(_) => archive::host_target(folders)?,
    };
    let is_known = |name: &str| name == "all" || TARGETS.iter().any(|target| target.triple == name);
    if let Some(name) = asked.split(',').find(|name| !is_known(name)) {
        return Err(format!("XTASK_TARGETS: {name} is not among the targets").into());
    }
    let is_chosen = |target: &&Target| asked.split(',').any(|name| name == "all" || name == target.triple);
    Ok(TARGETS.iter().filter(is_chosen).collect())
}

/// Builds commands, libraries for C, and their archives.
pub fn archives(folders: &Folders) -> Result<()> {
    for target in chosen(folders)? {
        let built = build(folders, target)?;
        let program = match Program::new(folders, target, &built.command)? {
            Some(program) => program,
            // Manual pages and completions are the same on every system.
            None => Program::native(&build(folders, host(folders)?)?.command),
        };
        archive::of_command(folders, &built, &program, target.triple)?;
    }
    Ok(())
}

/// Returns the target of this machine.
fn host(folders: &Folders) -> Result<&'static Target> {
    let name = archive::host_target(folders)?;
    let found = TARGETS.iter().find(|target| target.triple == name);
    Ok(found.ok_or_else(|| format!("{name} is not among the targets"))?)
}

fn build(folders: &Folders, target: &Target) -> Result<Built> {
    for words in [archive::COMMAND, archive::LIBRARY] {
        run(&mut cargo(folders, words, target)?.0)?;
    }
    built(folders, target)
}

/// Returns what was built for a target.
pub fn built(folders: &Folders, target: &Target) -> Result<Built> {
    Ok(Built::of(&toolchain::of(folders, target.triple)?.results, target.triple))
}

/// Returns `cargo WORDS` that links for a target, and the folder of its results.
pub fn cargo(folders: &Folders, words: &[&str], target: &Target) -> Result<(Command, PathBuf)> {
    let (mut cargo, results) = toolchain::cargo(folders, words, target.triple)?;
    match target.linker {
        Linker::Zig => toolchain::link_by_zig(&mut cargo, &toolchain::environment(folders)?, target.triple)?,
        Linker::Mingw => {
            toolchain::install_debian(Path::new(toolchain::MINGW), &["gcc-mingw-w64-x86-64-posix"])?;
        }
    }
    Ok((cargo, results))
}
