//! The extension module `onnx2ncnn._native`: the library and the command `onnx2ncnn` for Python.
//!
//! `python/` is a member of the workspace, but no default member: `cargo build` and `cargo test` need no
//! Python. `pip install ./python` builds it with maturin, for the stable interface of Python 3.9 (abi3), in
//! the profile `python`, which unwinds. `python/src/` is the extension `onnx2ncnn._native`: the options, a
//! conversion, a simplified model, and the command, each a thin class or function around one of the library.
//! `python/onnx2ncnn/` is the documented package in Python: arguments, exceptions, and all that uses ncnn,
//! numpy, onnx or onnxruntime, which are imported where they are used. Its options are those of the table,
//! and a test compares their types in `_native.pyi`.
//!
//! - Every call of the library runs in `failure::run`: without the global interpreter lock, with panics as
//!   internal errors, and with each kind of error as its exception. There is no `unsafe`.
//! - `convert_many` starts the command `batch`, and that an interpreter for each model
//!   (`Program::Interpreter`), which loads only the extension: the package takes longer to import than a
//!   small model to convert.
//!
//! The bytes of a model are those of the `bytes` object, which the constants keep alive. The `.bin` file is
//! written into a `bytes` object of its size; float16 weights are converted once to know it. `Net.load` passes
//! these bytes through a `DataReader` of Python: `ncnn.Net.load_model_mem` reports no error.
//!
//! The comparison with onnxruntime, the quantization and the rounding of weights are the scripts of the command,
//! `cli/python/compare.py`, `quantize.py` and `weights.py`. Each is one text with `session.py`, because the command gives Python a single file.

mod chain;
mod command;
mod conversion;
mod converter;
mod failure;
mod model;
mod simplified;
mod variants;

use mimalloc::MiMalloc;
use pyo3::prelude::*;

/// The allocator of the command, for the same speed and memory.
#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

/// The library and the command `onnx2ncnn`.
#[pymodule]
mod _native {
    #[pymodule_export]
    use crate::chain::Chain;
    #[pymodule_export]
    use crate::command::main;
    #[pymodule_export]
    use crate::conversion::Conversion;
    #[pymodule_export]
    use crate::converter::{Converter, options, passes, supported};
    #[pymodule_export]
    use crate::failure::with_arguments;
    #[pymodule_export]
    use crate::simplified::Simplified;
    #[pymodule_export]
    use crate::variants::Variants;

    /// The version of the package.
    #[pymodule_export]
    const VERSION: &str = env!("CARGO_PKG_VERSION");

    /// The script that compares models and nets, for the package to load.
    #[pymodule_export]
    const COMPARE: &str = onnx2ncnn::cli::COMPARE;

    /// The script that quantizes models, for the package to load.
    #[pymodule_export]
    const QUANTIZE: &str = onnx2ncnn::cli::QUANTIZE;

    /// The script that rounds weights by samples, for the package to load.
    #[pymodule_export]
    const WEIGHTS: &str = onnx2ncnn::cli::WEIGHTS;

    /// The bits of the integers to which weights are rounded, by the names of the kinds.
    #[pymodule_export]
    const BITS: [(&str, usize); 3] = [("int8", 8), ("int6", 6), ("int4", 4)];

    /// The sizes of matrices that are rounded, and of their blocks, by their names.
    #[pymodule_export]
    const BLOCK_SIZES: [(&str, usize); 5] = onnx2ncnn::Weights::SIZES;

    /// The least cosine of the outputs of int8 nets.
    #[pymodule_export]
    const INT8_COSINE: f64 = onnx2ncnn::cli::INT8_COSINE;

    /// The bound of losses.
    #[pymodule_export]
    const MOST_LOSS: f64 = onnx2ncnn::cli::MAX_LOSS;

    /// The modes of all layers in half precision, of which all but the first are options.
    #[pymodule_export]
    const HALF_MODES: [&str; 3] = onnx2ncnn::cli::HALF_MODES;

    /// Sizes to try for free axes until a model runs.
    #[pymodule_export]
    const SIZES: [i64; 8] = onnx2ncnn::cli::SIZES;

    /// The tolerance for two models, relative to the largest magnitude of an output.
    #[pymodule_export]
    const MODELS_TOLERANCE: f64 = onnx2ncnn::cli::MODELS_TOLERANCE;
}
