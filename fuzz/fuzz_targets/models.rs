//! Fixtures with changes that make most of them invalid: inference, folding, lowering, writing.

#![no_main]

use arbitrary::Unstructured;
use prost::Message;

libfuzzer_sys::fuzz_target!(|choices: &[u8]| {
    if let Ok(model) = onnx2ncnn_fuzz::edit::edited(&mut Unstructured::new(choices)) {
        onnx2ncnn_fuzz::convert_bytes(&model.encode_to_vec());
    }
});
