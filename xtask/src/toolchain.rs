//! The compiler for a target: that of the machine, if it has the target's standard library. Otherwise Debian's
//! `rustc-web`, which builds the standard library from its source.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::run::{self, command, output};
use crate::{Places, Result, archive, linux};

/// Where Debian has the source of the standard library.
const SOURCE: &str = "/usr/lib/rustlib/src/rust/library/std";

/// Returns `cargo COMMAND --target TARGET`, and the folder of its results: each compiler has one of its own.
pub fn cargo(places: &Places, words: &[&str], target: &str) -> Result<(Command, PathBuf)> {
    let sysroot = output(&mut command(&places.root, "rustc", &["--print", "sysroot"]))?;
    let sysroot = String::from_utf8(sysroot)?;
    let sysroot = sysroot.trim();
    let own = archive::host_target(places)?;
    let has_target = Path::new(sysroot).join("lib/rustlib").join(target).join("lib").exists();
    if !has_target && !Path::new(SOURCE).exists() {
        return Err(format!(
            "the standard library for {target} is missing: `rustup target add {target}`, \
                or Debian's `apt-get install rustc-web cargo-web rust-web-src lld`"
        )
        .into());
    }
    let (program, results) =
        if has_target { ("cargo", "target") } else { ("/usr/bin/cargo", "target/cross") };
    let mut cargo = command(&places.root, program, words);
    cargo.args(["--target", target, "--target-dir", results]);
    // A wrapper of the toolchain that runs this program must not reach another one.
    cargo.env_remove("RUSTUP_TOOLCHAIN").env_remove("CARGO");
    if !has_target {
        // Debian's compiler finds the linker of WebAssembly by its name.
        let linker = Path::new(sysroot).join("lib/rustlib").join(own).join("bin");
        run::with_path(&mut cargo, &linker)?;
        cargo.arg("-Zbuild-std=std,panic_abort").env("RUSTC", "/usr/bin/rustc").env("RUSTC_BOOTSTRAP", "1");
    }
    Ok((cargo, places.root.join(results).join(target)))
}

/// Makes a command of cargo compile C and link by zig, for the oldest glibc.
pub fn link_by_zig(cargo: &mut Command, programs: &Path, target: &str) -> Result<()> {
    let program = cargo.get_program().to_owned();
    let words: Vec<_> = cargo.get_args().map(std::ffi::OsStr::to_owned).collect();
    let versioned = format!("{target}.{}", linux::GLIBC);
    let mut zig = Command::new(programs.join("cargo-zigbuild"));
    for word in words {
        match word.to_str() {
            Some("build") => zig.arg("zigbuild"),
            Some(word) if word == target => zig.arg(&versioned),
            _ => zig.arg(word),
        };
    }
    run::with_environment(&mut zig, cargo);
    if let Some(folder) = cargo.get_current_dir() {
        zig.current_dir(folder);
    }
    zig.env("CARGO", program);
    run::with_path(&mut zig, programs)?;
    *cargo = zig;
    Ok(())
}
