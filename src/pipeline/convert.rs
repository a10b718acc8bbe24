//! The steps of a conversion.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use super::composition::{Operators, costly};
use super::float32::KeptNodes;
use super::progress::Progress;
use super::remedy::FreeInput;
use super::simplify::{prepare, reduce};
use super::warning::{
    changed_names, deep_net, defaulted_inputs, unchosen_experts, weights_in_blocks, without_scales,
};
use super::{Conversion, Options, Port};
use crate::error::{Error, Errors, Result};
use crate::graph::{DeferredErrors, Graph};
use crate::lower::{Assumption, Lowered, lower_graph};
use crate::ncnn::layer::{BATCHES, CACHES, EMPTY_BLOBS, FAST_ATTENTION};
use crate::ncnn::{self, BLOCKS_SINCE, Net};
use crate::onnx::{Model, Sources};
use crate::pass::blocks::{Weights, pack_dequantized, round_matrices};
use crate::pass::expand::{Stage, expand_nodes};
use crate::pass::input_shape::Counts;
use crate::pass::passes::{
    self, ATTENTION_FUSIONS, BATCHING, CACHE_FUSIONS, FUSIONS, MERGING, NARROWING, SHARING, SIMPLIFICATIONS,
};
use crate::pass::quantized::{Quantization, requantize};
use crate::pass::rewrite::Rewrite;
use crate::pass::share::shares_weights;
use crate::pass::simplify::FUSE_AFFINE_BEFORE;
use crate::pass::{dead, infer, input_shape, kv_cache, rounding};
use crate::tensor::{Dim, SizeCondition};
use crate::{op, ops};

/// A reading of a model.
#[derive(Clone, Copy, Debug)]
pub(super) struct Reading {
    pub counts: Counts,
    /// Whether axes have one element that exporters remove if they have one; `None` if that is not known.
    pub squeezes: Option<bool>,
}

/// Returns the sizes of inputs that may be 0, also those to which the branches append that will be taken. Sizes are
/// replaced before anything is inferred of them, so branches are inlined in a copy.
fn cache_lengths(graph: &Graph, options: &Options) -> BTreeMap<String, Dim> {
    let mut lengths = input_shape::cache_lengths(graph);
    if graph.nodes().any(|(_, node)| node.bodies().next().is_some()) {
        let mut copy = graph.clone();
        let mut progress = Progress::new(options);
        // What is refused of the copy is refused of the graph, too.
        if reduce(&mut copy, Some(Stage::Branch), &mut DeferredErrors::new(), &mut progress).is_ok() {
            lengths.extend(input_shape::cache_lengths(&copy));
        }
    }
    lengths
}

/// Converts a model with these values of free sizes.
pub(super) fn convert_with(
    sources: &Sources,
    options: &Options,
    fixed: &BTreeMap<String, Dim>,
    reading: Reading,
) -> std::result::Result<Conversion, Errors> {
    let mut progress = Progress::new(options);
    let mut model = sources.read()?;
    progress.warnings.extend(defaulted_inputs(&model));
    let mut graph = std::mem::take(&mut model.graph);
    progress.after("read", &graph)?;
    let kept = KeptNodes::find(&graph, &options.float32)?;
    input_shape::replace_sums(&mut graph)?;
    prepare(&mut graph, options)?;
    check_interface(&graph)?;
    check_imports(&graph)?;
    graph.squeezes = reading.squeezes;
    input_shape::fix_batch(&mut graph, reading.counts, &mut progress.warnings)?;
    let lengths = cache_lengths(&graph, options);
    input_shape::substitute_symbols(&mut graph, &lengths)?;
    input_shape::set_sizes(&mut graph, fixed, &mut progress.warnings)?;
    input_shape::finalize_empty_inputs(&mut graph, &mut progress.warnings)?;
    progress.after("cut", &graph)?;
    passes::check_names(&options.skip)?;
    let asked = asked_release(options)?;
    let release = ncnn::release(asked)?;

    if options.weights != Weights::Float {
        pack_dequantized(&mut graph)?;
    }
    let mut refused = DeferredErrors::new();
    let mut deferred = reduce(&mut graph, Some(Stage::Inline), &mut refused, &mut progress)?;
    if input_shape::fix_sizes(&mut graph, &mut progress.warnings)? {
        deferred = infer::infer_and_fold(&mut graph)?;
        progress.rewrite(&mut graph, SIMPLIFICATIONS, &mut deferred)?;
    }
    let keep = |graph: &Graph| {
        let kept = options.emit_onnx.is_some() || options.keep_onnx;
        kept.then(|| Model { graph: graph.clone(), ..model.clone() })
    };
    let mut simplified = keep(&graph);
    let mut scales = Vec::new();
    if options.quantization() != Quantization::Exact {
        progress.warnings.extend(requantize(&mut graph, options.quantization(), asked, &mut scales)?);
        dead::remove_dead_nodes(&mut graph);
        deferred = infer::infer_and_fold(&mut graph)?;
        progress.after("quantization", &graph)?;
        // A network in float32 is compared with its ONNX model without rounding.
        if options.quantization() == Quantization::Float {
            simplified = keep(&graph);
        }
    }
    rounding::check_rounding(&graph)?;
    let operators = Operators::of(&graph);
    if asked.is_none_or(|asked| asked >= BATCHES) {
        progress.rewrite(&mut graph, BATCHING, &mut deferred)?;
    }
    progress.rewrite(&mut graph, NARROWING, &mut deferred)?;
    fuse(&mut graph, &mut deferred, &mut progress)?;
    let stage = |attention| Stage::Expand {
        release,
        weights: options.weights,
        kv_cache: options.kv_cache,
        attention,
    };
    expand(&mut graph, stage(false), &mut deferred, &mut refused, &mut progress)?;
    if release >= FAST_ATTENTION {
        progress.rewrite(&mut graph, ATTENTION_FUSIONS, &mut deferred)?;
    }
    if graph.nodes().any(|(_, node)| node.domain == op::OWN_DOMAIN && node.op_type == "PlainAttention") {
        expand(&mut graph, stage(true), &mut deferred, &mut refused, &mut progress)?;
    }
    if options.kv_cache {
        kv_cache::check(&graph)?;
        progress.warnings.extend(kv_cache::add_length(&mut graph)?);
        if release < FAST_ATTENTION {
            let slow = "attention with caches takes 14 to 25 times as long";
            progress.warnings.push(format!("in releases of ncnn before {FAST_ATTENTION}, {slow}"));
        }
    }
    // Weights that are blobs would not be rounded.
    if !options.weights.rounds() {
        progress.rewrite(&mut graph, SHARING, &mut deferred)?;
    }
    deferred.extend(refused);
    if options.weights.rounds() {
        round_matrices(&mut graph, options.weights)?;
        dead::remove_dead_nodes(&mut graph);
        deferred.extend(infer::infer_and_fold(&mut graph)?);
        progress.after("round weights", &graph)?;
    }
    progress.warnings.append(&mut graph.warnings);
    progress.warnings.extend(unchosen_experts(&graph));

    let Progress { passes, mut warnings, .. } = progress;
    let Lowered { mut net, assumptions, mut conditions } =
        lower_graph(&graph, ops::lowering, &mut deferred, options.double_as_float, asked)?;
    if options.strict {
        Assumption::refuse(&assumptions)?;
    }
    (net.half, net.precise, net.careful) = (options.fp16, options.precise, options.careful);
    let mut net_passes = vec![("lower", net.layers.len())];
    net_passes.extend(net.optimise(&options.skip)?);
    net.drop_unread_tops();
    net.unpack_reshapes();
    warnings.extend(kept.mark(&mut net, &graph));
    if net.half {
        net.tag_constants();
    }
    net.split();
    net.isolate_float32();
    net.find_small_weights()?;
    net_passes.push(("split", net.layers.len()));
    let places = net.places(&scales);
    warnings.extend(changed_names(&net.name(&renames(&net, options))?));
    if options.quantization() == Quantization::Int8 && !net.layers.iter().any(|layer| layer.layer.is_int8()) {
        warnings.push("no node of the model can be an int8 layer".to_owned());
    }
    warnings.extend(weights_in_blocks(&net, options));
    warnings.extend(deep_net(&net)?);
    let compositions = operators.compositions(&graph, &net);
    warnings.extend(costly(&compositions));
    let weight_elements = net.check().map_err(Error::into_internal)?;
    graph.budget.check_written(weight_elements)?;
    conditions.append(&mut graph.conditions);
    let bears_empty = asked.is_none_or(|asked| asked >= EMPTY_BLOBS);
    conditions.extend(net.conditions(bears_empty)?);
    let conditions = SizeCondition::strictest(&conditions);
    let table = options.table.as_ref().map(|path| (net.table(&places), path.clone()));
    warnings.extend(table.iter().filter_map(|(table, _)| without_scales(&table.left_out)));
    let table = table.map(|(table, path)| (table.text, path));
    let inputs = Port::list(&graph, &net, &graph.given_inputs(), net.inputs.clone());
    let outputs = net.outputs.iter().map(|output| output.blob).collect();
    let outputs = Port::list(&graph, &net, &graph.outputs, outputs);
    let sources = model.sources;
    Ok(Conversion {
        sources,
        net,
        graph,
        inputs,
        outputs,
        warnings,
        assumptions,
        conditions,
        passes,
        net_passes,
        simplified,
        table,
        compositions,
        options: options.clone(),
        written: OnceLock::new(),
    })
}

/// Expands operators, merges equal parts, and applies the fusions: expansions create patterns of their own, together with
/// adjacent nodes.
fn expand(
    graph: &mut Graph,
    stage: Stage,
    deferred: &mut DeferredErrors,
    refused: &mut DeferredErrors,
    progress: &mut Progress,
) -> Result<()> {
    let options = progress.options;
    let nodes = graph.node_count();
    expand_nodes(graph, ops::expansion, stage, deferred, refused)?;
    progress.after("expand", graph)?;
    if graph.node_count() > nodes {
        progress.rewrite(graph, MERGING, deferred)?;
    }
    // Scales and offsets can be folded into dequantized weights, unless a table refers to the original
    // weights; and Transposes around operators whose channels are last cancel.
    if options.quantization() != Quantization::Exact && options.table.is_none() {
        progress.rewrite(graph, SIMPLIFICATIONS, deferred)?;
    }
    fuse(graph, deferred, progress)
}

/// Returns the new names of blobs: those that the user gives, and numbers for other inputs and outputs on request.
fn renames(net: &Net, options: &Options) -> Vec<(String, String)> {
    let mut renames = options.rename.clone();
    if options.numbered {
        let inputs = net.inputs.iter().map(|blob| net.blob(*blob).name.as_str()).enumerate();
        let outputs = net.outputs.iter().map(|end| end.name.as_str()).enumerate();
        let inputs = inputs.map(|(at, name)| (name, format!("in{at}")));
        for (name, number) in inputs.chain(outputs.map(|(at, name)| (name, format!("out{at}")))) {
            if renames.iter().all(|(old, _)| old != name) {
                renames.push((name.to_owned(), number));
            }
        }
    }
    renames
}

/// Applies the fusions that the options ask for. Linear maps whose weights are rounded or shared stay apart from
/// attention: the layer of both holds floats of its own.
fn fuse(graph: &mut Graph, deferred: &mut DeferredErrors, progress: &mut Progress) -> Result<()> {
    let options = progress.options;
    let shares = || SHARING.iter().all(|pass| !options.skip.contains(pass.name)) && shares_weights(graph);
    let is_apart = options.weights.rounds() || shares();
    let kept = |fusion: &&Rewrite| !(is_apart && fusion.name == "fuse_attention");
    let fusions: Vec<Rewrite> = FUSIONS.iter().filter(kept).copied().collect();
    progress.rewrite(graph, &fusions, deferred)?;
    // Fusions leave factors of their own.
    let affine: Vec<Rewrite> =
        SIMPLIFICATIONS.iter().filter(|rewriting| rewriting.name == FUSE_AFFINE_BEFORE).copied().collect();
    progress.rewrite(graph, &affine, deferred)?;
    if progress.options.kv_cache {
        // Expansions leave copies of caches.
        progress.rewrite(graph, SIMPLIFICATIONS, deferred)?;
        progress.rewrite(graph, CACHE_FUSIONS, deferred)?;
    }
    Ok(())
}

/// Returns the release of ncnn that the user asks for, or which the options require. Refuses options that do not
/// fit them.
fn asked_release(options: &Options) -> Result<Option<u32>> {
    if options.weights != Weights::Float {
        check_blocks(options)?;
    }
    let required = [
        (options.weights != Weights::Float, "weights in blocks require ncnn", BLOCKS_SINCE),
        (options.kv_cache, "ncnn keeps caches since", CACHES),
    ];
    let mut least = None;
    for (_, reason, since) in required.into_iter().filter(|(is_asked, ..)| *is_asked) {
        if let Some(release) = options.ncnn_version.filter(|release| *release < since) {
            return Err(Error::usage(format!("{reason} {since}, and the net is for {release}")));
        }
        least = least.max(Some(since));
    }
    Ok(options.ncnn_version.or(least))
}

/// Refuses options that do not fit weights in blocks.
fn check_blocks(options: &Options) -> Result<()> {
    if options.weights.rounds() && options.quantization() == Quantization::Int8 {
        let message =
            "int8 layers have the scales of the model, and floats are not rounded again beside them";
        return Err(Error::usage(message));
    }
    if options.table.is_some() {
        return Err(Error::usage(
            "a table of scales for ncnn2int8 belongs to a net of floats, not to weights in blocks",
        ));
    }
    Ok(())
}

/// Refuses nodes of functions that follow another version of their operator than the model imports: onnxruntime
/// reads them as the model's.
fn check_imports(graph: &Graph) -> Result<()> {
    for (_, node) in graph.nodes() {
        let Some(import) = graph.opsets.get(&*node.domain).filter(|import| **import != node.version) else {
            continue;
        };
        let (own, other) = (op::since_version(node, node.version), op::since_version(node, *import));
        if own != other {
            let version = node.version;
            let message = format!(
                "its function imports version {version} of the operators, the model version {import}"
            );
            return Err(Error::unsupported(message).at_node(|| node.at()));
        }
    }
    Ok(())
}

/// Reads the part of the model that the options ask for.
fn requested_graph(sources: &Sources, options: &Options) -> Result<Graph> {
    let mut graph = sources.read()?.graph;
    input_shape::replace_sums(&mut graph)?;
    prepare(&mut graph, options)?;
    Ok(graph)
}

pub(super) fn has_counts(sources: &Sources, options: &Options) -> Result<bool> {
    Ok(input_shape::has_counts(&requested_graph(sources, options)?))
}

/// Returns the inputs with free sizes, as a conversion finds them.
pub(super) fn free_inputs(sources: &Sources, options: &Options) -> Result<Vec<FreeInput>> {
    let mut graph = requested_graph(sources, options)?;
    input_shape::fix_batch(&mut graph, Counts::One, &mut Vec::new())?;
    let inputs = graph.given_inputs().into_iter().map(|id| graph.value(id));
    let free = inputs.filter_map(|value| {
        let shape = value.shape.as_deref()?.to_vec();
        Some(FreeInput { name: value.name.clone(), dtype: value.dtype, shape })
    });
    Ok(free.filter(|input| input.shape.iter().any(|size| size.known().is_none())).collect())
}

/// Refuses inputs that are not tensors, and graphs without outputs.
fn check_interface(graph: &Graph) -> Result<()> {
    for value in graph.inputs.iter().map(|id| graph.value(*id)) {
        if let Some(other) = &value.other_type {
            let message = format!("a value of type {}: ncnn has only tensors", other.kind);
            return Err(Error::unsupported(message).at_part(format!("input \"{}\"", value.name)));
        }
    }
    if graph.outputs.is_empty() {
        return Err(Error::invalid("the graph has no outputs"));
    }
    Ok(())
}
