//! A converted model.

use std::collections::BTreeSet;
use std::io::Write;
use std::path::{Path, PathBuf};

use crate::common::output;
use crate::error::{Error, Result};
use crate::graph::Graph;
use crate::lower::Assumption;
use crate::ncnn::layer::EMPTY_BLOBS;
use crate::ncnn::{Net, Written};
use crate::onnx::{self, Model, Sources, Storage};
use crate::op::since_version;
use crate::pipeline::{self, Composition, Converted, Inspection, Options, Pass, Port};
use crate::report::{self, Report};
use crate::tensor::{Dim, SizeCondition};

/// The bytes by which a net may exceed twice the size of its model without a warning.
const GROWTH: u64 = 10_000_000;

/// A converted model, ready to be written.
#[derive(Debug)]
#[non_exhaustive]
pub struct Conversion {
    /// The inputs of the net.
    pub inputs: Vec<Port>,
    /// The outputs of the net.
    pub outputs: Vec<Port>,
    /// Choices that were made for the user, and changed names.
    pub warnings: Vec<String>,
    /// Facts of values on which the net relies, although they could not be proved. If one does not hold, the
    /// net may compute something else.
    pub assumptions: Vec<Assumption>,
    /// The conditions on free sizes under which the net is valid. For other sizes the model is invalid, or a
    /// blob is empty.
    pub conditions: Vec<SizeCondition>,
    /// The number of nodes after reading and after each pass.
    pub passes: Vec<Pass>,
    /// What the layers of nodes cost, those of the most costly nodes first; without small layers and free sizes.
    pub compositions: Vec<Composition>,
    pub(super) net: Net,
    pub(super) graph: Graph,
    net_passes: Vec<(&'static str, usize)>,
    simplified: Option<Model>,
    table: Option<(String, PathBuf)>,
    pub(super) sources: Sources,
    pub(super) options: Options,
}

impl Conversion {
    pub(super) fn new(converted: Converted, options: Options) -> Conversion {
        let Converted {
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
        } = converted;
        Conversion {
            inputs,
            outputs,
            warnings,
            assumptions,
            conditions,
            passes,
            compositions,
            net,
            graph,
            net_passes,
            simplified,
            table,
            sources,
            options,
        }
    }

    /// Returns the net.
    pub fn net(&self) -> &Net {
        &self.net
    }

    /// Returns the files of the model: external data, then the model itself. Empty for a model in memory.
    pub fn sources(&self) -> &[PathBuf] {
        &self.sources.files
    }

    /// Writes both files, and the further ones of the options: all are written, or none is changed. The files
    /// of the model are not overwritten.
    pub fn write(&self, param: impl AsRef<Path>, bin: impl AsRef<Path>) -> Result<Written> {
        let mut files = Vec::new();
        if let (Some(model), Some(path)) = (&self.simplified, &self.options.emit_onnx) {
            files = onnx::stage(model, path, &Storage::AsNeeded, &since_version)?;
        }
        if let Some((text, path)) = &self.table {
            files.push(output::stage_text(path, text)?);
        }
        let (net_files, mut written) =
            self.net.stage(param.as_ref(), bin.as_ref(), &self.options.embedding())?;
        written.warnings.extend(self.growth(&written));
        let Options { report, html, example, metadata, .. } = &self.options;
        if [report, html, example, metadata].into_iter().any(Option::is_some) {
            let inspection = self.inspection()?;
            if let Some(path) = example {
                let program = self.program_beside(&inspection, path, param.as_ref(), bin.as_ref())?;
                files.push(output::stage_text(path, &program)?);
            }
            if let Some(path) = metadata {
                files.push(output::stage_text(path, &self.metadata_of(&inspection))?);
            }
            if report.is_some() || html.is_some() {
                let report_of_files = self.report_of(&inspection, &written)?;
                files.extend(report_of_files.stage(report.as_deref(), html.as_deref())?);
            }
        }
        files.extend(net_files);
        self.sources.put_beside(files)?;
        Ok(written)
    }

    /// Writes the text of the `.param` file and the bytes of the `.bin` file to writers. Weights are read and
    /// written piece by piece. After an error the writers may have received some of the bytes.
    ///
    /// # Errors
    ///
    /// `Usage` if the [`Converter`](crate::Converter) has paths of further files, which only
    /// [`Conversion::write`] writes. `Io` if a writer fails, or a file of the model cannot be read or was
    /// changed meanwhile.
    pub fn write_to(&self, param: impl Write, bin: impl Write) -> Result<Written> {
        if self.options.files().next().is_some() {
            return Err(Error::usage("further files are written beside a .param file, not beside a writer"));
        }
        let mut written = self.net.stream(param, bin)?;
        written.warnings.extend(self.growth(&written));
        self.sources.check_unchanged()?;
        Ok(written)
    }

    /// Returns a warning if the net is much larger than the model.
    fn growth(&self, written: &Written) -> Option<String> {
        let (model, net) = (self.sources.total_bytes(), written.bin_bytes);
        let is_large = net > model.saturating_mul(2).saturating_add(GROWTH);
        is_large.then(|| {
            format!(
                "the weights take {} MB, the model {} MB: layers of ncnn do not share weights, and hold float32 \
                    unless fewer bits are asked for",
                net / 1_000_000,
                model / 1_000_000
            )
        })
    }

    /// The release of ncnn since which sizes may be 0.
    pub const ZERO_SIZES_SINCE: u32 = EMPTY_BLOBS;

    /// Returns the free sizes that may be 0: the lengths of caches that may be empty. All others are at least 1.
    pub fn may_be_zero(&self) -> Vec<String> {
        let is_at_least = |name: &str, condition: &SizeCondition| match condition {
            SizeCondition::AtLeast(size, _) => size.symbol_name() == Some(name),
            _ => false,
        };
        let plain = self.inputs.iter().filter(|port| port.cache.is_none());
        let lengths = plain.flat_map(|port| &port.shape).filter(|size| size.has_length());
        let names: BTreeSet<&str> = lengths.filter_map(Dim::symbol_name).collect();
        let names = names.into_iter();
        names
            .filter(|name| !self.conditions.iter().any(|condition| is_at_least(name, condition)))
            .map(str::to_owned)
            .collect()
    }

    /// Returns whether the model sorts elements by their values: equal ones may have another order in the net.
    ///
    /// # Errors
    ///
    /// The model cannot be read again.
    pub fn sorts(&self) -> Result<bool> {
        Ok(self.inspection()?.operators.contains_key("TopK"))
    }

    /// Writes the simplified graph as ONNX to a writer; for
    /// [`Quantization::Float`](crate::Quantization::Float), the graph without rounding.
    ///
    /// # Errors
    ///
    /// `Usage` without [`Converter::keep_onnx`](crate::Converter::keep_onnx); `Unsupported` if no version of the
    /// operator sets fits all nodes; `Limit` above 2 GiB; `Io` if the writer fails.
    pub fn write_onnx_to(&self, onnx: impl Write) -> Result<()> {
        let missing = || Error::usage("the simplified graph was not kept");
        onnx::stream(self.simplified.as_ref().ok_or_else(missing)?, onnx, &since_version)
    }

    /// Returns the inspection of the model.
    ///
    /// # Errors
    ///
    /// The parameters of the model cannot be counted.
    pub fn inspection(&self) -> Result<Inspection> {
        pipeline::inspect(&self.sources, &self.options)
    }

    /// Returns the report of the written files.
    ///
    /// # Errors
    ///
    /// The parameters of the model cannot be counted.
    pub fn report(&self, written: &Written) -> Result<Report> {
        self.report_of(&self.inspection()?, written)
    }

    fn report_of(&self, inspection: &Inspection, written: &Written) -> Result<Report> {
        let converted = report::Converted {
            inspection,
            model: &self.sources.read()?.graph,
            graph: &self.graph,
            net: &self.net,
            inputs: &self.inputs,
            outputs: &self.outputs,
            warnings: &self.warnings,
            assumptions: &self.assumptions,
            conditions: &self.conditions,
            may_be_zero: self.may_be_zero(),
            passes: &self.passes,
            net_passes: &self.net_passes,
        };
        Ok(Report::converted(&converted, written))
    }
}
