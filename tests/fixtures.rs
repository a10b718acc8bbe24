//! The fixtures equal the output of `fixtures/make.py`.

#![allow(clippy::panic, clippy::unwrap_used)] // A test may fail where it stands.

mod support;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The script does not write snapshots, and the last digits of outputs may depend on the processor.
const NOT_COMPARED: [&str; 4] = ["expected.param", "expected.weights", "expected.err", "outputs.npz"];

#[test]
fn fixtures_equal_the_output_of_the_script() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures");
    let made = tempfile::tempdir().unwrap();
    let output = Command::new(support::python()).arg(root.join("make.py")).arg(made.path()).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let (kept, made) = (files(&root), files(made.path()));
    assert!(!made.is_empty());
    let names = kept.keys().chain(made.keys());
    let differ: Vec<&PathBuf> = names.filter(|name| kept.get(*name) != made.get(*name)).collect();
    assert!(differ.is_empty(), "run fixtures/make.py; these differ: {differ:?}");
}

/// The compared files of each FAMILY/CASE, by their relative paths.
fn files(root: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let entries = |folder: &Path| -> Vec<PathBuf> {
        let folders = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
        folders.collect()
    };
    let folders = |folder: &Path| entries(folder).into_iter().filter(|path| path.is_dir());
    let cases = folders(root).flat_map(|family| folders(&family).collect::<Vec<_>>());
    let files = cases.flat_map(|case| entries(&case)).filter(|path| {
        let name = path.file_name().unwrap().to_str().unwrap();
        !NOT_COMPARED.contains(&name)
    });
    files.map(|path| (path.strip_prefix(root).unwrap().to_owned(), fs::read(path).unwrap())).collect()
}
