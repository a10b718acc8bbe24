//! Simplifying: the same way as converting, up to where ncnn's words begin. What is not known stays as it is.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use crate::error::{Error, Errors, Result};
use crate::graph::{Graph, Node, ValueId};
use crate::onnx::{self, Model, Sources, Storage};
use crate::pass::expand::Stage;
use crate::pass::infer::Doubts;
use crate::pass::rewrite::{
    self, ELIMINATE_DEADEND, ELIMINATE_UNUSED_INITIALIZER, EXTRACT_CONSTANT, FOLD_CAST,
};
use crate::pass::unfold::{Unfolding, unfold_large_constants};
use crate::{Converter, Pass, Progress, ops, output, pass, reduce};

/// A simplified model, ready to be written.
#[derive(Debug)]
pub struct Simplified {
    model: Model,
    /// The nodes that each pass left, from reading on.
    pub passes: Vec<Pass>,
    /// What users should know of the model.
    pub warnings: Vec<String>,
}

impl Simplified {
    /// Writes the model: all files are there afterwards, or none is changed. The files that it was read from are not overwritten.
    /// Gives the paths of the files, the model's last.
    pub fn write(&self, path: &Path, storage: &Storage) -> Result<Vec<PathBuf>> {
        self.put(onnx::stage(&self.model, path, storage, &since)?)
    }

    /// As [`Simplified::write`], once `check` has seen the files. It is given the model in a folder of its own beside the place, and
    /// where it refuses, nothing is changed.
    pub fn write_checked(
        &self,
        path: &Path,
        storage: &Storage,
        check: impl FnOnce(&Path) -> Result<()>,
    ) -> Result<Vec<PathBuf>> {
        let failed = |e| Error::io("no folder can be made", e).in_file(path);
        let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
        let room = output::Room::create(parent.unwrap_or(Path::new("."))).map_err(failed)?;
        let inside = room.path().join(path.file_name().unwrap_or_default());
        if let Storage::External(how) = storage
            && let Some(below) = Path::new(&how.location).parent()
        {
            how.check()?;
            fs::create_dir_all(room.path().join(below)).map_err(failed)?;
        }
        let staged = onnx::stage(&self.model, &inside, storage, &since)?;
        let found: Vec<PathBuf> = staged.iter().map(|(target, _)| target.named().to_owned()).collect();
        output::put_all(staged)?;
        check(&inside)?;
        let mut files = Vec::new();
        for file in found {
            let name = file.strip_prefix(room.path()).unwrap_or(&file);
            files.push((output::Target::new(&path.with_file_name(name))?, output::Whole::of(file)?));
        }
        self.put(files)
    }

    fn put(&self, files: output::Staged) -> Result<Vec<PathBuf>> {
        let written = files.iter().map(|(target, _)| target.named().to_owned()).collect();
        self.model.sources.put_beside(files)?;
        Ok(written)
    }
}

/// A part of a model as it is, with further values as outputs.
pub(crate) fn expose_model(
    sources: &Sources,
    options: &Converter,
    values: &BTreeSet<String>,
) -> Result<Simplified> {
    let mut model = sources.read()?;
    let graph = &mut model.graph;
    pass::cut::cut_graph(graph, &options.inputs, &options.outputs)?;
    pass::dead::remove_dead_nodes(graph);
    let outputs: BTreeSet<_> = graph.outputs.iter().copied().collect();
    let computed: Vec<_> =
        graph.nodes().flat_map(|(_, node)| node.outputs.iter().flatten().copied()).collect();
    let wanted = computed.into_iter().filter(|id| {
        let value = graph.value(*id);
        !outputs.contains(id) && value.other_type.is_none() && values.contains(&value.name)
    });
    let wanted: Vec<_> = wanted.collect();
    graph.outputs.extend(wanted);
    Ok(Simplified { model, passes: Vec::new(), warnings: Vec::new() })
}

/// Most rounds, where folding is taken back: whoever simplifies again finds nothing left to do.
const MAX_ROUNDS: usize = 3;

/// The since-version of a node's operator in an operator set.
fn since(node: &Node, opset: i64) -> Option<i64> {
    ops::find(node)?.since_version(opset)
}

/// Simplifies a model.
pub(crate) fn simplify_model(
    sources: &Sources,
    options: &Converter,
) -> std::result::Result<Simplified, Errors> {
    pass::rewrite::check_names(&options.skip)?;
    let all = rewrite::SIMPLIFICATIONS.iter().map(|rewriting| rewriting.name.to_owned());
    let nothing = Converter { skip: all.collect(), ..options.clone() };
    // What is made follows newer operator sets, with which other nodes of an old model may not go together.
    let mut refusal = None;
    for (options, stage) in [(options, Some(Stage::Branch)), (options, None), (&nothing, None)] {
        let simplified = simplify_read(sources.read()?, options, stage)?;
        match onnx::check_versions(&simplified.model, &since) {
            Ok(()) => return Ok(simplified),
            Err(error) => refusal.get_or_insert(error),
        };
    }
    Err(refusal.unwrap_or_else(|| Error::internal("no way to simplify was tried")).into())
}

fn simplify_read(mut model: Model, options: &Converter, stage: Option<Stage>) -> Result<Simplified> {
    let mut progress = Progress { options, passes: Vec::new(), warnings: Vec::new() };
    let graph = &mut model.graph;
    progress.after("read", graph)?;
    graph.kept = unread_values(graph, &options.skip);
    pass::cut::cut_graph(graph, &options.inputs, &options.outputs)?;
    pass::input_shape::set_input_shapes(graph, &options.input_shapes)?;
    progress.after("cut", graph)?;
    for _ in 0..MAX_ROUNDS {
        graph.folded = Some(Vec::new());
        reduce(graph, stage, &mut Doubts::new(), &mut progress)?;
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
    // Later rounds tell the same again.
    let mut warnings = progress.warnings;
    let mut told = BTreeSet::new();
    warnings.retain(|warning| told.insert(warning.clone()));
    Ok(Simplified { passes: progress.passes, warnings, model })
}

/// Values that nobody reads, of those that are to stay.
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

/// Bytes of a node in a file, with its names: more than most take.
const NODE_BYTES: u64 = 256;

/// Bytes that constants may take if the model is not to become larger than the file that it was read from. Constants beside the file
/// have to go into it too.
fn room_for_constants(sources: &Sources, graph: &Graph) -> Result<u64> {
    let nodes = NODE_BYTES.saturating_mul(u64::try_from(graph.node_count())?);
    Ok(sources.model_bytes().saturating_sub(nodes))
}
