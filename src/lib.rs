//! Converts ONNX models to the files that [ncnn](https://github.com/Tencent/ncnn) loads.
//!
//! ```no_run
//! use onnx2ncnn::{Converter, Input};
//!
//! let conversion = Converter::new().convert(&Input::from("model.onnx"))?;
//! let written = conversion.write("model.param", "model.bin")?;
//! println!("{} layers", written.layers);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! The way of the data: the file is mapped and read as a graph in ONNX's words, shapes are inferred and constants folded, what is
//! left is lowered to a net in ncnn's words, and the net is written. Either the net computes what the model computes, or there
//! are errors that name each node in the way.
//!
//! A [`Converter`] is told what is wanted and may convert many models. A [`Conversion`] tells what users of the net give and get and
//! what they should know, lets its [`Net`](ncnn::Net) be read layer by layer, and writes the files. [`error`] has the reasons why
//! a model is refused.
//!
//! Versions follow [semantic versioning](https://semver.org): what is public here stays until the next version that says so, which
//! before 1.0 is one with a new second number. Which models are converted, and to which layers, is no part of this: both may
//! change with every version, and what is computed does not.

mod api;
mod common;
pub mod error;
mod graph;
mod lower;
pub mod ncnn;
mod onnx;
mod op;
mod ops;
mod pass;
mod pipeline;
pub mod report;
pub mod tensor;

pub use api::{Conversion, Converter, Refusal, Simplified, Supported, supported};
pub use lower::Cut;
pub use onnx::{ExternalData, Input, ModelBytes, Storage};
pub use pass::quantized::Quantization;
pub use pass::rewrite::{PassInfo, PassKind, passes};
pub use pipeline::{Described, Inspection, Pass, Port};
pub use tensor::Dim;
