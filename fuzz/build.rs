//! Compiles the messages of ONNX, to change models by their parts.

fn main() -> Result<(), Box<dyn std::error::Error>> {
    println!("cargo:rerun-if-changed=../proto/onnx.proto");
    let descriptors = protox::compile(["../proto/onnx.proto"], ["../proto"])?;
    prost_build::Config::new().bytes(["."]).compile_fds(descriptors)?;
    Ok(())
}
