//! The Python environment of the other tests.

#![allow(clippy::panic, clippy::unwrap_used)] // A test may fail where it stands.

mod support;

use std::process::Command;

#[test]
fn the_environment_has_the_pinned_runtime() {
    let output = Command::new(support::python())
        .args(["-c", "import ncnn; print(ncnn.__version__)"])
        .output()
        .unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stdout).trim(), "1.0.20261020", "{output:?}");
}
