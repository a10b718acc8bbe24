//! The steps of a conversion over the graph, from the model to the net.

use std::collections::{BTreeMap, BTreeSet};

use super::Options;
use super::composition::Operators;
use super::convert::Reading;
use super::float32::KeptNodes;
use super::net_steps::NetSteps;
use super::progress::Progress;
use super::simplify::{mixed_beyond, prepare, reduce};
use super::warning::{declared_instead, defaulted_inputs, unchosen_experts};
use crate::error::{Error, Errors, Result};
use crate::graph::{DeferredErrors, Graph, Node};
use crate::lower::{Assumption, Lowered, lower_graph};
use crate::ncnn::layer::{BATCHES, CACHES, FAST_ATTENTION};
use crate::ncnn::{self, BLOCKS_SINCE, Scales};
use crate::onnx::{Model, Sources};
use crate::pass::blocks::{Weights, pack_dequantized, round_matrices};
use crate::pass::expand::{Stage, expand_nodes};
use crate::pass::passes::{
    self, ATTENTION_FUSIONS, BATCHING, CACHE_FUSIONS, FUSIONS, MERGING, NARROWING, SHARING, SIMPLIFICATIONS,
};
use crate::pass::quantized::{Quantization, requantize};
use crate::pass::rewrite::Rewrite;
use crate::pass::share::shares_weights;
use crate::pass::simplify::FUSE_AFFINE_BEFORE;
use crate::pass::{dead, first_axis, infer, input_shape, kv_cache, rounding};
use crate::tensor::Dim;
use crate::{op, ops};

/// The graph of a model between two steps.
pub(super) struct GraphSteps<'a> {
    options: &'a Options,
    /// The model without its graph.
    model: Model,
    graph: Graph,
    progress: Progress<'a>,
    /// The errors of nodes whose types and shapes are unknown.
    deferred: DeferredErrors,
    /// The errors of nodes that have no expansion.
    refused: DeferredErrors,
    /// The nodes that the user keeps in float32.
    kept: KeptNodes<'a>,
    /// The release of ncnn that the user asks for, or which the options require.
    asked: Option<u32>,
    /// The oldest release that must load the net.
    release: u32,
    /// The model as it is written as ONNX, if that is asked for.
    simplified: Option<Model>,
    /// The scales of quantized values, for a table.
    scales: Vec<Scales>,
    /// The sizes of first axes that are not a batch, by nodes of the model that may not be in the graph.
    mixed: BTreeSet<String>,
}

impl<'a> GraphSteps<'a> {
    /// Reads the model.
    pub fn read(sources: &Sources, options: &'a Options) -> Result<GraphSteps<'a>> {
        let mut progress = Progress::new(options);
        let mut model = sources.read()?;
        progress.warnings.extend(defaulted_inputs(&model));
        let graph = std::mem::take(&mut model.graph);
        progress.after("read", &graph)?;
        let kept = KeptNodes::find(&graph, &options.float32)?;
        let asked = asked_release(options)?;
        passes::check_names(&options.skip)?;
        let is_kept = options.emit_onnx.is_some() || options.keep_onnx;
        if is_kept && graph.nodes().any(|(_, node)| node.custom.is_some()) {
            return Err(Error::usage("a model with layers of your own is not written as ONNX"));
        }
        let release = ncnn::release(asked)?;
        let (deferred, refused, simplified, scales, mixed) = Default::default();
        Ok(GraphSteps {
            options,
            model,
            graph,
            progress,
            deferred,
            refused,
            kept,
            asked,
            release,
            simplified,
            scales,
            mixed,
        })
    }

    /// Selects the part of the graph, and the values of inputs, that the options ask for.
    pub fn cut(&mut self) -> Result<()> {
        input_shape::resolve_names(&mut self.graph)?;
        self.mixed = mixed_beyond(&self.graph, self.options);
        prepare(&mut self.graph, self.options)?;
        check_interface(&self.graph)?;
        check_imports(&self.graph)
    }

    /// Replaces free sizes by the values that the reading gives them.
    pub fn fix_sizes(&mut self, fixed: &BTreeMap<String, Dim>, reading: Reading) -> Result<()> {
        let (graph, warnings) = (&mut self.graph, &mut self.progress.warnings);
        graph.squeezes = reading.squeezes;
        let named = self.options.named_first_sizes(graph)?;
        first_axis::fix_batch(graph, reading.counts, &named, &self.mixed, warnings)?;
        let lengths = cache_lengths(graph, self.options);
        input_shape::substitute_symbols(graph, &lengths)?;
        input_shape::set_sizes(graph, fixed, warnings)?;
        input_shape::finalize_empty_inputs(graph, warnings)?;
        self.progress.after("cut", graph)
    }

    /// Infers shapes, folds constants, inlines control flow, and simplifies.
    pub fn simplify(&mut self) -> Result<()> {
        if self.options.weights != Weights::Float {
            pack_dequantized(&mut self.graph)?;
        }
        let stage = Some(Stage::Inline);
        self.deferred = reduce(&mut self.graph, stage, &mut self.refused, &mut self.progress)?;
        if input_shape::fix_sizes(&mut self.graph, &mut self.progress.warnings)? {
            self.deferred = infer::infer_and_fold(&mut self.graph)?;
            self.rewrite(SIMPLIFICATIONS)?;
        }
        self.keep_simplified();
        Ok(())
    }

    /// Quantizes as the options ask, instead of the quantization of the model.
    pub fn quantize(&mut self) -> std::result::Result<(), Errors> {
        let quantization = self.options.quantization();
        if quantization != Quantization::Exact {
            let warnings = requantize(&mut self.graph, quantization, self.asked, &mut self.scales)?;
            self.progress.warnings.extend(warnings);
            dead::remove_dead_nodes(&mut self.graph);
            self.deferred = infer::infer_and_fold(&mut self.graph)?;
            self.progress.after("quantization", &self.graph)?;
            // A network in float32 is compared with its ONNX model without rounding.
            if quantization == Quantization::Float {
                self.keep_simplified();
            }
        }
        rounding::check_rounding(&self.graph)
    }

    /// Returns the operators of the model, whose layers are counted later.
    pub fn operators(&self) -> Operators {
        Operators::of(&self.graph)
    }

    /// Uses the batch axis that newer releases of ncnn have, and a size of 1 for
    /// axes along which a constant is equal.
    pub fn narrow(&mut self) -> Result<()> {
        if self.asked.is_none_or(|asked| asked >= BATCHES) {
            self.rewrite(BATCHING)?;
        }
        self.rewrite(NARROWING)
    }

    /// Makes operators of ncnn's layers of patterns. Linear maps whose weights are rounded or shared stay
    /// separate from attention: the layer of both contains separate floats.
    pub fn fuse(&mut self) -> Result<()> {
        let options = self.options;
        let shares =
            || SHARING.iter().all(|pass| !options.skip.contains(pass.name)) && shares_weights(&self.graph);
        let is_separate = options.weights.rounds() || shares();
        let kept = |fusion: &&Rewrite| !(is_separate && fusion.name == "fuse_attention");
        let fusions: Vec<Rewrite> = FUSIONS.iter().filter(kept).copied().collect();
        self.rewrite(&fusions)?;
        // Fusions leave separate factors.
        let affine = SIMPLIFICATIONS.iter().filter(|rewriting| rewriting.name == FUSE_AFFINE_BEFORE);
        self.rewrite(&affine.copied().collect::<Vec<Rewrite>>())?;
        if options.kv_cache {
            // Expansions leave copies of caches.
            self.rewrite(SIMPLIFICATIONS)?;
            self.rewrite(CACHE_FUSIONS)?;
        }
        Ok(())
    }

    /// Replaces operators without a layer by simpler ones, attention in the end: its fusions come before.
    pub fn expand(&mut self) -> Result<()> {
        self.expand_to(false)?;
        if self.release >= FAST_ATTENTION {
            self.rewrite(ATTENTION_FUSIONS)?;
        }
        let is_plain = |node: &Node| node.domain == op::NCNN_DOMAIN && node.op_type == "PlainAttention";
        if self.graph.nodes().any(|(_, node)| is_plain(node)) {
            self.expand_to(true)?;
        }
        Ok(())
    }

    /// Expands operators, merges equal parts, and applies the fusions: expansions create patterns
    /// together with adjacent nodes.
    fn expand_to(&mut self, attention: bool) -> Result<()> {
        let Options { weights, kv_cache, .. } = *self.options;
        let stage = Stage::Expand { release: self.release, weights, kv_cache, attention };
        let nodes = self.graph.node_count();
        expand_nodes(&mut self.graph, ops::expansion, stage, &mut self.deferred, &mut self.refused)?;
        self.progress.after("expand", &self.graph)?;
        if self.graph.node_count() > nodes {
            self.rewrite(MERGING)?;
        }
        // Scales and offsets can be folded into dequantized weights, unless a table refers to the original
        // weights; and Transposes around operators whose channels are last cancel.
        if self.options.quantization() != Quantization::Exact && self.options.table.is_none() {
            self.rewrite(SIMPLIFICATIONS)?;
        }
        self.fuse()
    }

    /// Checks that the net can keep the caches of a decoder, if that is asked for.
    pub fn keep_caches(&mut self) -> std::result::Result<(), Errors> {
        if !self.options.kv_cache {
            return Ok(());
        }
        kv_cache::check(&self.graph)?;
        let warnings = &mut self.progress.warnings;
        warnings.extend(kv_cache::add_length(&mut self.graph)?);
        if self.release < FAST_ATTENTION {
            let slow = "attention with caches takes 14 to 25 times as long";
            warnings.push(format!("in releases of ncnn before {FAST_ATTENTION}, {slow}"));
        }
        Ok(())
    }

    /// Shares equal weights, or rounds them to blocks. Shared weights are blobs, which would not be rounded.
    pub fn store_weights(&mut self) -> Result<()> {
        let weights = self.options.weights;
        if !weights.rounds() {
            self.rewrite(SHARING)?;
        }
        self.deferred.append(&mut self.refused);
        if weights.rounds() {
            round_matrices(&mut self.graph, weights)?;
            dead::remove_dead_nodes(&mut self.graph);
            self.deferred.extend(infer::infer_and_fold(&mut self.graph)?);
            self.progress.after("round weights", &self.graph)?;
        }
        Ok(())
    }

    /// Makes layers of the nodes.
    pub fn lower(mut self, operators: Operators) -> std::result::Result<NetSteps<'a>, Errors> {
        let Progress { passes, mut warnings, .. } = self.progress;
        warnings.append(&mut self.graph.warnings);
        warnings.extend(declared_instead(&self.graph));
        warnings.extend(unchosen_experts(&self.graph));
        let options = self.options;
        let Lowered { net, assumptions, conditions } =
            lower_graph(&self.graph, ops::lowering, &mut self.deferred, options.double_as_float, self.asked)?;
        if options.strict {
            Assumption::refuse(&assumptions)?;
        }
        let GraphSteps { graph, model, kept, asked, simplified, scales, .. } = self;
        let (sources, net_passes) = (model.sources, Vec::new());
        Ok(NetSteps {
            options,
            graph,
            sources,
            kept,
            asked,
            simplified,
            scales,
            operators,
            passes,
            warnings,
            net,
            assumptions,
            conditions,
            net_passes,
            table: None,
        })
    }

    fn rewrite(&mut self, rewritings: &[Rewrite]) -> Result<()> {
        self.progress.rewrite(&mut self.graph, rewritings, &mut self.deferred)
    }

    /// Keeps the model as it is now, if it is to be written as ONNX.
    fn keep_simplified(&mut self) {
        let is_asked = self.options.emit_onnx.is_some() || self.options.keep_onnx;
        self.simplified = is_asked.then(|| Model { graph: self.graph.clone(), ..self.model.clone() });
    }
}

/// Returns the sizes of inputs that may be 0, also those to which the branches append that will be taken.
/// Sizes are replaced before anything is inferred of them, so branches are inlined in a copy.
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

/// Returns the release of ncnn that the user asks for, or which the options require. Refuses options that do
/// not fit them.
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
        let message = "int8 layers have the scales of the model, so floats are not rounded again";
        return Err(Error::usage(message));
    }
    if options.table.is_some() {
        return Err(Error::usage(
            "a table of scales for ncnn2int8 belongs to a net of floats, not to weights in blocks",
        ));
    }
    Ok(())
}

/// Refuses nodes of functions that follow another version of their operator than the model imports:
/// onnxruntime reads them as the model's.
fn check_imports(graph: &Graph) -> Result<()> {
    let mut imported = None;
    for (_, node) in graph.nodes() {
        // Most nodes have the import of the node before.
        if imported == Some((&node.domain, node.version)) {
            continue;
        }
        let Some(import) = graph.opsets.get(&*node.domain).filter(|import| **import != node.version) else {
            imported = Some((&node.domain, node.version));
            continue;
        };
        let (followed, other) = (op::since_version(node, node.version), op::since_version(node, *import));
        if followed != other {
            let version = node.version;
            let message = format!(
                "its function imports version {version} of the operators, the model version {import}"
            );
            return Err(Error::unsupported(message).at_node(|| node.at()));
        }
    }
    Ok(())
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
