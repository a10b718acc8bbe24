//! Converts one model and prints the inputs and outputs of the net.
//!
//!     cargo run --example convert -- model.onnx out.param out.bin

use std::error::Error;
use std::path::PathBuf;

use onnx2ncnn::tensor::display_shape;
use onnx2ncnn::{Converter, Input};

fn main() -> Result<(), Box<dyn Error>> {
    let words: Vec<PathBuf> = std::env::args_os().skip(1).map(PathBuf::from).collect();
    let [model, param, bin] = words.as_slice() else { return Err("three files are needed".into()) };
    let conversion = Converter::new().convert(&Input::from(model.as_path()))?;
    let written = conversion.write(param, bin)?;
    for port in conversion.inputs.iter().chain(&conversion.outputs) {
        eprintln!(
            "{} {} is blob {} {}",
            port.name,
            display_shape(&port.shape),
            port.blob,
            display_shape(&port.form)
        );
    }
    for warning in conversion.warnings.iter().chain(&written.warnings) {
        eprintln!("warning: {warning}");
    }
    eprintln!("{} layers, {} bytes of weights", written.layers, written.bin_bytes);
    Ok(())
}
