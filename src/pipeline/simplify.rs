//! The steps of a simplification. Unknown values and operators stay unchanged.

use std::collections::BTreeSet;

use super::progress::Progress;
use super::{Options, Pass};
use crate::error::{Error, Errors, Result};
use crate::graph::{DeferredErrors, Graph, ValueId};
use crate::onnx::{self, Model, Sources};
use crate::pass::declared::Declared;
use crate::pass::expand::Stage;
use crate::pass::passes::{
    self, ELIMINATE_DEADEND, ELIMINATE_UNUSED_INITIALIZER, EXTRACT_CONSTANT, FOLD_CAST, SIMPLIFICATIONS,
};
use crate::pass::unfold::{Unfolding, unfold_large_constants};
use crate::{op, ops, pass};

/// A simplified model, and the records of its simplification.
pub(crate) struct SimplifiedModel {
    pub model: Model,
    /// The number of nodes after reading and after each pass.
    pub passes: Vec<Pass>,
    pub warnings: Vec<String>,
}

/// Selects the part of the graph and its inputs.
pub(super) fn cut(graph: &mut Graph, options: &Options) -> Result<()> {
    pass::cut::cut_graph(graph, &options.inputs, &options.outputs)?;
    if options.random_as_input {
        pass::random::make_random_inputs(graph)?;
    }
    Ok(())
}

/// Cuts the graph, and sets shapes and values of its inputs, as the options ask.
pub(super) fn prepare(graph: &mut Graph, options: &Options) -> Result<()> {
    cut(graph, options)?;
    pass::input_shape::set_input_shapes(graph, &options.input_shapes)?;
    set_values(graph, options)
}

/// Returns the sizes of first axes that nodes of a model mix, if the options ask for a part of it. Nodes
/// beyond the part may be invalid: they tell nothing then.
pub(super) fn mixed_beyond(model: &Graph, options: &Options) -> BTreeSet<String> {
    let is_part = !options.inputs.is_empty() || !options.outputs.is_empty();
    if is_part { pass::first_axis::mixed_sizes(model).unwrap_or_default() } else { BTreeSet::new() }
}

/// Sets values of inputs, and the pixels that they are.
fn set_values(graph: &mut Graph, options: &Options) -> Result<()> {
    pass::input_value::set_inputs(graph, &options.set)?;
    if !options.set.is_empty() && graph.inputs.is_empty() {
        graph.warnings.push("all inputs are set: the net has none, and its outputs are constants".to_owned());
    }
    pass::pixels::read_pixels(graph, &options.pixels())
}

/// Infers, folds and removes nodes without readers. The result of the graph stays the same.
pub(super) fn reduce(
    graph: &mut Graph,
    inlined: Option<Stage>,
    refused: &mut DeferredErrors,
    progress: &mut Progress,
) -> Result<DeferredErrors> {
    pass::dead::remove_dead_nodes(graph);
    let declared = Declared::of(graph);
    pass::declared::propagate_back(graph)?;
    let mut deferred = pass::infer::infer_and_fold(graph)?;
    progress.warnings.extend(declared.contradictions(graph));
    progress.after("infer and fold", graph)?;
    if let Some(stage) = inlined {
        pass::expand::expand_nodes(graph, ops::expansion, stage, &mut deferred, refused)?;
        progress.after("inline", graph)?;
    }
    progress.rewrite(graph, SIMPLIFICATIONS, &mut deferred)?;
    Ok(deferred)
}

/// Returns a part of a model with further values as outputs.
pub(crate) fn expose(
    sources: &Sources,
    options: &Options,
    values: &BTreeSet<String>,
) -> Result<SimplifiedModel> {
    ops::register();
    let mut model = sources.read()?;
    let graph = &mut model.graph;
    cut(graph, options)?;
    pass::input_shape::set_input_shapes(graph, &options.input_shapes)?;
    set_values(graph, options)?;
    pass::dead::remove_dead_nodes(graph);
    pass::accuracy::permit_no_rounding(graph);
    let outputs: BTreeSet<_> = graph.outputs.iter().copied().collect();
    let computed: Vec<_> =
        graph.nodes().flat_map(|(_, node)| node.outputs.iter().flatten().copied()).collect();
    let wanted = computed.into_iter().filter(|id| {
        let value = graph.value(*id);
        !outputs.contains(id) && value.other_type.is_none() && values.contains(&value.name)
    });
    let wanted: Vec<_> = wanted.collect();
    graph.outputs.extend(wanted);
    Ok(SimplifiedModel { model, passes: Vec::new(), warnings: Vec::new() })
}

/// The maximum number of iterations if folding is undone: a second simplification must find nothing to do.
const MAX_ITERATIONS: usize = 3;

pub(crate) fn simplify(sources: &Sources, options: &Options) -> std::result::Result<SimplifiedModel, Errors> {
    ops::register();
    passes::check_names(&options.skip)?;
    let all = passes::SIMPLIFICATIONS.iter().map(|rewriting| rewriting.name.to_owned());
    let nothing = Options { skip: all.collect(), ..options.clone() };
    // New nodes follow newer operator sets, which other nodes of an old model may not support.
    let mut refusal = None;
    for (options, stage) in [(options, Some(Stage::Branch)), (options, None), (&nothing, None)] {
        let simplified = simplify_read(sources.read()?, options, stage)?;
        match onnx::check_versions(&simplified.model, &op::since_version) {
            Ok(()) => return Ok(simplified),
            Err(error) => refusal.get_or_insert(error),
        };
    }
    Err(refusal.unwrap_or_else(|| Error::internal("no iteration of the simplification ran")).into())
}

fn simplify_read(mut model: Model, options: &Options, stage: Option<Stage>) -> Result<SimplifiedModel> {
    let mut progress = Progress::new(options);
    let graph = &mut model.graph;
    progress.after("read", graph)?;
    graph.kept = unread_values(graph, &options.skip);
    prepare(graph, options)?;
    progress.after("cut", graph)?;
    for _ in 0..MAX_ITERATIONS {
        graph.folded = Some(Vec::new());
        reduce(graph, stage, &mut DeferredErrors::new(), &mut progress)?;
        pass::dead::remove_dead_nodes(graph);
        let unfolding = Unfolding {
            room: room_for_constants(&model.sources, graph)?,
            casts_stay_folded: !options.skip.contains(FOLD_CAST),
            constant_nodes_return: options.skip.contains(EXTRACT_CONSTANT),
        };
        let unfolded = unfold_large_constants(graph, unfolding)?;
        progress.after("unfold large constants", graph)?;
        if !unfolded {
            break;
        }
    }
    // Later iterations repeat the same warnings.
    let mut warnings = progress.warnings;
    let mut seen = BTreeSet::new();
    warnings.retain(|warning| seen.insert(warning.clone()));
    Ok(SimplifiedModel { passes: progress.passes, warnings, model })
}

/// Returns values without readers that must stay.
fn unread_values(graph: &Graph, skip: &BTreeSet<String>) -> Vec<ValueId> {
    let read = graph.read_values();
    let stays = |id: &ValueId| {
        let value = graph.value(*id);
        !read.contains(*id)
            && ((value.producer.is_some() && skip.contains(ELIMINATE_DEADEND))
                || (value.constant.is_some() && skip.contains(ELIMINATE_UNUSED_INITIALIZER)))
    };
    graph.value_ids().filter(stays).collect()
}

/// The bytes of a node in a file, with its names: an upper estimate.
const NODE_BYTES: u64 = 256;

/// Returns the bytes that constants may take without making the model larger than its file. External
/// constants are included in the new file.
fn room_for_constants(sources: &Sources, graph: &Graph) -> Result<u64> {
    let nodes = NODE_BYTES.saturating_mul(u64::try_from(graph.node_count())?);
    Ok(sources.model_bytes().saturating_sub(nodes))
}
