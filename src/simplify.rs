//! Simplifying: the same way as converting, up to where ncnn's words begin. What is not known stays as it is.

use std::path::{Path, PathBuf};

use crate::error::{Error, Errors, Result};
use crate::graph::Node;
use crate::onnx::{self, Input, Model};
use crate::pass::expand::Stage;
use crate::pass::infer::Doubts;
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
    pub fn write(&self, path: &Path) -> Result<Vec<PathBuf>> {
        let since = |node: &Node, opset| ops::find(node)?.since_version(opset);
        let files = onnx::stage(&self.model, path, &since)?;
        for (target, _) in &files {
            if self.model.files.iter().any(|source| target.is_file(source)) {
                return Err(Error::usage("this would overwrite data of the model").in_file(target.named()));
            }
        }
        let written = files.iter().map(|(target, _)| target.named().to_owned()).collect();
        output::put_all(files)?;
        Ok(written)
    }
}

/// Simplifies a model: read, cut, infer, fold, rewrite. Of the options those count that hold before ncnn's words begin.
///
/// The result computes what the model computes, in ONNX's words, with the same inputs and outputs. Operators that are not known, and
/// what follows from them, stay as they are; so do free sizes.
pub fn simplify(input: &Input, options: &Options) -> std::result::Result<Simplified, Errors> {
    let mut model = onnx::read(input, &options.read)?;
    let mut progress = Progress { options, passes: Vec::new() };
    let graph = &mut model.graph;
    progress.after("read", graph)?;
    pass::rewrite::check_names(&options.skip)?;
    pass::cut::cut_graph(graph, &options.inputs, &options.outputs)?;
    pass::input_shape::set_input_shapes(graph, &options.input_shapes)?;
    progress.after("cut", graph)?;
    reduce(graph, Stage::Branch, &mut Doubts::new(), &mut progress)?;
    Ok(Simplified { passes: progress.passes, model })
}
