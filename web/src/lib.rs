//! The library for JavaScript: models and results in memory, options and reports as JSON.
//!
//! The package `npm/` wraps these classes in its documented interface.

mod chain;
mod conversion;
mod failure;
mod model;
mod options;
mod sink;
#[cfg(feature = "verify")]
mod verify;

pub use chain::Chain;
pub use conversion::{Conversion, Simplified};
pub use model::{Buffer, Model};

use wasm_bindgen::prelude::wasm_bindgen;

/// Makes a panic an exception with its message. The module is not usable after it.
#[wasm_bindgen(start)]
pub fn start() {
    std::panic::set_hook(Box::new(|panic| wasm_bindgen::throw_str(&panic.to_string())));
}

/// Returns the version of the library.
#[wasm_bindgen]
pub fn version() -> String {
    env!("CARGO_PKG_VERSION").to_owned()
}

/// Returns the passes that can be skipped: `[{"name": ..., "about": ...}]`.
#[wasm_bindgen]
pub fn passes() -> String {
    let passes = onnx2ncnn::passes();
    let passes = passes.map(|pass| serde_json::json!({ "name": pass.name, "about": pass.about.to_string() }));
    serde_json::Value::from_iter(passes).to_string()
}
