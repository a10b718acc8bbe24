//! Any bytes as a model: reading, and all that follows where they can be read.

#![no_main]

libfuzzer_sys::fuzz_target!(|model: &[u8]| onnx2ncnn_fuzz::convert_bytes(model));
