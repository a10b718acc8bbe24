//! Converts a model, and writes a program that runs the net: `cargo run --example program -- model.onnx run.py`.

use std::path::PathBuf;

use onnx2ncnn::{Converter, Input};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<PathBuf> = std::env::args_os().skip(1).map(PathBuf::from).collect();
    let [model, program] = arguments.as_slice() else { return Err("usage: program MODEL PROGRAM".into()) };
    let conversion = Converter::new().convert(&Input::from(model.as_path()))?;
    let (param, bin) = (program.with_extension("param"), program.with_extension("bin"));
    conversion.write(&param, &bin)?;
    for (path, text) in conversion.program(program, &param, &bin)? {
        std::fs::write(path, text)?;
    }
    Ok(())
}
