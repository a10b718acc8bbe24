//! Wheels of the Python package.

use std::fs;

use crate::run::{command, run, with_environment, with_path};
use crate::{Places, Result, archive, linux, toolchain};

/// Builds wheels for Linux, each for every Python from 3.9 on; elsewhere one for this machine.
pub fn build(places: &Places) -> Result<()> {
    let own = archive::host_target(places)?;
    let chosen = linux::chosen();
    for (target, ..) in linux::TARGETS.iter().filter(|(_, processor, _)| chosen(processor)) {
        let programs = linux::environment(places)?;
        let (cargo, results) = toolchain::cargo(places, &[], target)?;
        let words =
            ["build", "--zig", "--locked", "--manifest-path", "python/Cargo.toml", "--target", target];
        let dist = places.dist.display().to_string();
        let further = ["--compatibility", "manylinux2014", "--out", &dist];
        let maturin = programs.join("maturin").display().to_string();
        let mut maturin = command(&places.root, &maturin, &[&words[..], &further[..]].concat());
        maturin.env("CARGO_TARGET_DIR", results.parent().unwrap_or(&results));
        with_environment(&mut maturin, &cargo);
        if *target != own {
            maturin.env("CARGO", cargo.get_program()).env("CARGO_UNSTABLE_BUILD_STD", "std,panic_unwind");
        }
        with_path(&mut maturin, &programs)?;
        run(&mut maturin)?;
    }
    Ok(())
}

/// Installs the wheel for this machine into a new environment, and runs the tests of the package there.
pub fn test(places: &Places) -> Result<()> {
    let processor = std::env::consts::ARCH;
    for entry in fs::read_dir(&places.dist)? {
        let name = entry?.file_name().to_string_lossy().into_owned();
        if !(name.ends_with(".whl") && name.contains(processor)) {
            continue;
        }
        let python = places.root.join("target/xtask/wheel/bin/python").display().to_string();
        run(&mut command(&places.root, "python3", &["-m", "venv", "--clear", "target/xtask/wheel"]))?;
        let wheel = places.dist.join(name).display().to_string();
        let install = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check", &wheel];
        let needed = ["--requirement", "python/tests/requirements.txt"];
        run(&mut command(&places.root, &python, &[&install[..], &needed[..]].concat()))?;
        run(&mut command(&places.root, &python, &["-m", "pytest", "--quiet", "python/tests"]))?;
    }
    Ok(())
}
