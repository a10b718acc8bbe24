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
//! [`Input::Memory`] is a model in memory, and [`Conversion::write_to`] writes to any [`Write`](std::io::Write), also where there are no
//! files.
//!
//! A [`Converter`] is told what is wanted and may convert many models. A [`Conversion`] tells what users of the net give and get and
//! what they should know, lets its [`Net`](ncnn::Net) be read layer by layer, and writes the files. [`error`] has the reasons why
//! a model is refused.
//!
//! Versions follow [semantic versioning](https://semver.org): what is public here stays until the next version that says so, which
//! before 1.0 is one with a new second number. Which models are converted, and to which layers, is no part of this: both may
//! change with every version, and what is computed does not.

mod conversion;
mod converter;
pub mod error;
mod graph;
mod inspect;
pub(crate) mod limits;
mod lower;
pub mod ncnn;
mod numbered;
mod onnx;
mod ops;
mod output;
mod pass;
pub mod report;
mod rounds;
mod simplify;
mod supported;
pub mod tensor;

use std::path::PathBuf;

use crate::error::Error;
use crate::graph::{Graph, ValueId};
use crate::lower::Refusal;
use crate::ncnn::{BlobId, Changes, Net, Renamed};
use crate::onnx::{Model, Sources};
use crate::pass::expand::Stage;
use crate::pass::infer::Doubts;
use crate::pass::rewrite::{FUSIONS, Rewrite, SIMPLIFICATIONS};
use crate::pass::stated::Stated;

use crate::conversion::Source;
pub use crate::conversion::{Conversion, Pass, Port};
pub use crate::converter::Converter;
pub use crate::inspect::{Described, Inspection};
pub use crate::onnx::{ExternalData, Input, ModelBytes, Storage};
pub use crate::pass::quantized::Quantization;
pub use crate::pass::rewrite::{PassInfo, PassKind, passes};
pub use crate::simplify::Simplified;
pub use crate::supported::{Supported, supported};
pub use crate::tensor::Dim;

/// Converts a model.
fn convert_model(sources: &Sources, options: &Converter) -> Result<Conversion, Refusal> {
    let mut model = sources.read()?;
    let mut warnings = defaulted_inputs(&model);
    let mut graph = std::mem::take(&mut model.graph);
    let mut progress = Progress { options, passes: Vec::new(), warnings: Vec::new() };
    progress.after("read", &graph)?;
    pass::cut::cut_graph(&mut graph, &options.inputs, &options.outputs)?;
    pass::input_shape::set_input_shapes(&mut graph, &options.input_shapes)?;
    check_tensors(&graph)?;
    if graph.outputs.is_empty() {
        return Err(Error::invalid("the graph has no outputs").into());
    }
    pass::input_shape::fix_batch(&mut graph, &mut warnings)?;
    pass::input_shape::settle_empty_inputs(&mut graph, &mut warnings)?;
    progress.after("cut", &graph)?;
    pass::rewrite::check_names(&options.skip)?;
    let release = ncnn::release(options.ncnn_version)?;
    let mut refused = Doubts::new();
    let mut doubts = reduce(&mut graph, Some(Stage::Inline), &mut refused, &mut progress)?;
    warnings.append(&mut progress.warnings);
    let keep =
        |graph: &Graph, path: &PathBuf| (Model { graph: graph.clone(), ..model.clone() }, path.clone());
    let mut simplified = options.emit_onnx.as_ref().map(|path| keep(&graph, path));
    let mut scales = Vec::new();
    if options.quantization != Quantization::Exact {
        warnings.extend(pass::quantized::requantize(&mut graph, options.quantization, &mut scales)?);
        pass::dead::remove_dead_nodes(&mut graph);
        doubts = pass::infer::infer_and_fold(&mut graph)?;
        progress.after("quantization", &graph)?;
        // What is computed in float is ONNX's words still, and what the net is to be compared with.
        if options.quantization == Quantization::Float {
            simplified = options.emit_onnx.as_ref().map(|path| keep(&graph, path));
        }
    }
    if options.quantization != Quantization::Int8 {
        pass::rounding::check_rounding(&graph)?;
    }
    progress.rewrite(&mut graph, FUSIONS, &mut doubts)?;
    pass::expand::expand_nodes(&mut graph, Stage::Expand { release }, &mut doubts, &mut refused)?;
    progress.after("expand", &graph)?;
    // Weights are numbers now that steps can go into; a table tells the scales of the weights as they are.
    if options.quantization == Quantization::Float && options.table.is_none() {
        progress.rewrite(&mut graph, SIMPLIFICATIONS, &mut doubts)?;
    }
    // What operators were expanded to may be a pattern, together with what stands around it.
    progress.rewrite(&mut graph, FUSIONS, &mut doubts)?;
    doubts.extend(refused);
    let mut net = lower::lower_graph(&graph, &mut doubts, options.double_as_float, options.ncnn_version)?;
    net.half = options.fp16;
    let mut net_passes = vec![("lower", net.layers.len())];
    net_passes.extend(net.optimise(&options.skip)?);
    if net.half {
        net.tag_constants();
    }
    net.split();
    net_passes.push(("split", net.layers.len()));
    let places = net.places(&scales);
    warnings.extend(changed_names(&net.name(&options.renames)?));
    if options.quantization == Quantization::Int8 && !net.layers.iter().any(|layer| layer.layer.is_int8()) {
        warnings.push("nothing in the model can be an int8 layer".to_owned());
    }
    let weight_elements = net.check().map_err(Error::into_internal)?;
    graph.budget.check_written(weight_elements)?;
    let ports = |values: &[ValueId], blobs: Vec<BlobId>| {
        values.iter().zip(blobs).map(|(value, blob)| port(&graph, &net, *value, blob)).collect()
    };
    let inputs = ports(&graph.given_inputs(), net.inputs.clone());
    let outputs = ports(&graph.outputs, net.outputs.iter().map(|output| output.blob).collect());
    let embedding = options.embedding.clone();
    let table = options.table.as_ref().map(|path| (net.table(&places), path.clone()));
    warnings.extend(table.iter().flat_map(|(table, _)| without_scales(&table.left_out)));
    let table = table.map(|(table, path)| (table.text, path));
    Ok(Conversion {
        embedding,
        table,
        inputs,
        outputs,
        warnings,
        passes: progress.passes,
        net,
        simplified,
        source: Source { sources: model.sources, options: options.clone(), graph, net_passes },
    })
}

/// What to tell of inputs that are taken for constants. Models of old list every constant as an input, and mean nothing by it.
fn defaulted_inputs(model: &Model) -> Vec<String> {
    let names: Vec<&str> =
        model.defaulted_inputs.iter().map(|id| model.graph.value(*id).name.as_str()).collect();
    match names.as_slice() {
        [first, ..] if model.ir_version >= onnx::FIRST_IR_WITH_CONSTANTS => vec![format!(
            "inputs that have a value in the model keep it: {} such as \"{first}\"",
            names.len()
        )],
        _ => Vec::new(),
    }
}

/// What to tell of names that the runtime could not read.
fn changed_names(changes: &Changes) -> Vec<String> {
    let said = |Renamed { from, to }: &Renamed| format!("\"{from}\" is called \"{to}\" in the net");
    let mut warnings: Vec<String> = changes.ends.iter().map(said).collect();
    match changes.inside.as_slice() {
        [] => {}
        [one] => warnings.push(said(one)),
        [first, ..] => {
            warnings.push(format!(
                "{} blobs have other names: {}, and so on",
                changes.inside.len(),
                said(first)
            ));
        }
    }
    warnings
}

/// What to tell of layers that a table of scales does not name.
fn without_scales(left_out: &[String]) -> Option<String> {
    let (first, rest) = left_out.split_first()?;
    let more = if rest.is_empty() { String::new() } else { format!(", and {} more like it", rest.len()) };
    Some(format!("the table of scales leaves out \"{first}\"{more}: ncnn2int8 would misread it"))
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
    let stated = Stated::of(graph);
    pass::stated::hand_back(graph)?;
    let mut doubts = pass::infer::infer_and_fold(graph)?;
    progress.warnings.extend(stated.contradictions(graph));
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
    options: &'a Converter,
    passes: Vec<Pass>,
    warnings: Vec<String>,
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
        self.passes.push(Pass { name, nodes: graph.node_count() });
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
        shape: value.shape.iter().flatten().cloned().collect(),
        blob: blob.name.clone(),
        form: blob.shape.to_vec(),
        int32: blob.element == ncnn::Element::I32,
    }
}
