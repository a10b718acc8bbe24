//! The command `onnx2ncnn`.

mod cli;

use std::process::ExitCode;

fn main() -> ExitCode {
    cli::run()
}
