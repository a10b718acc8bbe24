//! Fourier transforms, and their constants.
//!
//! Spec: <https://onnx.ai/onnx/operators/onnx__DFT.html>, `onnx__STFT.html`, `onnx__HannWindow.html`,
//! `onnx__MelWeightMatrix.html`.

mod fourier;
mod transform;
mod window;

use crate::op::{CONTRIB_DOMAIN, Infer};
use crate::ops::prelude::*;

pub(in crate::ops) const OPS: &[Row] = &[
    window("BlackmanWindow", |call| window::infer_window(call, window::BLACKMAN)),
    Row::defined("", "DFT", transform::expand_dft)
        .multiply_adds(transform::multiply_adds)
        .lowers_to("MatMul with a constant matrix")
        .limits(
            "axes and lengths computed at run time; a one-sided spectrum whose bins do not match its length",
        ),
    window("HammingWindow", |call| window::infer_window(call, window::HAMMING)),
    window("HannWindow", |call| window::infer_window(call, window::HANN)),
    Row::defined(CONTRIB_DOMAIN, "Irfft", transform::expand_irfft)
        .multiply_adds(transform::multiply_adds)
        .lowers_to("DFT"),
    Row::new("MelWeightMatrix", Access::Any, window::infer_mel_weight)
        .lowers_to("a constant")
        .limits("sizes computed at run time; bands beyond the bins of the transform"),
    Row::defined(CONTRIB_DOMAIN, "Rfft", transform::expand_rfft)
        .multiply_adds(transform::multiply_adds)
        .lowers_to("DFT"),
    Row::defined("", "STFT", transform::expand_stft)
        .multiply_adds(transform::multiply_adds)
        .lowers_to("Conv with constant kernels")
        .limits("steps and lengths of frames computed at run time; a signal shorter than a frame"),
];

const fn window(name: &'static str, infer: Infer) -> Row {
    Row::new(name, Access::Any, infer)
        .lowers_to("a constant")
        .limits("a size computed at run time; one element of a symmetric window")
}
