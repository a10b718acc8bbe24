//! The systems that commands, libraries for C and wheels are built for.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::archive::{self, Built};
use crate::emulator::{self, Program};
use crate::run::run;
use crate::{Places, Result, toolchain};

/// A target of the compiler.
pub struct Target {
    pub triple: &'static str,
    pub linker: Linker,
    /// The emulator that runs its programs on another system.
    pub emulator: &'static emulator::Emulator,
}

/// What links for a target, and compiles C.
#[derive(Clone, Copy, PartialEq)]
pub enum Linker {
    /// Zig, for the oldest glibc that Rust supports.
    Zig,
    /// Debian's mingw.
    Mingw,
}

pub const TARGETS: [Target; 3] = [
    Target { triple: "x86_64-unknown-linux-gnu", linker: Linker::Zig, emulator: &emulator::QEMU_X86_64 },
    Target { triple: "aarch64-unknown-linux-gnu", linker: Linker::Zig, emulator: &emulator::QEMU_AARCH64 },
    Target { triple: "x86_64-pc-windows-gnu", linker: Linker::Mingw, emulator: &emulator::WINE },
];

/// Returns the targets that `XTASK_TARGETS` names, or `all`; without the variable, that of this machine.
pub fn chosen(places: &Places) -> Result<Vec<&'static Target>> {
    let asked = match std::env::var("XTASK_TARGETS") {
        Ok(asked) => asked,
        Err(_) => archive::host_target(places)?,
    };
    let is_known = |name: &str| name == "all" || TARGETS.iter().any(|target| target.triple == name);
    if let Some(name) = asked.split(',').find(|name| !is_known(name)) {
        return Err(format!("XTASK_TARGETS: {name} is not among the targets").into());
    }
    let is_chosen = |target: &&Target| asked.split(',').any(|name| name == "all" || name == target.triple);
    Ok(TARGETS.iter().filter(is_chosen).collect())
}

/// Builds commands, libraries for C, and their archives.
pub fn archives(places: &Places) -> Result<()> {
    for target in chosen(places)? {
        let built = build(places, target)?;
        let program = Program::new(places, target, &built.command)?;
        archive::of_command(places, &built, &program, target.triple)?;
    }
    Ok(())
}

fn build(places: &Places, target: &Target) -> Result<Built> {
    for words in [archive::COMMAND, archive::LIBRARY] {
        run(&mut cargo(places, words, target)?.0)?;
    }
    built(places, target)
}

/// Returns what was built for a target.
pub fn built(places: &Places, target: &Target) -> Result<Built> {
    Ok(Built::of(&toolchain::of(places, target.triple)?.results, target.triple))
}

/// Returns `cargo WORDS` that links for a target, and the folder of its results.
pub fn cargo(places: &Places, words: &[&str], target: &Target) -> Result<(Command, PathBuf)> {
    let (mut cargo, results) = toolchain::cargo(places, words, target.triple)?;
    match target.linker {
        Linker::Zig => toolchain::link_by_zig(&mut cargo, &toolchain::environment(places)?, target.triple)?,
        Linker::Mingw => {
            toolchain::install_debian(Path::new(toolchain::MINGW), &["gcc-mingw-w64-x86-64-posix"])?;
        }
    }
    Ok((cargo, results))
}
