//! The command `onnx2ncnn`.

use std::process::ExitCode;

use mimalloc::MiMalloc;
use onnx2ncnn::cli::{self, Program};

/// The allocator of the C library takes longer for each piece the more pieces there are.
#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

fn main() -> ExitCode {
    ExitCode::from(cli::run(std::env::args_os(), &Program::Executable))
}
