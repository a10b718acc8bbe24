//! Windows and interpolations over small free sizes: in ncnn as in onnxruntime for each size that the
//! conditions allow. `ALL_CASES=1` takes all models and sizes.

#![allow(clippy::panic, clippy::unwrap_used)] // A test may fail where it stands.

mod support;

use std::process::Command;

#[test]
fn windows_and_interpolations_are_right_over_small_sizes() {
    let mut command = Command::new(support::python());
    command.arg("tests/conformance/sizes.py");
    if std::env::var_os("ALL_CASES").is_some() {
        command.arg("--all");
    }
    let output = command.arg(env!("CARGO_BIN_EXE_onnx2ncnn")).output().unwrap();
    let said = [output.stdout, output.stderr].concat();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&said));
}
