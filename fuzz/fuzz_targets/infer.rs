//! Mutated models, most of them invalid: types and shapes.

#![no_main]

libfuzzer_sys::fuzz_target!(|model: &[u8]| onnx2ncnn_fuzz::infer_model(model));
libfuzzer_sys::fuzz_mutator!(|data: &mut [u8], size: usize, max_size: usize, seed: u32| {
    onnx2ncnn_fuzz::mutate(data, size, max_size, seed)
});
