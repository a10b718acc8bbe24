//! Converts a model, and writes a program that runs the net: `cargo run --example program -- model.onnx run.py`.

use std::path::{Path, PathBuf};

use onnx2ncnn::{Converter, Input, Language};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<PathBuf> = std::env::args_os().skip(1).map(PathBuf::from).collect();
    let [model, program] = arguments.as_slice() else { return Err("usage: program MODEL PROGRAM".into()) };
    let language = Language::of(program).ok_or("the ending of the program names no language")?;
    let conversion = Converter::new().convert(&Input::from(model.as_path()))?;
    let (param, bin) = (program.with_extension("param"), program.with_extension("bin"));
    conversion.write(&param, &bin)?;
    let name = |path: &Path| path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    std::fs::write(program, conversion.program(language, &name(program), &name(&param), &name(&bin))?)?;
    Ok(())
}
