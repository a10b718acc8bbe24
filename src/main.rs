//! The command.

use std::path::PathBuf;
use std::process::ExitCode;

use onnx2ncnn::{Input, Options, convert};

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [model, param, bin] = args.as_slice() else {
        eprintln!("usage: onnx2ncnn model.onnx out.param out.bin");
        return ExitCode::from(2);
    };
    let conversion = match convert(&Input::from_arg(model), &Options { check: true, ..Options::default() }) {
        Ok(conversion) => conversion,
        Err(errors) => {
            eprintln!("{errors}");
            return ExitCode::from(1);
        }
    };
    match conversion.write(&PathBuf::from(param), &PathBuf::from(bin)) {
        Ok(_) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::from(2)
        }
    }
}
