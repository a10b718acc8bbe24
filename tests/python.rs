//! The Python environment of the other tests.

#![allow(clippy::panic, clippy::unwrap_used)] // A test may fail where it stands.

mod support;

use std::path::{Path, PathBuf};
use std::process::Command;

#[test]
fn the_environment_has_the_pinned_runtime() {
    let output = Command::new(support::python())
        .args(["-c", "import ncnn; print(ncnn.__version__)"])
        .output()
        .unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stdout).trim(), "1.0.20261020", "{output:?}");
}

/// Returns the files below a folder with one of these extensions.
fn files(folder: &Path, extensions: &[&str]) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        if path.is_dir() && !path.is_symlink() && !name.starts_with('.') && name != "target" {
            found.extend(files(&path, extensions));
        } else if path.extension().is_some_and(|other| extensions.iter().any(|known| other == *known)) {
            found.push(path);
        }
    }
    found
}

/// A Mat made of an array does not keep it alive: without a name the array is freed before the Mat is copied.
#[test]
fn mats_are_made_of_arrays_with_names() {
    let mut made = 0;
    for path in files(Path::new(env!("CARGO_MANIFEST_DIR")), &["py", "md", "pyi"]) {
        let text = std::fs::read_to_string(&path).unwrap();
        for (at, found) in text.match_indices("ncnn.Mat(") {
            let rest = &text[at + found.len()..];
            let first: String = rest.chars().take_while(|c| !",)".contains(*c)).collect();
            let is_named = first.chars().all(|c| c.is_alphanumeric() || c == '_');
            let is_sizes = first.starts_with("*reversed(");
            assert!(is_named || is_sizes, "{}: ncnn.Mat({first}", path.display());
            made += 1;
        }
    }
    assert!(made > 5);
}
