//! Fourier transforms, and the constants that go with them.
//!
//! | ONNX | becomes | refused |
//! | --- | --- | --- |
//! | DFT | MatMul with the matrix of the transform | lengths and axes that are not fixed |
//! | STFT | Conv whose kernels are the rows of the transform, times the window | steps, windows and lengths that are not constant |
//! | HannWindow, HammingWindow, BlackmanWindow, MelWeightMatrix | nothing: they are constants | sizes that are not fixed |
//!
//! Spec: <https://onnx.ai/onnx/operators/onnx__DFT.html>, `onnx__STFT.html`, `onnx__HannWindow.html`, `onnx__MelWeightMatrix.html`.

mod transform;
mod window;

use super::Op;

pub(super) const OPS: &[Op] = &[
    Op::new("BlackmanWindow", &[17], window::infer_window),
    Op::new("DFT", &[17, 20], transform::infer_dft).expand(transform::expand_dft),
    Op::new("HammingWindow", &[17], window::infer_window),
    Op::new("HannWindow", &[17], window::infer_window),
    Op::new("MelWeightMatrix", &[17], window::infer_mel_weight),
    Op::new("STFT", &[17], transform::infer_stft).expand(transform::expand_stft),
];
