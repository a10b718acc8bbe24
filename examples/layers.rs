//! Counts the layers that a model becomes, by their types, and writes nothing. Where the model is refused,
//! the reasons are listed.
//!
//!     cargo run --example layers -- model.onnx

use std::collections::BTreeMap;
use std::error::Error;
use std::path::PathBuf;

use onnx2ncnn::{Converter, Input};

fn main() -> Result<(), Box<dyn Error>> {
    let model: PathBuf = std::env::args_os().nth(1).ok_or("a model is needed")?.into();
    let conversion = match Converter::new().convert(&Input::from(model)) {
        Ok(conversion) => conversion,
        Err(errors) => {
            for error in errors.iter() {
                eprintln!("{}: {error}", error.kind());
                if let Some(help) = error.help_text() {
                    eprintln!("  help: {help}");
                }
            }
            return Err("the model is refused".into());
        }
    };
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for layer in &conversion.net().layers {
        *counts.entry(layer.layer.type_name()).or_default() += 1;
    }
    for (layer, count) in counts {
        eprintln!("{count:6}  {layer}");
    }
    Ok(())
}
