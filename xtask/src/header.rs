//! The header of the C interface.

use std::fs;

use crate::{Folders, Result};

/// Writes the header, or with `--check` compares the one that there is.
pub fn write(folders: &Folders) -> Result<()> {
    let mut header = Vec::new();
    cbindgen::generate(folders.root.join("c"))?.write(&mut header);
    let path = folders.root.join("c/onnx2ncnn.h");
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
