//! The header of the C interface.

use std::fs;

use crate::{Places, Result};

/// Writes the header, or with `--check` compares the one that there is.
pub fn write(places: &Places) -> Result<()> {
    let mut header = Vec::new();
    cbindgen::generate(places.root.join("c"))?.write(&mut header);
    let path = places.root.join("c/onnx2ncnn.h");
    if !std::env::args().any(|word| word == "--check") {
        return Ok(fs::write(path, header)?);
    }
    match fs::read(&path)? == header {
        true => Ok(()),
        false => {
            Err(format!("{} is not that of the source; `cargo xtask header` writes it", path.display())
                .into())
        }
    }
}
