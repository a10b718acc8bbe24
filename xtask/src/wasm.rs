//! The library as WebAssembly: a module that converts, and one that also verifies.

use wasm_bindgen_cli_support::Bindgen;

use crate::run::run;
use crate::{Folders, Result, toolchain};

const TARGET: &str = "wasm32-unknown-unknown";

/// The modules: their names, and the features of the crate `web/`. Only those who verify load the second one.
const MODULES: [(&str, &str); 2] = [("onnx2ncnn", ""), ("onnx2ncnn_verify", "verify")];

/// Builds the crate `web/` and its bindings.
pub fn build(folders: &Folders) -> Result<()> {
    for (name, features) in MODULES {
        let words = ["build", "--release", "--locked", "--package", "onnx2ncnn-web", "--features", features];
        let (mut cargo, results) = toolchain::cargo(folders, &words, TARGET)?;
        // The bindings are made from sections that a stripped module lacks.
        cargo.env("CARGO_PROFILE_RELEASE_STRIP", "none");
        run(&mut cargo)?;
        let built = results.join("release/onnx2ncnn_web.wasm");
        let folder = folders.root.join("web/npm/wasm");
        let mut bindgen = Bindgen::new();
        bindgen.input_path(built).web(true)?.typescript(true).out_name(name);
        bindgen.remove_name_section(true).remove_producers_section(true);
        bindgen.generate(&folder).map_err(|error| format!("{error:#}"))?;
    }
    Ok(())
}
