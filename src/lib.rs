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
//! The file is mapped and read as an ONNX graph, shapes are inferred and constants folded, the remaining
//! nodes are lowered to the layers of an ncnn net, and the net is written. Either the net computes the same
//! as the model, or the errors name each node that cannot be converted.
//!
//! A [`Converter`] stores the options, and converts any number of models. A [`Conversion`] lists the inputs,
//! outputs and warnings, gives access to its [`Net`](ncnn::Net) layer by layer, and writes the files. A
//! [`Refusal`] has an [`Error`](error::Error) for each node that cannot be converted.
//!
//! [`Input::Memory`] is a model in memory, and [`Conversion::write_to`] writes to any
//! [`Write`](std::io::Write), also on systems without files.
//!
//! Versions follow [semantic versioning](https://semver.org): the public interface stays compatible until the
//! next major version (before 1.0, the next minor version). The set of convertible models and the layers of a
//! net may change with every version; the results of a net do not.

// The command uses only the public interface, by the name that other programs use.
#[cfg(feature = "cli")]
extern crate self as onnx2ncnn;

mod api;
mod bundle;
#[cfg(feature = "cli")]
pub mod cli;
mod common;
pub mod error;
mod example;
mod graph;
mod lower;
pub mod ncnn;
mod onnx;
mod op;
mod ops;
mod pass;
mod pipeline;
pub mod reference;
pub mod report;
pub mod tensor;
#[cfg(feature = "verify")]
mod verify;

pub use api::{
    Chain, Conversion, Converter, HalfBlob, InnerBlob, InputShapes, Part, Refusal, Simplified, Step,
    Supported, Variant, Variants, supported,
};
pub use bundle::{BUNDLE_VERSION, Bundle, BundleNet, convert_folder};
pub use example::Language;
pub use graph::{CustomLayer, CustomParam, CustomWeight, Unfused};
pub use lower::{AssumedFact, Assumption};
pub use onnx::{ExternalData, Input, ModelBytes, Storage};
pub use pass::blocks::Weights;
pub use pass::passes::{PassInfo, PassKind, passes};
pub use pass::quantized::Quantization;
pub use pipeline::{
    Composition, Described, FileInfo, Inspection, Metadata, OptionInfo, OptionKind, OptionValue, Options,
    Pass, Port, Purpose, Remedy, options,
};
pub use tensor::{Dim, SizeCondition};
#[cfg(feature = "verify")]
pub use verify::{Evaluator, Proof, Reduced, State, WindowProof};
