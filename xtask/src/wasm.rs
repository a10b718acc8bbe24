//! The library as WebAssembly.

use wasm_bindgen_cli_support::Bindgen;

use crate::run::run;
use crate::{Folders, Result, toolchain};

const TARGET: &str = "wasm32-unknown-unknown";

/// Builds the crate `web/` and its bindings.
pub fn build(folders: &Folders) -> Result<()> {
    let words = ["build", "--release", "--locked", "--package", "onnx2ncnn-web"];
    let (mut cargo, results) = toolchain::cargo(folders, &words, TARGET)?;
    // The bindings are made from sections that a stripped module lacks.
    cargo.env("CARGO_PROFILE_RELEASE_STRIP", "none");
    run(&mut cargo)?;
    let built = results.join("release/onnx2ncnn_web.wasm");
    let folder = folders.root.join("web/npm/wasm");
    let mut bindgen = Bindgen::new();
    bindgen.input_path(built).web(true)?.typescript(true).out_name("onnx2ncnn");
    bindgen.remove_name_section(true).remove_producers_section(true);
    bindgen.generate(&folder).map_err(|error| format!("{error:#}"))?;
    Ok(())
}
