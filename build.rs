//! Compiles `proto/onnx.proto` to Rust, in Rust: no system protoc is needed.

use std::error::Error;

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo:rerun-if-changed=proto/onnx.proto");
    let descriptors = protox::compile(["proto/onnx.proto"], ["proto"])?;
    // `Bytes` fields are slices of the buffer that is decoded: tensor data stay where the file is mapped.
    prost_build::Config::new().bytes(["."]).compile_fds(descriptors)?;
    Ok(())
}
