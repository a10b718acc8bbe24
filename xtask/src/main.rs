//! Builds what is distributed: `cargo xtask dist`. `cargo xtask help` lists the steps.

mod archive;
mod dependencies;
mod emulator;
mod header;
mod manifests;
mod metadata;
mod run;
mod targets;
mod toolchain;
mod wasm;
mod web;
mod wheel;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// A result with a message.
type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

/// What a step does.
type Function = fn(&Folders) -> Result<()>;

/// A step: name, description, and function.
type Step = (&'static str, &'static str, Function);

const STEPS: [Step; 11] = [
    ("header", "the header of the C interface, c/onnx2ncnn.h; --check compares it", header::write),
    ("wasm", "the library as WebAssembly with its bindings, in web/npm/wasm", wasm::build),
    ("npm", "the npm package, target/dist/onnx2ncnn-VERSION.tgz", web::npm),
    ("page", "the page, target/dist/page", web::page),
    ("host", "an archive of the command for this machine", archive::host),
    (
        "archives",
        "archives of the command for the targets of XTASK_TARGETS: triples, or `all`",
        targets::archives,
    ),
    ("wheels", "wheels for every Python; XTASK_TARGETS as above", wheel::build),
    ("dist", "crate, npm, page, archives and wheels, or host elsewhere, and their checksums", dist),
    (
        "metadata",
        "the address of the repository, XTASK_REPOSITORY, in the metadata of packages",
        metadata::write,
    ),
    ("release", "dist, of a tag: stops without XTASK_REPOSITORY, and if the tag is not the version", release),
    ("platforms", "runs what was built: commands, manifests, wheel and web, or some of them", platforms),
];

/// The folders of a build.
struct Folders {
    /// The root of the repository.
    root: PathBuf,
    /// What is distributed.
    dist: PathBuf,
}

fn main() -> ExitCode {
    let name = std::env::args().nth(1).unwrap_or_default();
    let Some((.., step)) = STEPS.iter().find(|(step, ..)| *step == name) else {
        for (name, about, _) in STEPS {
            eprintln!("cargo xtask {name:10} {about}");
        }
        return ExitCode::from(u8::from(name != "help") * 2);
    };
    match folders().and_then(|folders| step(&folders)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

fn folders() -> Result<Folders> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().ok_or("the crate has no folder")?.to_owned();
    let dist = root.join("target/dist");
    std::fs::create_dir_all(&dist)?;
    Ok(Folders { root, dist })
}

fn dist(folders: &Folders) -> Result<()> {
    std::fs::remove_dir_all(&folders.dist)?;
    std::fs::create_dir_all(&folders.dist)?;
    for step in [archive::source, web::npm, web::page] {
        step(folders)?;
    }
    if cfg!(target_os = "linux") {
        // The archive for this machine is among them.
        targets::archives(folders)?;
        wheel::build(folders)?;
    } else {
        archive::host(folders)?;
    }
    archive::checksums(folders)?;
    manifests::write(folders)
}

/// Builds what is released. Nothing may be published without the address of the repository.
fn release(folders: &Folders) -> Result<()> {
    metadata::write(folders)?;
    let version = concat!("v", env!("CARGO_PKG_VERSION"));
    let tag = std::env::var("GITHUB_REF_NAME").unwrap_or_else(|_| version.to_owned());
    if tag != version {
        return Err(format!("the tag is {tag}, and the version in Cargo.toml is {version}").into());
    }
    dist(folders)
}

/// Runs all, or what the further words name.
fn platforms(folders: &Folders) -> Result<()> {
    let named: Vec<String> = std::env::args().skip(2).collect();
    let pieces: [(&str, Function); 4] = [
        ("commands", emulator::test),
        ("manifests", manifests::test),
        ("wheel", wheel::test),
        ("web", web::test),
    ];
    for (name, test) in pieces {
        if named.is_empty() || named.iter().any(|named| named == name) {
            test(folders)?;
        }
    }
    Ok(())
}
