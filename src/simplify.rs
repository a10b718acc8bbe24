//! Simplifying: the same way as converting, up to where ncnn's words begin. What is not known stays as it is.

use std::path::{Path, PathBuf};

use crate::error::{Error, Errors, Result};
use crate::graph::Node;
use crate::onnx::{self, Input, Model, Storage};
use crate::pass::expand::Stage;
use crate::pass::infer::Doubts;
use crate::pass::rewrite;
use crate::{Options, Pass, Progress, ops, output, pass, reduce};

/// A simplified model, ready to be written.
#[derive(Debug)]
pub struct Simplified {
    model: Model,
    /// The nodes that each pass left, from reading on.
    pub passes: Vec<Pass>,
}

impl Simplified {
    /// The model.
    pub fn model(&self) -> &Model {
        &self.model
    }

    /// Writes the model: all files are there afterwards, or none is changed. The files that it was read from are not overwritten.
    /// Gives the paths of the files, the model's last.
    pub fn write(&self, path: &Path, storage: &Storage) -> Result<Vec<PathBuf>> {
        let files = onnx::stage(&self.model, path, storage, &since)?;
        for (i, (target, _)) in files.iter().enumerate() {
            if self.model.files.iter().any(|source| target.is_file(source)) {
                return Err(Error::usage("this would overwrite data of the model").in_file(target.named()));
            }
            if files.iter().take(i).any(|(other, _)| other.is(target)) {
                return Err(Error::usage("two results would be the same file").in_file(target.named()));
            }
        }
        let written = files.iter().map(|(target, _)| target.named().to_owned()).collect();
        output::put_all(files)?;
        Ok(written)
    }
}

/// Most rounds, where folding is taken back: whoever simplifies again finds nothing left to do.
const MAX_ROUNDS: usize = 3;

/// The since-version of a node's operator in an operator set.
fn since(node: &Node, opset: i64) -> Option<i64> {
    ops::find(node)?.since_version(opset)
}

/// Simplifies a model: read, cut, infer, fold, rewrite. Of the options those count that hold before ncnn's words begin.
///
/// The result computes what the model computes, in ONNX's words, with the same inputs and outputs. Operators that are not known, and
/// what follows from them, stay as they are; so do free sizes, and nodes that make large constants of small ones.
pub fn simplify(input: &Input, options: &Options) -> std::result::Result<Simplified, Errors> {
    let model = onnx::read(input, &options.read)?;
    pass::rewrite::check_names(&options.skip)?;
    let all = rewrite::SIMPLIFICATIONS.iter().map(|rewriting| rewriting.name.to_owned());
    let nothing = Options { skip: all.collect(), ..options.clone() };
    // What is made follows newer operator sets, with which other nodes of an old model may not go together.
    let mut refusal = None;
    for (options, stage) in [(options, Some(Stage::Branch)), (options, None), (&nothing, None)] {
        let simplified = simplify_model(&model, options, stage)?;
        match onnx::check_versions(&simplified.model, &since) {
            Ok(()) => return Ok(simplified),
            Err(error) => refusal.get_or_insert(error),
        };
    }
    Err(refusal.unwrap_or_else(|| Error::internal("no way to simplify was tried")).into())
}

fn simplify_model(model: &Model, options: &Options, stage: Option<Stage>) -> Result<Simplified> {
    let mut progress = Progress { options, passes: Vec::new() };
    let mut graph = model.graph.clone();
    progress.after("read", &graph)?;
    pass::cut::cut_graph(&mut graph, &options.inputs, &options.outputs)?;
    pass::input_shape::set_input_shapes(&mut graph, &options.input_shapes)?;
    progress.after("cut", &graph)?;
    for _ in 0..MAX_ROUNDS {
        graph.folded = Some(Vec::new());
        reduce(&mut graph, stage, &mut Doubts::new(), &mut progress)?;
        pass::dead::remove_dead_nodes(&mut graph);
        let unfolded = pass::unfold::unfold_large_constants(&mut graph)?;
        progress.after("unfold large constants", &graph)?;
        if !unfolded {
            break;
        }
    }
    Ok(Simplified { passes: progress.passes, model: Model { graph, ..model.clone() } })
}
