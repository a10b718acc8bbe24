//! The options of a conversion, and the conversion.

use std::collections::BTreeSet;
use std::path::PathBuf;

use super::{Conversion, Refusal, Simplified};
use crate::error::Errors;
use crate::onnx::{Input, Sources};
use crate::pass::blocks::Weights;
use crate::pass::quantized::Quantization;
use crate::pipeline::{self, Inspection, Options};
use crate::tensor::{Array, Dim};

/// How models are converted: nothing is set at first, and each method sets one thing.
///
/// ```no_run
/// use onnx2ncnn::{Converter, Dim, Input};
///
/// let converter = Converter::new()
///     .input_shape("images", [Dim::from(1), Dim::from(3), Dim::symbol("H"), Dim::symbol("W")])
///     .outputs(["boxes", "scores"])
///     .fp16(true);
/// for model in ["one.onnx", "two.onnx"] {
///     let conversion = converter.convert(&Input::from(model))?;
///     conversion.write(&format!("{model}.param"), &format!("{model}.bin"))?;
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// Options that do not fit a model, such as the shape of an unknown input, are an error of the kind
/// [`Usage`](crate::error::ErrorKind::Usage) when that model is converted.
#[derive(Clone, Debug, Default)]
pub struct Converter {
    options: Options,
}

/// Options for reading a model, shared by conversion, simplification and inspection.
impl Converter {
    /// Creates a converter without options. The written files load in every release of ncnn from 20240410 on;
    /// free sizes may require 20250428.
    pub fn new() -> Converter {
        Converter::default()
    }

    /// Sets the shape of an input, in place of the declared one. The empty name means the only input.
    #[must_use]
    pub fn input_shape(mut self, name: impl Into<String>, shape: impl IntoIterator<Item = Dim>) -> Converter {
        self.options.input_shapes.push((name.into(), shape.into_iter().collect()));
        self
    }

    /// Makes an input a constant. The empty name means the only input. The elements are converted to the type
    /// of the input, which must represent integers and booleans exactly. The array has the shape of the input,
    /// or as many elements, or one, which is repeated.
    #[must_use]
    pub fn set(mut self, name: impl Into<String>, value: Array) -> Converter {
        self.options.input_values.push((name.into(), value));
        self
    }

    /// Makes the results of operators of random numbers inputs, which are refused otherwise. The user then
    /// provides the numbers, in the distribution of the operator.
    #[must_use]
    pub fn random_as_input(mut self, as_input: bool) -> Converter {
        self.options.random_as_input = as_input;
        self
    }

    /// Makes these values the inputs, by cutting the graph. The default is the model's own inputs.
    #[must_use]
    pub fn inputs<S: Into<String>>(mut self, names: impl IntoIterator<Item = S>) -> Converter {
        self.options.inputs.extend(names.into_iter().map(Into::into));
        self
    }

    /// Makes these values the outputs, by cutting the graph. The default is the model's own outputs.
    #[must_use]
    pub fn outputs<S: Into<String>>(mut self, names: impl IntoIterator<Item = S>) -> Converter {
        self.options.outputs.extend(names.into_iter().map(Into::into));
        self
    }

    /// Sets the folder of external data; the default is that of the model.
    #[must_use]
    pub fn data_dir(mut self, folder: impl Into<PathBuf>) -> Converter {
        self.options.read.data_dir = Some(folder.into());
        self
    }

    /// Sets the maximum bytes of a model file; the default is 16 GiB. Files of external data do not count.
    #[must_use]
    pub fn max_size(mut self, bytes: u64) -> Converter {
        self.options.read.max_size = bytes;
        self
    }

    /// Skips a pass, one of those that [`passes`](crate::passes) lists.
    #[must_use]
    pub fn skip(mut self, pass: impl Into<String>) -> Converter {
        self.options.skip.insert(pass.into());
        self
    }

    /// Inspects refused models too, as a request for a report does.
    #[must_use]
    pub fn explain(mut self, explain: bool) -> Converter {
        self.options.explain = explain;
        self
    }

    /// Checks the invariants of the graph after every pass, for developers of this library.
    #[must_use]
    pub fn check(mut self, check: bool) -> Converter {
        self.options.check = check;
        self
    }
}

/// Options of the net.
impl Converter {
    /// Converts inputs of float64 to float32, the only precision of ncnn. By default they are refused: a
    /// float64 may be out of the range of float32.
    #[must_use]
    pub fn double_as_float(mut self, as_float: bool) -> Converter {
        self.options.double_as_float = as_float;
        self
    }

    /// Renames the blob of a value: of an input, of an output, or of an intermediate value that is a blob of
    /// the net. The new name has no white space, at most 255 bytes, and differs from those of other inputs
    /// and outputs.
    #[must_use]
    pub fn rename(mut self, value: impl Into<String>, blob: impl Into<String>) -> Converter {
        self.options.renames.push((value.into(), blob.into()));
        self
    }

    /// Sets the oldest release of ncnn that must load the result, by its date, such as 20260526. Features of
    /// newer releases are then not used.
    #[must_use]
    pub fn ncnn_version(mut self, release: u32) -> Converter {
        self.options.ncnn_version = Some(release);
        self
    }

    /// Sets the treatment of quantized networks.
    #[must_use]
    pub fn quantization(mut self, quantization: Quantization) -> Converter {
        self.options.quantization = quantization;
        self
    }

    /// Sets the storage of the constant matrices of products and tables.
    ///
    /// Weights in blocks have the layout of ncnn 20261020. A net with them loads in no older release, and another
    /// one may read them incorrectly.
    #[must_use]
    pub fn weights(mut self, weights: Weights) -> Converter {
        self.options.weights = weights;
        self
    }

    /// Writes weights in float16. Biases and normalizations stay in float32, as do weights that would lose
    /// range or precision. Constants become float16 if that is exact.
    #[must_use]
    pub fn fp16(mut self, fp16: bool) -> Converter {
        self.options.fp16 = fp16;
        self
    }

    /// Lets all layers compute in float32 on processors that compute in float16, which takes more time. Blobs
    /// are stored in float16.
    #[must_use]
    pub fn precise(mut self, precise: bool) -> Converter {
        self.options.precise = precise;
        self
    }

    /// Keeps the results of nodes in float32 on processors that compute in float16, which has no numbers above 65504.
    /// The layers that do the work of such a node compute in float32, and so do those that read its results. Nodes are
    /// given by their names or those of their outputs; an input is given by its name. All nodes with a name are kept.
    ///
    /// A name that the model does not have is an error of the kind [`Usage`](crate::error::ErrorKind::Usage). A node of
    /// which no layer does the work, such as a folded one, is a warning. [`Conversion::half_blobs`] names the others.
    #[must_use]
    pub fn float32<S: Into<String>>(mut self, names: impl IntoIterator<Item = S>) -> Converter {
        self.options.float32.extend(names.into_iter().map(Into::into));
        self
    }

    /// Lets the runtime keep the caches of a decoder, in a layout of its own: attention to a cache becomes one layer,
    /// for ncnn 20260113 or later. See [`Port::cache`](crate::Port::cache).
    #[must_use]
    pub fn kv_cache(mut self, kv_cache: bool) -> Converter {
        self.options.kv_cache = kv_cache;
        self
    }

    /// Refuses models of which the net computes the right result only under an assumption: see
    /// [`Conversion::assumptions`]. Finite inputs, which nearly every net expects, are accepted.
    #[must_use]
    pub fn strict(mut self, strict: bool) -> Converter {
        self.options.strict = strict;
        self
    }
}

/// Further files, written by [`Conversion::write`].
impl Converter {
    /// The simplified graph as ONNX; for [`Quantization::Float`], the graph without rounding.
    #[must_use]
    pub fn emit_onnx(mut self, path: impl Into<PathBuf>) -> Converter {
        self.options.emit_onnx = Some(path.into());
        self
    }

    /// Keeps the graph of [`Converter::emit_onnx`] for [`Conversion::write_onnx_to`].
    #[must_use]
    pub fn keep_onnx(mut self, keep: bool) -> Converter {
        self.options.keep_onnx = keep;
        self
    }

    /// The table from which `ncnn2int8` makes int8 layers, of a quantized network in float32.
    #[must_use]
    pub fn table(mut self, path: impl Into<PathBuf>) -> Converter {
        self.options.table = Some(path.into());
        self
    }

    /// A report as JSON; see [`report`](crate::report).
    #[must_use]
    pub fn report(mut self, path: impl Into<PathBuf>) -> Converter {
        self.options.report = Some(path.into());
        self
    }

    /// The report as an HTML page with a drawing of the network.
    #[must_use]
    pub fn html(mut self, path: impl Into<PathBuf>) -> Converter {
        self.options.html = Some(path.into());
        self
    }

    /// The binary form of the `.param` file, with indices instead of names.
    #[must_use]
    pub fn param_bin(mut self, path: impl Into<PathBuf>) -> Converter {
        self.options.embedding.param_bin = Some(path.into());
        self
    }

    /// A C header with the indices of layers and blobs by their names.
    #[must_use]
    pub fn id_header(mut self, path: impl Into<PathBuf>) -> Converter {
        self.options.embedding.id_header = Some(path.into());
        self
    }

    /// A C header with the bytes of the binary `.param` file and of the `.bin` file as arrays.
    #[must_use]
    pub fn mem_header(mut self, path: impl Into<PathBuf>) -> Converter {
        self.options.embedding.mem_header = Some(path.into());
        self
    }
}

/// Operations on a model.
impl Converter {
    /// Converts a model: reads, cuts, infers, folds, simplifies, expands, lowers, optimizes and checks it.
    /// Nothing is written yet.
    ///
    /// # Errors
    ///
    /// Every node that cannot be converted, and a convertible part of the model, if there is one.
    pub fn convert(&self, input: &Input) -> Result<Conversion, Refusal> {
        let sources = Sources::open(input, &self.options.read)?;
        match pipeline::convert(&sources, &self.options) {
            Ok(converted) => Ok(Conversion::new(converted, self.options.clone())),
            Err(error) => Err(Refusal::new(error, &sources, &self.options)),
        }
    }

    /// Simplifies a model: read, cut, infer, fold, rewrite. Options of the net and further files have no
    /// effect.
    ///
    /// The result is an ONNX model that computes the same, with the same inputs and outputs. Unknown
    /// operators, and all that depends on them, stay as they are; so do free sizes, and nodes that make large
    /// constants of small ones.
    ///
    /// # Errors
    ///
    /// The model cannot be read or breaks the specification.
    pub fn simplify(&self, input: &Input) -> Result<Simplified, Errors> {
        let sources = Sources::open(input, &self.options.read)?;
        Ok(Simplified::new(pipeline::simplify(&sources, &self.options)?))
    }

    /// Returns a part of a model with further values as outputs, for comparison with a simplified model or a
    /// net. Names of values that the model does not compute are ignored.
    ///
    /// # Errors
    ///
    /// The model cannot be read or breaks the specification.
    pub fn expose(&self, input: &Input, values: &BTreeSet<String>) -> Result<Simplified, Errors> {
        let sources = Sources::open(input, &self.options.read)?;
        Ok(Simplified::new(pipeline::expose(&sources, &self.options, values)?))
    }

    /// Reads a model and counts its operators, parameters and multiply-adds.
    ///
    /// # Errors
    ///
    /// The model cannot be read or breaks the specification.
    pub fn inspect(&self, input: &Input) -> Result<Inspection, Errors> {
        let sources = Sources::open(input, &self.options.read)?;
        Ok(pipeline::inspect(&sources, &self.options)?)
    }
}
