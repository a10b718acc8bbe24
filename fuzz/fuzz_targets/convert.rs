//! Mutated models, most of them invalid: the conversion, up to the written net.

#![no_main]

libfuzzer_sys::fuzz_target!(|model: &[u8]| onnx2ncnn_fuzz::convert_bytes(model));
libfuzzer_sys::fuzz_mutator!(|data: &mut [u8], size: usize, max_size: usize, seed: u32| {
    onnx2ncnn_fuzz::mutate(data, size, max_size, seed)
});
