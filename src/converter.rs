//! What is told before a model is read.

use std::collections::BTreeSet;
use std::path::PathBuf;

use crate::error::{Cut, Errors};
use crate::inspect::{Inspection, infer_model, inspect_model};
use crate::lower::Refusal;
use crate::ncnn::Embedding;
use crate::onnx::{Input, ReadOptions, Sources};
use crate::pass::quantized::Quantization;
use crate::report::untraced;
use crate::simplify::{Simplified, expose_model, simplify_model};
use crate::tensor::Dim;
use crate::{Conversion, convert_model};

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
/// What does not fit a model, such as an input that it does not have, is told when that model is converted, as an error of the kind
/// [`Usage`](crate::error::ErrorKind::Usage).
#[derive(Clone, Debug, Default)]
pub struct Converter {
    pub(crate) read: ReadOptions,
    pub(crate) input_shapes: Vec<(String, Vec<Dim>)>,
    pub(crate) inputs: Vec<String>,
    pub(crate) outputs: Vec<String>,
    pub(crate) renames: Vec<(String, String)>,
    pub(crate) double_as_float: bool,
    pub(crate) ncnn_version: Option<u32>,
    pub(crate) quantization: Quantization,
    pub(crate) fp16: bool,
    pub(crate) table: Option<PathBuf>,
    pub(crate) embedding: Embedding,
    pub(crate) emit_onnx: Option<PathBuf>,
    pub(crate) report: Option<PathBuf>,
    pub(crate) html: Option<PathBuf>,
    pub(crate) skip: BTreeSet<String>,
    pub(crate) check: bool,
    pub(crate) explain: bool,
}

/// What of a model is meant, and how it is read: converting, simplifying and inspecting follow it alike.
impl Converter {
    /// Models as they are, to files that every release of ncnn from 20240410 on loads; sizes that stay free may take 20250428.
    pub fn new() -> Converter {
        Converter::default()
    }

    /// Gives an input these sizes in place of those in the model. The empty name stands for the only input.
    #[must_use]
    pub fn input_shape(mut self, name: impl Into<String>, shape: impl IntoIterator<Item = Dim>) -> Converter {
        self.input_shapes.push((name.into(), shape.into_iter().collect()));
        self
    }

    /// Makes these values the inputs: the graph is cut there. Without any, the model's own are.
    #[must_use]
    pub fn inputs<S: Into<String>>(mut self, names: impl IntoIterator<Item = S>) -> Converter {
        self.inputs.extend(names.into_iter().map(Into::into));
        self
    }

    /// Makes these values the outputs: the graph is cut there. Without any, the model's own are.
    #[must_use]
    pub fn outputs<S: Into<String>>(mut self, names: impl IntoIterator<Item = S>) -> Converter {
        self.outputs.extend(names.into_iter().map(Into::into));
        self
    }

    /// Looks for external data in this folder and not in that of the model.
    #[must_use]
    pub fn data_dir(mut self, folder: impl Into<PathBuf>) -> Converter {
        self.read.data_dir = Some(folder.into());
        self
    }

    /// Refuses model files of more bytes than this, 16 GiB at first. Files of external data do not count.
    #[must_use]
    pub fn max_size(mut self, bytes: u64) -> Converter {
        self.read.max_size = bytes;
        self
    }

    /// Leaves out a pass, of those that [`passes`](crate::passes) lists.
    #[must_use]
    pub fn skip(mut self, pass: impl Into<String>) -> Converter {
        self.skip.insert(pass.into());
        self
    }

    /// Lets the errors of a model that is refused tell what it consists of, as those of a model do that a report is asked for of.
    #[must_use]
    pub fn explain(mut self, explain: bool) -> Converter {
        self.explain = explain;
        self
    }

    /// Checks the invariants of the graph after every pass, for those who work on this library.
    #[must_use]
    pub fn check(mut self, check: bool) -> Converter {
        self.check = check;
        self
    }
}

/// What the net is to be.
impl Converter {
    /// Takes inputs of double precision as singles, which is all that ncnn computes in. Otherwise they are refused: a double may be
    /// far out of the range of a single.
    #[must_use]
    pub fn double_as_float(mut self, as_float: bool) -> Converter {
        self.double_as_float = as_float;
        self
    }

    /// Calls the blob of a value by another name: of an input, of an output, or of a value inside that is still a blob in the net. The
    /// new name has no white space, no more than 255 bytes, and is that of no other input or output.
    #[must_use]
    pub fn rename(mut self, value: impl Into<String>, blob: impl Into<String>) -> Converter {
        self.renames.push((value.into(), blob.into()));
        self
    }

    /// The oldest release of ncnn that must load the result, by its date, such as 20260526. What a newer one has more is used only
    /// then.
    #[must_use]
    pub fn ncnn_version(mut self, release: u32) -> Converter {
        self.ncnn_version = Some(release);
        self
    }

    /// What becomes of networks that are quantised throughout.
    #[must_use]
    pub fn quantization(mut self, quantization: Quantization) -> Converter {
        self.quantization = quantization;
        self
    }

    /// Writes weights in half precision. Biases and normalizations stay in single precision, and so does what would be lost. Constants
    /// are halves where nothing is.
    #[must_use]
    pub fn fp16(mut self, fp16: bool) -> Converter {
        self.fp16 = fp16;
        self
    }
}

/// Further files, which [`Conversion::write`] writes with the others.
impl Converter {
    /// The simplified graph as ONNX; in [`Quantization::Float`] the graph without rounding.
    #[must_use]
    pub fn emit_onnx(mut self, path: impl Into<PathBuf>) -> Converter {
        self.emit_onnx = Some(path.into());
        self
    }

    /// The table that `ncnn2int8` makes int8 layers by, of a quantised network in float.
    #[must_use]
    pub fn table(mut self, path: impl Into<PathBuf>) -> Converter {
        self.table = Some(path.into());
        self
    }

    /// A report as JSON; see [`report`](crate::report).
    #[must_use]
    pub fn report(mut self, path: impl Into<PathBuf>) -> Converter {
        self.report = Some(path.into());
        self
    }

    /// The report as a page that shows the network.
    #[must_use]
    pub fn html(mut self, path: impl Into<PathBuf>) -> Converter {
        self.html = Some(path.into());
        self
    }

    /// The binary form of the `.param` file, which has numbers for names.
    #[must_use]
    pub fn param_bin(mut self, path: impl Into<PathBuf>) -> Converter {
        self.embedding.param_bin = Some(path.into());
        self
    }

    /// A C header with the numbers of layers and blobs by their names.
    #[must_use]
    pub fn id_header(mut self, path: impl Into<PathBuf>) -> Converter {
        self.embedding.id_header = Some(path.into());
        self
    }

    /// A C header with the bytes of the binary `.param` file and of the `.bin` file as arrays.
    #[must_use]
    pub fn mem_header(mut self, path: impl Into<PathBuf>) -> Converter {
        self.embedding.mem_header = Some(path.into());
        self
    }
}

/// What is done with a model.
impl Converter {
    /// Converts a model: read, cut, infer, fold, simplify, expand, lower, optimise, check. Nothing is written yet.
    ///
    /// # Errors
    ///
    /// Every node that is in the way is named, and a part of the model that can be converted, if there is one.
    pub fn convert(&self, input: &Input) -> Result<Conversion, Errors> {
        let sources = Sources::open(input, &self.read)?;
        convert_model(&sources, self).map_err(|Refusal { errors, cuts }| {
            let works = |cut: &Cut| convert_model(&sources, &self.cut_at(cut)).is_ok();
            let errors = errors.with_cut(cuts.into_iter().find(works));
            if !self.explain && self.report.is_none() && self.html.is_none() {
                return errors;
            }
            match (infer_model(&sources, self), sources.read()) {
                (Ok((inspection, graph)), Ok(model)) => {
                    errors.with_model(inspection, untraced(&model.graph, &graph))
                }
                // Why it cannot be counted is among the errors.
                _ => errors,
            }
        })
    }

    /// Simplifies a model: read, cut, infer, fold, rewrite. What is told of the net, and further files, do not count.
    ///
    /// The result computes what the model computes, in ONNX's words, with the same inputs and outputs. Operators that are not known,
    /// and what follows from them, stay as they are; so do free sizes, and nodes that make large constants of small ones.
    ///
    /// # Errors
    ///
    /// The model cannot be read or breaks the specification.
    pub fn simplify(&self, input: &Input) -> Result<Simplified, Errors> {
        simplify_model(&Sources::open(input, &self.read)?, self)
    }

    /// A part of a model as it is, with further values as outputs: what a simplified model, or a net, is compared with. Values that
    /// the model does not compute are read past.
    ///
    /// # Errors
    ///
    /// The model cannot be read or breaks the specification.
    pub fn expose(&self, input: &Input, values: &BTreeSet<String>) -> Result<Simplified, Errors> {
        Ok(expose_model(&Sources::open(input, &self.read)?, self, values)?)
    }

    /// Reads a model and counts what it consists of.
    ///
    /// # Errors
    ///
    /// The model cannot be read or breaks the specification.
    pub fn inspect(&self, input: &Input) -> Result<Inspection, Errors> {
        Ok(inspect_model(&Sources::open(input, &self.read)?, self)?)
    }

    /// The same for a part of what was to be converted.
    fn cut_at(&self, cut: &Cut) -> Converter {
        let or =
            |part: &Vec<String>, own: &Vec<String>| if part.is_empty() { own.clone() } else { part.clone() };
        let (inputs, outputs) = (or(&cut.inputs, &self.inputs), or(&cut.outputs, &self.outputs));
        // What is renamed may lie outside.
        let renames = Vec::new();
        Converter { inputs, outputs, renames, emit_onnx: None, report: None, html: None, ..self.clone() }
    }
}
