//! The compiler for a target: that of the machine, if it has the target's standard library. Otherwise Debian's
//! `rustc-web`, which builds the standard library from its source.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::run::{command, output, run, with_environment, with_path};
use crate::{Folders, Result, archive};

/// Where Debian has the source of the standard library.
const SOURCE: &str = "/usr/lib/rustlib/src/rust/library/std";

/// Debian's compiler of C for Windows, which links, too.
pub const MINGW: &str = "/usr/bin/x86_64-w64-mingw32-gcc";

/// The packages of PyPI that link for other systems, make wheels, and read manifests.
const PACKAGES: [&str; 4] = ["ziglang==0.15.2", "cargo-zigbuild==0.24.1", "maturin==1.16.0", "pyyaml==6.0.3"];

/// The oldest glibc that runs commands and wheels.
const GLIBC: &str = "2.17";

/// The oldest macOS: the first one of ARM64.
const MACOS: &str = "11.0";

/// The compiler for a target.
pub struct Toolchain {
    /// Whether the compiler of this machine has the standard library of the target.
    is_own: bool,
    /// The folder of the results: each compiler has a separate one.
    pub results: PathBuf,
    sysroot: PathBuf,
}

/// Returns the compiler for a target.
pub fn of(folders: &Folders, target: &str) -> Result<Toolchain> {
    let sysroot = output(&mut command(&folders.root, "rustc", &["--print", "sysroot"]))?;
    let sysroot = PathBuf::from(String::from_utf8(sysroot)?.trim());
    let is_own = sysroot.join("lib/rustlib").join(target).join("lib").exists();
    let folder = if is_own { "target" } else { "target/cross" };
    Ok(Toolchain { is_own, results: folders.root.join(folder).join(target), sysroot })
}

/// Returns `cargo WORDS --target TARGET`, and the folder of its results.
pub fn cargo(folders: &Folders, words: &[&str], target: &str) -> Result<(Command, PathBuf)> {
    let Toolchain { is_own, results, sysroot } = of(folders, target)?;
    let program = if is_own { "cargo" } else { "/usr/bin/cargo" };
    let mut cargo = command(&folders.root, program, words);
    cargo.args(["--target", target, "--target-dir"]).args(results.parent());
    // A wrapper of the toolchain that runs this program must not reach another one.
    cargo.env_remove("RUSTUP_TOOLCHAIN").env_remove("CARGO");
    if !is_own {
        install_debian(Path::new(SOURCE), &["rustc-web", "cargo-web", "rust-web-src", "lld"])?;
        // Debian's compiler finds the linker of WebAssembly by its name.
        let linker = sysroot.join("lib/rustlib").join(archive::host_target(folders)?).join("bin");
        with_path(&mut cargo, &linker)?;
        cargo.arg("-Zbuild-std=std,panic_abort").env("RUSTC", "/usr/bin/rustc").env("RUSTC_BOOTSTRAP", "1");
    }
    if target.contains("apple") {
        // Headers that zig lacks.
        let headers = format!("-I{}", folders.root.join("xtask/macos").display());
        cargo.env(format!("CFLAGS_{}", target.replace('-', "_")), headers);
        cargo.env("MACOSX_DEPLOYMENT_TARGET", MACOS);
    }
    Ok((cargo, results))
}

/// Returns whether a target is one of Linux.
pub fn is_linux(target: &str) -> bool {
    target.contains("linux")
}

/// Installs packages of Debian unless a file of them exists.
pub fn install_debian(file: &Path, packages: &[&str]) -> Result<()> {
    if file.exists() {
        return Ok(());
    }
    let here = Path::new(".");
    let install = ["install", "--quiet=2", "--no-install-recommends"];
    let installed = run(&mut command(here, "apt-get", &["update", "--quiet=2"]))
        .and_then(|()| run(&mut command(here, "apt-get", &[&install[..], packages].concat())));
    installed.map_err(|error| format!("{} is missing: {error}", file.display()).into())
}

/// Returns the folder of the programs of an environment of Python that has [`PACKAGES`].
pub fn environment(folders: &Folders) -> Result<PathBuf> {
    let programs = folders.root.join("target/xtask/venv/bin");
    // What was installed.
    let list = folders.root.join("target/xtask/venv/packages");
    if fs::read_to_string(&list).ok() != Some(PACKAGES.join(" ")) {
        run(&mut command(&folders.root, "python3", &["-m", "venv", "--clear", "target/xtask/venv"]))?;
        let pip = programs.join("python").display().to_string();
        let words = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check"];
        run(&mut command(&folders.root, &pip, &[&words[..], &PACKAGES[..]].concat()))?;
        fs::write(&list, PACKAGES.join(" "))?;
    }
    Ok(programs)
}

/// Makes a command of cargo compile C and link by zig, for the oldest glibc.
pub fn link_by_zig(cargo: &mut Command, programs: &Path, target: &str) -> Result<()> {
    let program = cargo.get_program().to_owned();
    let words: Vec<_> = cargo.get_args().map(std::ffi::OsStr::to_owned).collect();
    let versioned = if is_linux(target) { format!("{target}.{GLIBC}") } else { target.to_owned() };
    let mut zig = Command::new(programs.join("cargo-zigbuild"));
    for word in words {
        match word.to_str() {
            Some("build") => zig.arg("zigbuild"),
            Some(word) if word == target => zig.arg(&versioned),
            _ => zig.arg(word),
        };
    }
    with_environment(&mut zig, cargo);
    if let Some(folder) = cargo.get_current_dir() {
        zig.current_dir(folder);
    }
    zig.env("CARGO", program);
    with_path(&mut zig, programs)?;
    *cargo = zig;
    Ok(())
}
