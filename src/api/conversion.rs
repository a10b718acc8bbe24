//! What can be done with a converted model.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use crate::common::output::{self, Staged};
use crate::error::{Error, Result};
use crate::example::Language;
use crate::ncnn::{Net, Watch, Written};
use crate::onnx::{self, Storage};
use crate::op::since_version;
use crate::pass::accuracy;
use crate::pipeline::{self, Conversion, Inspection, Options};
use crate::report::{ComparisonPart, Report};

/// The bytes by which a net may exceed one and a half times the size of its model without a warning.
const GROWTH: u64 = 1_000_000;

impl Conversion {
    /// Returns the names of the inputs that no layer reads: the net assumes their elements.
    pub(crate) fn unread_inputs(&self) -> Vec<String> {
        let bottoms = self.net.layers.iter().flat_map(|layer| &layer.bottoms);
        let read: BTreeSet<&str> = bottoms.map(|blob| self.net.blob(*blob).name.as_str()).collect();
        let unread = self.inputs.iter().filter(|port| !read.contains(port.blob.as_str()));
        unread.map(|port| port.name.clone()).collect()
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
        self.write_staged(param.as_ref(), bin.as_ref(), None)
    }

    /// Like [`Conversion::write`]; `watch` is called after each weight, with the number of elements so far,
    /// and that of all weights.
    pub fn write_watched(
        &self,
        param: impl AsRef<Path>,
        bin: impl AsRef<Path>,
        mut watch: impl FnMut(u64, u64),
    ) -> Result<Written> {
        self.write_staged(param.as_ref(), bin.as_ref(), Some(&mut watch))
    }

    fn write_staged(&self, param: &Path, bin: &Path, watch: Option<Watch>) -> Result<Written> {
        let staged = self.stage(param, bin, watch, |_| Ok(None))?;
        self.move_staged(staged)
    }

    /// Moves staged files to their destinations.
    pub(crate) fn move_staged(&self, (files, written): (Staged, Written)) -> Result<Written> {
        self.sources.move_results(files)?;
        self.written.get_or_init(|| written.clone());
        Ok(written)
    }

    /// Accepts files that another conversion moves with its own.
    pub(crate) fn accept(&self, written: &Written) -> Result<()> {
        self.sources.check_unchanged()?;
        self.written.get_or_init(|| written.clone());
        Ok(())
    }

    /// Writes both files, and the further files of the options, next to their destinations. The report has
    /// the comparison that `check` returns for the files of the net.
    pub(crate) fn stage(
        &self,
        param: &Path,
        bin: &Path,
        watch: Option<Watch>,
        check: impl FnOnce(&Staged) -> Result<Option<ComparisonPart>>,
    ) -> Result<(Staged, Written)> {
        self.sources.check_unchanged()?;
        let mut files = Vec::new();
        if let (Some(model), Some(path)) = (&self.simplified, &self.options.emit_onnx) {
            files = onnx::stage(model, path, &Storage::AsNeeded, &since_version)?;
        }
        if let Some((text, path)) = &self.table {
            files.push(output::stage_text(path, text)?);
        }
        let (net_files, mut written) = self.net.stage(param, bin, &self.options.embedding(), watch)?;
        written.warnings.extend(self.growth(&written));
        let comparison = check(&net_files)?;
        let Options { report, html, example, metadata, .. } = &self.options;
        if [report, html, example, metadata].into_iter().any(Option::is_some) {
            let inspection = self.inspection()?;
            if let Some(path) = example {
                let operators = Language::of(path).map(|language| language.operators(path).0);
                for (path, text) in self.program_of(&inspection, path, (param, bin), None)? {
                    files.push(output::stage_text(&path, &text)?);
                    if operators.as_deref() == Some(&path) {
                        written.operators = Some(path);
                    }
                }
            }
            if let Some(path) = metadata {
                files.push(output::stage_text(path, &self.metadata_of(&inspection))?);
            }
            if report.is_some() || html.is_some() {
                let mut of_files = self.report_of(&inspection, &written)?;
                of_files.comparison = comparison;
                files.extend(of_files.stage(report.as_deref(), html.as_deref())?);
            }
        }
        files.extend(net_files);
        Ok((files, written))
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
            return Err(Error::usage(
                "further files are written next to a .param file, not next to a writer",
            ));
        }
        self.sources.check_unchanged()?;
        let mut written = self.net.stream(param, bin)?;
        written.warnings.extend(self.growth(&written));
        self.sources.check_unchanged()?;
        self.written.get_or_init(|| written.clone());
        Ok(written)
    }

    /// Returns the summary of the files, which are computed without being kept if they have not been written.
    ///
    /// # Errors
    ///
    /// As [`Conversion::write_to`].
    pub fn written(&self) -> Result<&Written> {
        if self.written.get().is_none() {
            self.write_to(io::sink(), io::sink())?;
        }
        self.written.get().ok_or_else(|| Error::internal("no summary of the files"))
    }

    /// Returns a warning if the net is clearly larger than the model.
    fn growth(&self, written: &Written) -> Option<String> {
        let (model, net) = (self.sources.total_bytes(), written.bin_bytes);
        let is_large = net > model.saturating_add(model / 2).saturating_add(GROWTH);
        // Tenths of a megabyte, rounded.
        let megabytes = |bytes: u64| match bytes.saturating_add(50_000) / 100_000 {
            0 => "less than 0.1 MB".to_owned(),
            tenths => format!("{}.{} MB", tenths / 10, tenths % 10),
        };
        is_large.then(|| {
            let floats = if self.options.fp16 { "" } else { ", and hold float32 without --fp16" };
            format!(
                "the weights take {}, the model {}: layers of ncnn do not share weights or compute them{floats}",
                megabytes(net),
                megabytes(model)
            )
        })
    }

    /// Returns whether the model sorts elements by their values: rounding decides the order of nearly equal
    /// ones.
    ///
    /// # Errors
    ///
    /// The model cannot be read again.
    pub fn sorts(&self) -> Result<bool> {
        Ok(self.inspection()?.operators.contains_key("TopK"))
    }

    /// Returns the number of nodes whose inputs onnxruntime rounds to int8, as their attribute
    /// `accuracy_level` permits. The net computes exactly, and so does the model that
    /// [`Converter::expose`](crate::Converter::expose) returns.
    ///
    /// # Errors
    ///
    /// The model cannot be read again.
    pub fn rounded_by_onnxruntime(&self) -> Result<usize> {
        Ok(accuracy::rounded_nodes(&self.sources.read()?.graph).len())
    }

    /// Writes the simplified graph as ONNX to a writer; for
    /// [`Quantization::Float`](crate::Quantization::Float), the graph without rounding.
    ///
    /// # Errors
    ///
    /// `Usage` without [`Converter::keep_onnx`](crate::Converter::keep_onnx); `Unsupported` if no version of
    /// the operator sets fits all nodes; `Limit` above 2 GiB; `Io` if the writer fails.
    pub fn write_onnx_to(&self, onnx: impl Write) -> Result<()> {
        let missing = || Error::usage("the simplified graph was not kept");
        let simplified = self.simplified.as_ref().ok_or_else(missing)?;
        self.sources.check_unchanged()?;
        onnx::stream(simplified, onnx, &since_version)
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

    /// Returns the report with a comparison of the net, whose distances get the names of their blobs.
    ///
    /// # Errors
    ///
    /// The files of the net cannot be computed, or the model cannot be read again.
    pub fn compared_report(&self, mut comparison: ComparisonPart) -> Result<Report> {
        let inner = self.inner_blobs().into_iter().map(|inner| (inner.value, inner.blob));
        let outputs = self.outputs.iter().map(|port| (port.name.clone(), port.blob.clone()));
        let blobs: BTreeMap<String, String> = inner.chain(outputs).collect();
        for distance in comparison.layers.iter_mut().chain(&mut comparison.outputs) {
            distance.blob = blobs.get(&distance.name).cloned();
        }
        Ok(self.report(self.written()?)?.with_comparison(comparison))
    }

    fn report_of(&self, inspection: &Inspection, written: &Written) -> Result<Report> {
        Ok(Report::converted(self, &self.sources.read()?.graph, inspection, written))
    }
}
