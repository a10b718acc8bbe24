//! Archives of the command and the library for C: with licences, manual pages and completions.

use std::fs;
use std::path::{Path, PathBuf};

use crate::emulator::Program;
use crate::run::{command, output, run};
use crate::{Folders, Result, dependencies};

const SHELLS: [(&str, &str); 4] = [
    ("bash", "onnx2ncnn.bash"),
    ("zsh", "_onnx2ncnn"),
    ("fish", "onnx2ncnn.fish"),
    ("powershell", "onnx2ncnn.ps1"),
];

/// The names of the library for C, on Linux, macOS and Windows.
const LIBRARIES: [&str; 5] = [
    "libonnx2ncnn_c.a",
    "libonnx2ncnn_c.so",
    "libonnx2ncnn_c.dylib",
    "onnx2ncnn_c.dll",
    "libonnx2ncnn_c.dll.a",
];

/// The words of cargo that build the command, and the library for C.
pub const COMMAND: &[&str] = &["build", "--release", "--locked"];
pub const LIBRARY: &[&str] = &["build", "--profile", "embedded", "--locked", "--package", "onnx2ncnn-c"];

/// What cargo built for a target.
pub struct Built {
    pub command: PathBuf,
    /// The folder of the library for C.
    pub library: PathBuf,
}

impl Built {
    /// Returns what is in the folder of the results for a target.
    pub fn of(results: &Path, target: &str) -> Built {
        let suffix = if target.contains("windows") { ".exe" } else { "" };
        let command = results.join("release").join(format!("onnx2ncnn{suffix}"));
        Built { command, library: results.join("embedded") }
    }
}

/// Builds command and library for this machine, and their archive.
pub fn host(folders: &Folders) -> Result<()> {
    let target = host_target(folders)?;
    for words in [COMMAND, LIBRARY] {
        run(&mut command(&folders.root, "cargo", words))?;
    }
    let built = Built::of(&folders.root.join("target"), &target);
    of_command(folders, &built, &Program::native(&built.command), &target)
}

/// Packs what was built with what belongs to it.
pub fn of_command(folders: &Folders, built: &Built, program: &Program, target: &str) -> Result<()> {
    let name = format!("onnx2ncnn-{}-{target}", env!("CARGO_PKG_VERSION"));
    let room = folders.root.join("target/xtask");
    let folder = room.join(&name);
    if folder.exists() {
        fs::remove_dir_all(&folder)?;
    }
    fs::create_dir_all(folder.join("completions"))?;
    let file = built.command.file_name().ok_or("the command has no name")?;
    fs::copy(&built.command, folder.join(file))?;
    let library = folder.join("lib");
    fs::create_dir_all(&library)?;
    for name in LIBRARIES.iter().filter(|name| built.library.join(name).exists()) {
        fs::copy(built.library.join(name), library.join(name))?;
    }
    for (file, destination) in
        [("c/onnx2ncnn.h", "include"), ("cmake/onnx2ncnn-config.cmake", "lib/cmake/onnx2ncnn")]
    {
        let (file, destination) = (folders.root.join(file), folder.join(destination));
        fs::create_dir_all(&destination)?;
        fs::copy(&file, destination.join(file.file_name().ok_or("a file has no name")?))?;
    }
    for document in ["LICENSE", "README.md", "SUPPORTED.md", "CHANGELOG.md"] {
        fs::copy(folders.root.join(document), folder.join(document))?;
    }
    let crates = dependencies::of(folders, target)?;
    fs::write(folder.join("LICENSES-of-dependencies.txt"), dependencies::licences(&crates)?)?;
    fs::write(folder.join("sbom.cdx.json"), dependencies::bill(&crates)?)?;
    run(&mut program.command(&folder, &["man", "--out", "man"]))?;
    for (shell, file) in SHELLS {
        let text = output(&mut program.command(&folder, &["completions", shell]))?;
        fs::write(folder.join("completions").join(file), text)?;
    }
    pack(folders, &room, &name, &name, target.contains("windows"))
}

/// Packs a folder of `room` to `NAME.tar.gz` or `NAME.zip`, with the same bytes for the same files.
pub fn pack(folders: &Folders, room: &Path, folder: &str, name: &str, zip: bool) -> Result<()> {
    if zip {
        let archive = folders.dist.join(format!("{name}.zip")).display().to_string();
        return run(&mut command(room, "python3", &["-c", include_str!("zip.py"), &archive, folder]));
    }
    let archive = folders.dist.join(format!("{name}.tar.gz")).display().to_string();
    let same = ["--sort=name", "--owner=0", "--group=0", "--numeric-owner", "--mtime=@0"];
    let pack = ["--use-compress-program=gzip --best --no-name", "--create", "--file", &archive, folder];
    run(&mut command(room, "tar", &[&same[..], &pack[..]].concat()))
}

/// Returns the target of this machine's compiler.
pub fn host_target(folders: &Folders) -> Result<String> {
    let text = String::from_utf8(output(&mut command(&folders.root, "rustc", &["-vV"]))?)?;
    let host = text.lines().find_map(|line| line.strip_prefix("host: "));
    Ok(host.ok_or("rustc names no host")?.to_owned())
}

/// Packs the crate, as the registry of Rust gets it. Files that are not committed are those of the metadata.
pub fn source(folders: &Folders) -> Result<()> {
    let words = ["package", "--locked", "--no-verify", "--allow-dirty", "--package", "onnx2ncnn"];
    run(&mut command(&folders.root, "cargo", &words))?;
    let file = concat!("onnx2ncnn-", env!("CARGO_PKG_VERSION"), ".crate");
    fs::copy(folders.root.join("target/package").join(file), folders.dist.join(file))?;
    Ok(())
}

/// Writes the SHA-256 of each file.
pub fn checksums(folders: &Folders) -> Result<()> {
    let mut names = Vec::new();
    for entry in fs::read_dir(&folders.dist)? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        if entry.file_type()?.is_file() && name != "SHA256SUMS" {
            names.push(name);
        }
    }
    names.sort();
    let words: Vec<&str> = names.iter().map(String::as_str).collect();
    let sums = output(&mut command(&folders.dist, "sha256sum", &words))?;
    fs::write(folders.dist.join("SHA256SUMS"), sums)?;
    for name in &names {
        let bytes = fs::metadata(folders.dist.join(name))?.len();
        eprintln!("{:8.2} MB  {name}", f64::from(u32::try_from(bytes / 1000)?) / 1000.0);
    }
    Ok(())
}
