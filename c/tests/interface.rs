//! A program in C uses the header and the library.

#![allow(clippy::unwrap_used)]

use std::path::{Path, PathBuf};
use std::process::Command;

const ROOT: &str = env!("CARGO_MANIFEST_DIR");

#[test]
fn a_program_converts_models() {
    // Cargo puts the library next to the test.
    let library = std::env::current_exe().unwrap().with_file_name("libonnx2ncnn_c.a");
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR"));
    let program = folder.join("convert");
    let compiled = Command::new("cc")
        .args(["-std=c11", "-Wall", "-Wextra", "-Werror", "-I", ROOT, "-o"])
        .args([&program, &Path::new(ROOT).join("tests/convert.c"), &library])
        .args(["-lpthread", "-ldl", "-lm"])
        .status()
        .unwrap();
    assert!(compiled.success());
    let model = Path::new(ROOT).join("../fixtures/network/digits/model.onnx");
    let ran =
        Command::new(&program).args([model, folder.join("c.param"), folder.join("c.bin")]).output().unwrap();
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
}
