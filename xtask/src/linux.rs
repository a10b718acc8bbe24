//! Commands for Linux that run everywhere: linked by zig to the oldest glibc that Rust supports.

use std::fs;
use std::path::PathBuf;

use crate::archive::Built;
use crate::run::{command, exists, run};
use crate::{Places, Result, archive, toolchain};

/// The glibc of the commands and wheels.
pub const GLIBC: &str = "2.17";

/// Targets, each with what runs its programs on another processor.
pub const TARGETS: [(&str, &str, &str); 2] = [
    ("x86_64-unknown-linux-gnu", "x86_64", "qemu-x86_64-static"),
    ("aarch64-unknown-linux-gnu", "aarch64", "qemu-aarch64-static"),
];

/// The packages of PyPI that link for other systems.
const PACKAGES: [&str; 3] = ["ziglang==0.15.2", "cargo-zigbuild==0.24.1", "maturin==1.16.0"];

/// Returns the folder of the programs of an environment of Python that has [`PACKAGES`].
pub fn environment(places: &Places) -> Result<PathBuf> {
    let programs = places.root.join("target/xtask/venv/bin");
    if !programs.join("cargo-zigbuild").exists() {
        run(&mut command(&places.root, "python3", &["-m", "venv", "--clear", "target/xtask/venv"]))?;
        let pip = programs.join("python").display().to_string();
        let words = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check"];
        run(&mut command(&places.root, &pip, &[&words[..], &PACKAGES[..]].concat()))?;
    }
    Ok(programs)
}

/// Builds the commands and their archives: for the processor of this machine, or those that `XTASK_TARGETS` names.
pub fn archives(places: &Places) -> Result<()> {
    let own = archive::host_target(places)?;
    let chosen = chosen();
    for (target, ..) in TARGETS.iter().filter(|(_, processor, _)| chosen(processor)) {
        let built = build(places, target)?;
        let runs = if *target == own { built.command.clone() } else { build(places, &own)?.command };
        archive::of_command(places, &built, &runs, target)?;
    }
    Ok(())
}

/// Returns whether a processor was asked for; without the variable, that of this machine.
pub fn chosen() -> impl Fn(&str) -> bool {
    let asked = std::env::var("XTASK_TARGETS").unwrap_or_else(|_| std::env::consts::ARCH.to_owned());
    move |processor| asked.split(',').any(|name| name == processor)
}

fn build(places: &Places, target: &str) -> Result<Built> {
    let programs = environment(places)?;
    let mut results = PathBuf::new();
    for words in [archive::COMMAND, archive::LIBRARY] {
        let (mut cargo, made) = toolchain::cargo(places, words, target)?;
        toolchain::link_by_zig(&mut cargo, &programs, target)?;
        run(&mut cargo)?;
        results = made;
    }
    Ok(Built::of(&results))
}

/// Runs what was built: each command converts the fixtures, and all write the same bytes.
pub fn run_built(places: &Places) -> Result<()> {
    let own = archive::host_target(places)?;
    let mut results: Vec<PathBuf> = Vec::new();
    for (target, processor, emulator) in TARGETS {
        let (_, made) = toolchain::cargo(places, &[], target)?;
        let built = Built::of(&made).command;
        if !built.exists() {
            eprintln!("{target}: not built");
            continue;
        }
        let results_folder = places.root.join("target/xtask/fixtures").join(processor);
        if results_folder.exists() {
            fs::remove_dir_all(&results_folder)?;
        }
        let built = built.display().to_string();
        let out = results_folder.display().to_string();
        let batch = ["batch", "fixtures", "--out", &out, "--quiet", "--jobs", "2"];
        let mut converts = if target == own {
            command(&places.root, &built, &batch)
        } else if exists(emulator) {
            command(&places.root, emulator, &[&[built.as_str()], &batch[..]].concat())
        } else {
            eprintln!("{target}: not run, there is no {emulator}");
            continue;
        };
        // Some fixtures are refused, which the exit code tells.
        eprintln!("{target}: {}", converts.status()?);
        results.push(results_folder);
    }
    let compared = results.iter().zip(results.iter().skip(1));
    for (one, other) in compared {
        let (one, other) = (one.display().to_string(), other.display().to_string());
        run(&mut command(
            &places.root,
            "diff",
            &["--recursive", "--brief", "--exclude=.onnx2ncnn", &one, &other],
        ))?;
    }
    Ok(())
}
