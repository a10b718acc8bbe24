//! Wheels of the Python package.

use std::fs;

use crate::run::{command, run, with_environment, with_path};
use crate::targets::{self, Linker};
use crate::{Folders, Result, archive, toolchain};

/// Builds wheels, each for every Python from 3.9 on.
pub fn build(folders: &Folders) -> Result<()> {
    for target in targets::chosen(folders)? {
        let programs = toolchain::environment(folders)?;
        let (cargo, results) = toolchain::cargo(folders, &[], target.triple)?;
        let dist = folders.dist.display().to_string();
        let words = ["build", "--locked", "--manifest-path", "python/Cargo.toml", "--target", target.triple];
        let mut maturin = command(&folders.root, &programs.join("maturin").display().to_string(), &words);
        maturin.args(["--out", &dist]);
        if target.linker == Linker::Zig {
            maturin.arg("--zig");
        }
        if toolchain::is_linux(target.triple) {
            maturin.args(["--compatibility", "manylinux2014"]);
        }
        maturin.env("CARGO_TARGET_DIR", results.parent().unwrap_or(&results));
        with_environment(&mut maturin, &cargo);
        if target.triple != archive::host_target(folders)? {
            maturin.env("CARGO", cargo.get_program()).env("CARGO_UNSTABLE_BUILD_STD", "std,panic_unwind");
        }
        with_path(&mut maturin, &programs)?;
        run(&mut maturin)?;
    }
    Ok(())
}

/// Installs the wheel for this machine into a new environment, and runs the tests of the package there.
pub fn test(folders: &Folders) -> Result<()> {
    let [system, processor] = [std::env::consts::OS, std::env::consts::ARCH];
    for entry in fs::read_dir(&folders.dist)? {
        let name = entry?.file_name().to_string_lossy().into_owned();
        if !(name.ends_with(".whl") && name.contains(system) && name.contains(processor)) {
            continue;
        }
        let python = folders.root.join("target/xtask/wheel/bin/python").display().to_string();
        run(&mut command(&folders.root, "python3", &["-m", "venv", "--clear", "target/xtask/wheel"]))?;
        let wheel = folders.dist.join(name).display().to_string();
        let install = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check", &wheel];
        let needed = ["--requirement", "python/tests/requirements.txt"];
        run(&mut command(&folders.root, &python, &[&install[..], &needed[..]].concat()))?;
        run(&mut command(&folders.root, &python, &["-m", "pytest", "--quiet", "python/tests"]))?;
    }
    Ok(())
}
