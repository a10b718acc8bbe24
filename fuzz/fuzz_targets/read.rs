//! Any bytes as a model: reading.

#![no_main]

libfuzzer_sys::fuzz_target!(|model: &[u8]| onnx2ncnn_fuzz::read_bytes(model));
