//! The options of a conversion as JSON: an object with the names of the library, and a description of each.

use onnx2ncnn::{Converter, OptionInfo, OptionKind, Purpose, Weights};
use serde_json::{Map, Value, json};
use wasm_bindgen::prelude::wasm_bindgen;

use crate::failure::{Result, thrown};

/// Returns the options of a conversion in memory.
fn rows() -> impl Iterator<Item = &'static OptionInfo> {
    let in_memory = |info: &&OptionInfo| {
        let is_path = info.purpose == Purpose::File || info.kind == OptionKind::Path;
        // Refusals are always explained, and the memory is the limit.
        !is_path && info.name != "explain" && !matches!(info.kind, OptionKind::Bytes | OptionKind::Layer)
    };
    onnx2ncnn::options().iter().filter(in_memory)
}

/// Returns a description of each option: `[{"name": ..., "word": ..., "kind": ..., ...}]`.
#[wasm_bindgen]
pub fn options() -> String {
    let rows = rows().map(|info| {
        let weights: Vec<&str> = Weights::NAMES.iter().map(|(name, _)| *name).collect();
        let (help, details) = info.descriptions();
        json!({
            "name": info.name,
            "word": info.long_name(),
            "kind": format!("{:?}", info.kind).to_lowercase(),
            "list": info.is_list,
            "value": info.value,
            "values": if info.kind == OptionKind::Weights { weights } else { Vec::new() },
            "help": help,
            "details": details,
            "rare": info.is_rare,
            "memory": info.purpose == Purpose::Memory,
            "excludes": info.excludes,
        })
    });
    Value::from_iter(rows).to_string()
}

/// Returns a converter with options.
pub fn converter(options: &str) -> Result<Converter> {
    let names: Map<String, Value> =
        serde_json::from_str(options).map_err(|error| thrown(format!("options: {error}")))?;
    let unknown = names.keys().find(|name| rows().all(|info| info.name != **name));
    if let Some(name) = unknown {
        return Err(thrown(format!("options: {name}: unknown option")));
    }
    // As the library keeps no files, it keeps the report of a refusal.
    Converter::new().explain(true).with_json(options).map_err(thrown)
}
