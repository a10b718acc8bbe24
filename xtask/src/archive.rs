//! Archives of the command and the library for C: with licences, manual pages and completions.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use crate::run::{command, output, run};
use crate::{Places, Result};

const SHELLS: [(&str, &str); 4] = [
    ("bash", "onnx2ncnn.bash"),
    ("zsh", "_onnx2ncnn"),
    ("fish", "onnx2ncnn.fish"),
    ("powershell", "onnx2ncnn.ps1"),
];

/// The names of the library for C, on Linux, macOS and Windows.
const LIBRARIES: [&str; 5] =
    ["libonnx2ncnn_c.a", "libonnx2ncnn_c.so", "libonnx2ncnn_c.dylib", "onnx2ncnn_c.lib", "onnx2ncnn_c.dll"];

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
    /// Returns what is in a folder of results.
    pub fn of(results: &Path) -> Built {
        let command = results.join("release").join(format!("onnx2ncnn{}", std::env::consts::EXE_SUFFIX));
        Built { command, library: results.join("embedded") }
    }
}

/// Builds command and library for this machine, and their archive.
pub fn host(places: &Places) -> Result<()> {
    let target = host_target(places)?;
    for words in [COMMAND, LIBRARY] {
        run(&mut command(&places.root, "cargo", words))?;
    }
    let built = Built::of(&places.root.join("target"));
    of_command(places, &built, &built.command, &target)
}

/// Packs what was built with what belongs to it. `runs` is a command of the same version that runs here, which writes
/// the manual pages and completions.
pub fn of_command(places: &Places, built: &Built, runs: &Path, target: &str) -> Result<()> {
    let name = format!("onnx2ncnn-{}-{target}", env!("CARGO_PKG_VERSION"));
    let room = places.root.join("target/xtask");
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
    fs::create_dir_all(folder.join("include"))?;
    fs::copy(places.root.join("c/onnx2ncnn.h"), folder.join("include/onnx2ncnn.h"))?;
    for document in ["LICENSE", "README.md", "SUPPORTED.md", "CHANGELOG.md"] {
        fs::copy(places.root.join(document), folder.join(document))?;
    }
    fs::write(folder.join("LICENSES-of-dependencies.txt"), licences(places)?)?;
    let runs = runs.display().to_string();
    let man = folder.join("man").display().to_string();
    run(&mut command(&places.root, &runs, &["man", "--out", &man]))?;
    for (shell, file) in SHELLS {
        let text = output(&mut command(&places.root, &runs, &["completions", shell]))?;
        fs::write(folder.join("completions").join(file), text)?;
    }
    pack(places, &room, &name, &name)
}

/// Packs a folder of `room` to `NAME.tar.gz`, with the same bytes for the same files.
pub fn pack(places: &Places, room: &Path, folder: &str, name: &str) -> Result<()> {
    let archive = places.dist.join(format!("{name}.tar.gz")).display().to_string();
    let same = ["--sort=name", "--owner=0", "--group=0", "--numeric-owner", "--mtime=@0"];
    let pack = ["--use-compress-program=gzip --best --no-name", "--create", "--file", &archive, folder];
    run(&mut command(room, "tar", &[&same[..], &pack[..]].concat()))
}

/// Returns names, versions and licences of the crates in the command, and the texts of their licences.
fn licences(places: &Places) -> Result<String> {
    let format = "{p}\t{l}";
    let tree = ["tree", "--locked", "--edges", "normal", "--prefix", "none", "--format", format];
    let tree = String::from_utf8(output(&mut command(&places.root, "cargo", &tree))?)?;
    let mut crates: Vec<&str> = tree.lines().map(|line| line.trim_end_matches(" (*)")).collect();
    crates.sort_unstable();
    crates.dedup();
    let mut text = String::from("The crates in onnx2ncnn, with their licences.\n\n");
    let mut texts = String::new();
    for line in crates.iter().filter(|line| !line.starts_with("onnx2ncnn ")) {
        let (package, licence) = line.split_once('\t').unwrap_or((line, "?"));
        let package = package.trim_end_matches(" (proc-macro)");
        writeln!(text, "{package}: {licence}")?;
        for file in licence_files(&package.replacen(" v", "-", 1))? {
            let content = fs::read_to_string(&file)?;
            writeln!(texts, "\n==== {package}\n\n{content}")?;
        }
    }
    Ok(text + &texts)
}

/// Returns the files with licences of a crate, from the sources that cargo has fetched.
fn licence_files(package: &str) -> Result<Vec<PathBuf>> {
    let home = std::env::var_os("CARGO_HOME").map(PathBuf::from);
    let home = home
        .or_else(|| Some(std::env::home_dir()?.join(".cargo")))
        .ok_or("the folder of cargo is not known")?;
    let mut files = Vec::new();
    for registry in fs::read_dir(home.join("registry/src"))? {
        let folder = registry?.path().join(package);
        let Ok(entries) = fs::read_dir(folder) else { continue };
        for entry in entries {
            let path = entry?.path();
            let name = path.file_name().map(|name| name.to_string_lossy().to_ascii_uppercase());
            let is_licence =
                |name: &String| ["LICEN", "COPYING", "NOTICE"].iter().any(|word| name.starts_with(word));
            if path.is_file() && name.is_some_and(|name| is_licence(&name)) {
                files.push(path);
            }
        }
    }
    files.sort();
    Ok(files)
}

/// Returns the target of this machine's compiler.
pub fn host_target(places: &Places) -> Result<String> {
    let text = String::from_utf8(output(&mut command(&places.root, "rustc", &["-vV"]))?)?;
    let host = text.lines().find_map(|line| line.strip_prefix("host: "));
    Ok(host.ok_or("rustc names no host")?.to_owned())
}

/// Writes the SHA-256 of each file.
pub fn checksums(places: &Places) -> Result<()> {
    let mut names = Vec::new();
    for entry in fs::read_dir(&places.dist)? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        if entry.file_type()?.is_file() && name != "SHA256SUMS" {
            names.push(name);
        }
    }
    names.sort();
    let words: Vec<&str> = names.iter().map(String::as_str).collect();
    let sums = output(&mut command(&places.dist, "sha256sum", &words))?;
    fs::write(places.dist.join("SHA256SUMS"), sums)?;
    for name in &names {
        let bytes = fs::metadata(places.dist.join(name))?.len();
        eprintln!("{:8.2} MB  {name}", f64::from(u32::try_from(bytes / 1000)?) / 1000.0);
    }
    Ok(())
}
