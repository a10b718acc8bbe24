//! Converts ONNX models to the files that [ncnn](https://github.com/Tencent/ncnn) loads.

pub mod error;
pub mod graph;
pub(crate) mod lower;
pub mod ncnn;
pub mod onnx;
#[allow(dead_code)]
pub(crate) mod ops;
pub mod pass;
pub mod tensor;
