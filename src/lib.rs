//! Converts ONNX models to the files that [ncnn](https://github.com/Tencent/ncnn) loads.
//!
//! ```no_run
//! use std::path::Path;
//! use onnx2ncnn::{Input, Options, convert};
//!
//! let conversion = convert(&Input::Path("model.onnx".into()), &Options::default())?;
//! let written = conversion.write(Path::new("model.param"), Path::new("model.bin"))?;
//! println!("{} layers", written.layers);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! The way of the data: the file is mapped and read as a graph in ONNX's words, shapes are inferred and constants folded, what is
//! left is lowered to a net in ncnn's words, and the net is written. Either the net computes what the model computes, or there
//! are errors that name each node in the way.

pub mod error;
pub mod graph;
mod inspect;
pub(crate) mod lower;
pub mod ncnn;
pub mod onnx;
pub(crate) mod ops;
pub(crate) mod output;
pub mod pass;
mod simplify;
mod supported;
pub mod tensor;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use crate::error::{Cut, Error, Errors};
use crate::graph::{Graph, Node, ValueId};
use crate::lower::Refusal;
use crate::ncnn::{BlobId, Embedding, Net, Written};
use crate::onnx::Model;
use crate::pass::expand::Stage;
use crate::pass::infer::Doubts;
use crate::pass::rewrite::{FUSIONS, Rewrite, SIMPLIFICATIONS};
use crate::tensor::Dim;

pub use crate::inspect::{Described, Inspection, inspect};
pub use crate::onnx::{ExternalData, Input, ReadOptions, Storage};
pub use crate::pass::quantized::Quantization;
pub use crate::simplify::{Simplified, expose, simplify};
pub use crate::supported::{Supported, supported};

/// What to convert, and how.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Limits and folders for reading.
    pub read: ReadOptions,
    /// Sizes of graph inputs, in place of those in the model. The empty name stands for the only input.
    pub input_shapes: Vec<(String, Vec<Dim>)>,
    /// Values to be the inputs of the net: the graph is cut there. Empty for the model's own.
    pub inputs: Vec<String>,
    /// Values to be the outputs of the net: the graph is cut there. Empty for the model's own.
    pub outputs: Vec<String>,
    /// Takes inputs of double precision as singles, which is all that ncnn computes in. Otherwise they are refused: a double may
    /// be far out of the range of a single.
    pub double_as_float: bool,
    /// The oldest release of ncnn that must load the result, by its date; none for the oldest that this program writes for. What a
    /// newer one has more is used only then.
    pub ncnn_version: Option<u32>,
    /// What becomes of networks that are quantised throughout.
    pub quantization: Quantization,
    /// Writes weights in half precision. Biases and normalizations stay in single precision, and so does what would be lost.
    pub fp16: bool,
    /// Where the table is written that `ncnn2int8` makes int8 layers by, of a quantised network in float.
    pub table: Option<PathBuf>,
    /// Further files for compiling the net into a program.
    pub embedding: Embedding,
    /// Where the simplified graph is written as ONNX.
    pub emit_onnx: Option<PathBuf>,
    /// Names of passes that are left out, of those that [`pass::rewrite`] lists.
    pub skip: BTreeSet<String>,
    /// Checks the invariants of the graph after every pass.
    pub check: bool,
}

impl Options {
    /// The same for a part of what was to be converted.
    fn cut_at(&self, cut: &Cut) -> Options {
        let or =
            |part: &Vec<String>, own: &Vec<String>| if part.is_empty() { own.clone() } else { part.clone() };
        let (inputs, outputs) = (or(&cut.inputs, &self.inputs), or(&cut.outputs, &self.outputs));
        Options { inputs, outputs, emit_onnx: None, ..self.clone() }
    }
}

/// A graph input or output and the blob that it is in the net.
#[derive(Clone, Debug)]
pub struct Port {
    /// The name in the model.
    pub name: String,
    /// The element type in the model, in ONNX's word.
    pub dtype: String,
    /// The sizes in the model.
    pub shape: Vec<Dim>,
    /// The name of the blob.
    pub blob: String,
    /// The sizes of the blob, outermost first.
    pub form: Vec<Dim>,
    /// Whether the runtime reads the blob as 32-bit integers.
    pub int32: bool,
}

/// A converted model, ready to be written.
#[derive(Debug)]
pub struct Conversion {
    net: Net,
    embedding: Embedding,
    /// The table of scales and where it is to be written.
    table: Option<(String, PathBuf)>,
    /// The simplified model and where it is to be written.
    simplified: Option<(Model, PathBuf)>,
    /// The files of the model.
    sources: Vec<PathBuf>,
    /// What users give.
    pub inputs: Vec<Port>,
    /// What users get.
    pub outputs: Vec<Port>,
    /// What users should know: assumptions and changed names.
    pub warnings: Vec<String>,
    /// The nodes that each pass left, from reading on.
    pub passes: Vec<Pass>,
}

/// What a pass left of the graph.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pass {
    /// What was done.
    pub name: &'static str,
    /// The nodes after it.
    pub nodes: usize,
}

impl Conversion {
    /// The net.
    pub fn net(&self) -> &Net {
        &self.net
    }

    /// Writes both files, and further ones that were asked for: all are there afterwards, or none is changed.
    /// The files of the model are not overwritten.
    pub fn write(&self, param: &Path, bin: &Path) -> error::Result<Written> {
        let mut files = Vec::new();
        if let Some((model, path)) = &self.simplified {
            let since = |node: &Node, opset| ops::find(node)?.since_version(opset);
            files = onnx::stage(model, path, &Storage::AsNeeded, &since)?;
        }
        if let Some((text, path)) = &self.table {
            files.push(output::stage_text(path, text)?);
        }
        let (net_files, written) = self.net.stage(param, bin, &self.embedding)?;
        files.extend(net_files);
        for (i, (target, _)) in files.iter().enumerate() {
            if self.sources.iter().any(|source| target.is_file(source)) {
                return Err(Error::usage("this would overwrite data of the model").in_file(target.named()));
            }
            if files.iter().take(i).any(|(other, _)| other.is(target)) {
                return Err(Error::usage("two results would be the same file").in_file(target.named()));
            }
        }
        output::put_all(files)?;
        Ok(written)
    }
}

/// Converts a model: read, cut, infer, fold, simplify, expand, lower, optimise, check. Where it is refused, the errors name a part of it that
/// is not, if there is one.
pub fn convert(input: &Input, options: &Options) -> Result<Conversion, Errors> {
    let model = onnx::read(input, &options.read)?;
    convert_model(&model, options).map_err(|Refusal { errors, cuts }| {
        let works = |cut: &Cut| convert_model(&model, &options.cut_at(cut)).is_ok();
        errors.with_cut(cuts.into_iter().find(works))
    })
}

fn convert_model(model: &Model, options: &Options) -> Result<Conversion, Refusal> {
    let mut progress = Progress { options, passes: Vec::new() };
    let (sources, mut graph) = (model.files.clone(), model.graph.clone());
    progress.after("read", &graph)?;
    pass::cut::cut_graph(&mut graph, &options.inputs, &options.outputs)?;
    let mut warnings = Vec::new();
    pass::input_shape::set_input_shapes(&mut graph, &options.input_shapes)?;
    check_tensors(&graph)?;
    pass::input_shape::fix_batch(&mut graph, &mut warnings)?;
    pass::input_shape::settle_empty_inputs(&mut graph, &mut warnings)?;
    progress.after("cut", &graph)?;
    pass::rewrite::check_names(&options.skip)?;
    let release = ncnn::release(options.ncnn_version)?;
    let mut refused = Doubts::new();
    let mut doubts = reduce(&mut graph, Some(Stage::Inline), &mut refused, &mut progress)?;
    let keep = |path: &PathBuf| (Model { graph: graph.clone(), ..model.clone() }, path.clone());
    let simplified = options.emit_onnx.as_ref().map(keep);
    let mut scales = Vec::new();
    if options.quantization != Quantization::Exact {
        warnings.extend(pass::quantized::requantize(&mut graph, options.quantization, &mut scales)?);
        pass::dead::remove_dead_nodes(&mut graph);
        doubts = pass::infer::infer_and_fold(&mut graph)?;
        progress.after("quantization", &graph)?;
    }
    pass::rounding::check_rounding(&graph)?;
    progress.rewrite(&mut graph, FUSIONS, &mut doubts)?;
    pass::expand::expand_nodes(&mut graph, Stage::Expand { release }, &mut doubts, &mut refused)?;
    progress.after("expand", &graph)?;
    // What operators were expanded to may be a pattern, together with what stands around it.
    progress.rewrite(&mut graph, FUSIONS, &mut doubts)?;
    for (node, error) in refused {
        doubts.entry(node).or_insert(error);
    }
    let mut net = lower::lower_graph(&graph, &mut doubts, options.double_as_float, release)?;
    net.half = options.fp16;
    net.optimise(&options.skip)?;
    net.split();
    let places = net.places(&scales);
    for renamed in net.name() {
        warnings.push(format!("\"{}\" is called \"{}\" in the net", renamed.from, renamed.to));
    }
    net.check().map_err(Error::into_internal)?;
    let ports = |values: &[ValueId], blobs: Vec<BlobId>| {
        values.iter().zip(blobs).map(|(value, blob)| port(&graph, &net, *value, blob)).collect()
    };
    let inputs = ports(&graph.given_inputs(), net.inputs.clone());
    let outputs = ports(&graph.outputs, net.outputs.iter().map(|output| output.blob).collect());
    let embedding = options.embedding.clone();
    let table = options.table.as_ref().map(|path| (net.table(&places), path.clone()));
    Ok(Conversion {
        embedding,
        table,
        inputs,
        outputs,
        warnings,
        passes: progress.passes,
        net,
        simplified,
        sources,
    })
}

/// Refuses inputs that are no tensors.
fn check_tensors(graph: &Graph) -> error::Result<()> {
    for value in graph.inputs.iter().map(|id| graph.value(*id)) {
        if let Some(other) = &value.other_type {
            let message = format!("a value of type {}; ncnn knows tensors only", other.kind);
            return Err(Error::unsupported(message).at_part(format!("input \"{}\"", value.name)));
        }
    }
    Ok(())
}

/// Infers, folds and removes what nobody reads. The graph keeps its meaning.
fn reduce(
    graph: &mut Graph,
    inlined: Option<Stage>,
    refused: &mut Doubts,
    progress: &mut Progress,
) -> error::Result<Doubts> {
    pass::dead::remove_dead_nodes(graph);
    let mut doubts = pass::infer::infer_and_fold(graph)?;
    progress.after("infer and fold", graph)?;
    if let Some(stage) = inlined {
        pass::expand::expand_nodes(graph, stage, &mut doubts, refused)?;
        progress.after("inline", graph)?;
    }
    progress.rewrite(graph, SIMPLIFICATIONS, &mut doubts)?;
    Ok(doubts)
}

/// What has been done so far.
struct Progress<'a> {
    options: &'a Options,
    passes: Vec<Pass>,
}

impl Progress<'_> {
    /// Applies the rewritings that are not switched off.
    fn rewrite(
        &mut self,
        graph: &mut Graph,
        rewritings: &[Rewrite],
        doubts: &mut Doubts,
    ) -> error::Result<()> {
        let skip = &self.options.skip;
        pass::rewrite::rewrite(graph, rewritings, skip, doubts, |name, graph| self.after(name, graph))
    }

    /// Notes what a pass left, and checks it where that is asked for.
    fn after(&mut self, name: &'static str, graph: &Graph) -> error::Result<()> {
        self.passes.push(Pass { name, nodes: graph.nodes().count() });
        if !self.options.check {
            return Ok(());
        }
        let broken = |error| {
            Error::internal(format!("after the pass \"{name}\" the graph is broken")).caused_by(error)
        };
        graph.check().map_err(broken)
    }
}

fn port(graph: &Graph, net: &Net, value: ValueId, blob: BlobId) -> Port {
    let (value, blob) = (graph.value(value), net.blob(blob));
    Port {
        name: value.name.clone(),
        dtype: value.dtype.map_or_else(|| "?".to_owned(), |dtype| dtype.name().to_owned()),
        shape: value.shape.clone().unwrap_or_default(),
        blob: blob.name.clone(),
        form: blob.shape.clone(),
        int32: blob.element == ncnn::Element::I32,
    }
}
