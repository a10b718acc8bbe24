//! The command `onnx2ncnn`.

mod cli;

use std::process::ExitCode;

fn main() -> ExitCode {
    #[cfg(unix)]
    onnx2ncnn::tensor::end_clearly_when_truncated();
    cli::run()
}
