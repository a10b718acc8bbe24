//! What became of a model.

use std::io::Write;
use std::path::{Path, PathBuf};

use crate::error::{Error, Result};
use crate::graph::{Graph, Node};
use crate::inspect::{Inspection, inspect_model};
use crate::ncnn::{Embedding, Net, Written};
use crate::onnx::{self, Model, Sources, Storage};
use crate::report::{Converted, Report};
use crate::tensor::Dim;
use crate::{Converter, ops, output};

/// A graph input or output and the blob that it is in the net.
#[derive(Clone, Debug)]
#[non_exhaustive]
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
#[non_exhaustive]
pub struct Conversion {
    pub(crate) net: Net,
    pub(crate) embedding: Embedding,
    /// The table of scales and where it is to be written.
    pub(crate) table: Option<(String, PathBuf)>,
    /// The simplified model and where it is to be written.
    pub(crate) simplified: Option<(Model, PathBuf)>,
    /// What was to be converted, and how.
    pub(crate) source: Source,
    /// What users give.
    pub inputs: Vec<Port>,
    /// What users get.
    pub outputs: Vec<Port>,
    /// What users should know: assumptions and changed names.
    pub warnings: Vec<String>,
    /// The nodes that each pass left, from reading on.
    pub passes: Vec<Pass>,
}

/// What a net was made of, for reports.
#[derive(Debug)]
pub(crate) struct Source {
    pub sources: Sources,
    pub options: Converter,
    /// The graph that was lowered.
    pub graph: Graph,
    /// The layers that each pass left, from lowering on.
    pub net_passes: Vec<(&'static str, usize)>,
}

/// What a pass left of the graph.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
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

    /// The files of the model: those of external data, and the model itself. What was read from memory is of none.
    pub fn sources(&self) -> &[PathBuf] {
        &self.source.sources.files
    }

    /// Writes both files, and further ones that were asked for: all are there afterwards, or none is changed.
    /// The files of the model are not overwritten.
    pub fn write(&self, param: impl AsRef<Path>, bin: impl AsRef<Path>) -> Result<Written> {
        let mut files = Vec::new();
        if let Some((model, path)) = &self.simplified {
            let since = |node: &Node, opset| ops::find(node)?.since_version(opset);
            files = onnx::stage(model, path, &Storage::AsNeeded, &since)?;
        }
        if let Some((text, path)) = &self.table {
            files.push(output::stage_text(path, text)?);
        }
        let (net_files, written) = self.net.stage(param.as_ref(), bin.as_ref(), &self.embedding)?;
        let Converter { report, html, .. } = &self.source.options;
        if report.is_some() || html.is_some() {
            files.extend(self.report(&written)?.stage(report.as_deref(), html.as_deref())?);
        }
        files.extend(net_files);
        self.source.sources.put_beside(files)?;
        Ok(written)
    }

    /// Writes the text of the `.param` file and the bytes of the `.bin` file to writers. Weights are read and written piece by
    /// piece. After an error the writers may have some of the bytes.
    ///
    /// # Errors
    ///
    /// `Usage` where the [`Converter`] has paths of further files, which [`Conversion::write`] alone writes. `Io` where a writer
    /// fails, or a file of the model cannot be read or was changed meanwhile.
    pub fn write_to(&self, param: impl Write, bin: impl Write) -> Result<Written> {
        let Converter { report, html, .. } = &self.source.options;
        let no_more = self.simplified.is_none() && self.table.is_none() && report.is_none() && html.is_none();
        if !no_more || self.embedding != Embedding::default() {
            return Err(Error::usage("further files are written beside a .param file, not beside a writer"));
        }
        let written = self.net.stream(param, bin)?;
        self.source.sources.check_unchanged()?;
        Ok(written)
    }

    /// What the model consists of.
    ///
    /// # Errors
    ///
    /// The model cannot be counted.
    pub fn inspection(&self) -> Result<Inspection> {
        inspect_model(&self.source.sources, &self.source.options)
    }

    /// The report of what was written.
    ///
    /// # Errors
    ///
    /// The model cannot be counted.
    pub fn report(&self, written: &Written) -> Result<Report> {
        let Source { sources, graph, net_passes, .. } = &self.source;
        let converted = Converted {
            inspection: &self.inspection()?,
            model: &sources.read()?.graph,
            graph,
            net: &self.net,
            inputs: &self.inputs,
            outputs: &self.outputs,
            warnings: &self.warnings,
            passes: &self.passes,
            net_passes,
        };
        Ok(Report::converted(&converted, written))
    }
}
