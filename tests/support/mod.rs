//! The Python environment for comparisons, created here, so that a fresh machine needs only Rust and
//! `python3`.

use std::fs::{self, File};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::process::Command;

const REQUIREMENTS: &str = include_str!("../requirements.txt");

/// Returns the interpreter of the environment of `tests/requirements.txt`, with ncnn, onnx and onnxruntime.
/// The first caller creates it in `tests/.venv`; others, in this process or another, wait for it.
pub fn python() -> PathBuf {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/.venv");
    fs::create_dir_all(&folder).unwrap();
    let lock = File::create(folder.join("lock")).unwrap();
    lock.lock().unwrap();

    let mut hasher = DefaultHasher::new();
    REQUIREMENTS.hash(&mut hasher);
    let venv = folder.join(format!("{:016x}", hasher.finish()));
    let python = venv.join(if cfg!(windows) { "Scripts/python.exe" } else { "bin/python" });
    let complete = venv.join("complete");
    if !complete.exists() {
        run(Command::new("python3").args(["-m", "venv", "--clear"]).arg(&venv));
        run(Command::new(&python)
            .args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--requirement"])
            .arg(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/requirements.txt")));
        File::create(complete).unwrap();
    }
    python
}

/// Runs a command, which must succeed.
pub fn run(command: &mut Command) {
    let status = command.status().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    assert!(status.success(), "{command:?}: {status}");
}
