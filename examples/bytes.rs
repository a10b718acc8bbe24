//! Converts a model in memory, with external data in memory, to bytes of the two files. Files are only where
//! the bytes come from and go to.
//!
//!     cargo run --example bytes -- model.onnx out.param out.bin weights.data

use std::error::Error;
use std::fs;
use std::path::PathBuf;

use onnx2ncnn::{Converter, Input, ModelBytes};

/// The bytes of the `.param` file and of the `.bin` file.
fn convert(model: ModelBytes) -> Result<(Vec<u8>, Vec<u8>), Box<dyn Error>> {
    let conversion = Converter::new().convert(&Input::from(model))?;
    let (mut param, mut bin) = (Vec::new(), Vec::new());
    conversion.write_to(&mut param, &mut bin)?;
    Ok((param, bin))
}

fn main() -> Result<(), Box<dyn Error>> {
    let words: Vec<PathBuf> = std::env::args_os().skip(1).map(PathBuf::from).collect();
    let [model, param, bin, data @ ..] = words.as_slice() else {
        return Err("three files are needed, and those of external data".into());
    };
    let mut bytes = ModelBytes::new(fs::read(model)?);
    for file in data {
        let location = file.file_name().and_then(|name| name.to_str()).ok_or("a name is not Unicode")?;
        bytes = bytes.external_data(location, fs::read(file)?);
    }
    let (param_bytes, bin_bytes) = convert(bytes)?;
    fs::write(param, param_bytes)?;
    fs::write(bin, bin_bytes)?;
    Ok(())
}
