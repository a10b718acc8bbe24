//! The command `onnx2ncnn`.

mod cli;

use std::process::ExitCode;

use mimalloc::MiMalloc;

/// The allocator of the C library takes longer for each piece the more pieces there are.
#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

fn main() -> ExitCode {
    cli::run()
}
