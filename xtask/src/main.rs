//! Builds what is distributed: `cargo xtask dist`. `cargo xtask help` lists the steps.

mod archive;
mod linux;
mod run;
mod toolchain;
mod wasm;
mod web;
mod wheel;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// A result with a message.
type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

/// A step: name, description, and function.
type Step = (&'static str, &'static str, fn(&Places) -> Result<()>);

const STEPS: [Step; 8] = [
    ("wasm", "the library as WebAssembly with its bindings, in web/npm/wasm", wasm::build),
    ("npm", "the npm package, target/dist/onnx2ncnn-VERSION.tgz", web::npm),
    ("page", "the page, target/dist/page", web::page),
    ("host", "an archive of the command for this machine", archive::host),
    (
        "linux",
        "an archive of the command for every Linux; XTASK_TARGETS=x86_64,aarch64 for other processors",
        linux::archives,
    ),
    ("wheel", "a wheel for every Linux and Python; XTASK_TARGETS as above", wheel::build),
    ("dist", "npm, page and linux, or host elsewhere, and their checksums", dist),
    ("platforms", "runs what was built, as far as this machine can", platforms),
];

/// The folders of a build.
struct Places {
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
    match places().and_then(|places| step(&places)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

fn places() -> Result<Places> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().ok_or("the crate has no folder")?.to_owned();
    let dist = root.join("target/dist");
    std::fs::create_dir_all(&dist)?;
    Ok(Places { root, dist })
}

fn dist(places: &Places) -> Result<()> {
    std::fs::remove_dir_all(&places.dist)?;
    std::fs::create_dir_all(&places.dist)?;
    // On Linux the archive for this machine is among those for all.
    let command = if cfg!(target_os = "linux") { linux::archives } else { archive::host };
    for step in [web::npm, web::page, command] {
        step(places)?;
    }
    archive::checksums(places)
}

fn platforms(places: &Places) -> Result<()> {
    for step in [linux::run_built, wheel::test, web::test] {
        step(places)?;
    }
    Ok(())
}
