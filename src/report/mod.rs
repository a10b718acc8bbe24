//! Reports: request and result for a model, as JSON for programs and as an HTML page for people.
//!
//! The fields of the types are those of the JSON, in this order; `docs/report.md` documents them, and
//! `docs/report.schema.json` is their schema. A report depends only on the input, not on the time or the
//! machine.

mod comparison;
mod diagnostic;
mod drawing;
mod model;
mod net;
mod page;
mod source;

use std::collections::BTreeMap;
use std::path::Path;

use serde::Serialize;
use serde_json::Value;

use crate::common::GENERATOR;
use crate::common::output::{self, Staged};
use crate::error::{Error, ErrorKind, Errors, Result};
use crate::pipeline::{Inspection, Remedy};

pub use comparison::{ComparisonPart, Distance};
pub use diagnostic::{Diagnostic, Location, NodeLocation, RemedyPart};
pub use model::{ModelPart, Size, ValuePart};
pub use net::{Axes, LayerPart, NetPart, ParamPart, ParamValue, PortPart, StoragePart, WeightPart};
pub use source::{Becomes, CostPart, NodePart};

pub(crate) use source::{trace, untraced};

/// The version of the report format. It increases when a field is removed or changes its meaning, not for new
/// fields.
pub const REPORT_VERSION: u32 = 1;

/// The result for a model.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum Status {
    /// Converted, with written files.
    Converted,
    /// Convertible; no files were requested.
    Convertible,
    /// Invalid, or not expressible in ncnn.
    Refused,
    /// Undecided: a file cannot be read or written, the options do not fit the model, or the converter has a
    /// fault.
    Failed,
}

/// Request and result for a model.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct Report {
    /// [`REPORT_VERSION`].
    pub report_version: u32,
    /// The program and its version.
    pub generator: String,
    /// The result.
    pub status: Status,
    /// The options of the conversion by their names in the library, without those for further files.
    pub options: BTreeMap<&'static str, Value>,
    /// The model, if it could be read.
    pub model: Option<ModelPart>,
    /// The net, if there is one.
    pub net: Option<NetPart>,
    /// The lowering of each node of the model, in the order of the model; empty if it could not be read.
    pub nodes: Vec<NodePart>,
    /// The steps, in order.
    pub passes: Vec<PassPart>,
    /// Errors, warnings, assumed and expected facts, and conditions on free sizes.
    pub diagnostics: Vec<Diagnostic>,
    /// Options with which a refused model, or a part of it, can be converted, the best first.
    pub remedies: Vec<RemedyPart>,
    /// The comparison of the net with the model, if there was one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub comparison: Option<ComparisonPart>,
}

/// A step and the size after it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct PassPart {
    /// The name of the step; names of passes are those that can be disabled.
    pub name: String,
    /// The counted unit.
    pub of: Unit,
    /// The count before the step; `None` for the first.
    pub before: Option<usize>,
    /// The count after the step.
    pub after: usize,
}

/// The unit of a count.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum Unit {
    /// Nodes of the ONNX graph.
    Nodes,
    /// Layers of the net.
    Layers,
}

impl Report {
    /// Creates an empty report.
    fn new(status: Status) -> Report {
        Report {
            report_version: REPORT_VERSION,
            generator: GENERATOR.to_owned(),
            status,
            options: BTreeMap::new(),
            model: None,
            net: None,
            nodes: Vec::new(),
            passes: Vec::new(),
            diagnostics: Vec::new(),
            remedies: Vec::new(),
            comparison: None,
        }
    }

    /// Adds a comparison.
    pub(crate) fn with_comparison(self, comparison: ComparisonPart) -> Report {
        Report { comparison: Some(comparison), ..self }
    }

    /// Creates the report of a convertible model without written files.
    pub fn convertible(inspection: &Inspection) -> Report {
        Report { model: Some(ModelPart::of(inspection)), ..Report::new(Status::Convertible) }
    }

    /// Creates the report of a model that was not converted.
    pub(crate) fn refused(
        errors: &Errors,
        remedies: &[Remedy],
        inspection: Option<&Inspection>,
        mut nodes: Vec<NodePart>,
    ) -> Report {
        let failed = |error: &Error| {
            matches!(
                error.kind(),
                ErrorKind::Io | ErrorKind::Usage | ErrorKind::Internal | ErrorKind::Mismatch
            )
        };
        let diagnostics: Vec<Diagnostic> = errors.iter().map(Diagnostic::of).collect();
        source::mark_refused(&mut nodes, &diagnostics);
        let status = if errors.iter().any(failed) { Status::Failed } else { Status::Refused };
        Report {
            model: inspection.map(ModelPart::of),
            nodes,
            diagnostics,
            remedies: remedies.iter().map(RemedyPart::of).collect(),
            ..Report::new(status)
        }
    }

    /// Returns the report as JSON, with a final line feed.
    ///
    /// # Errors
    ///
    /// None are known.
    pub fn to_json(&self) -> Result<String> {
        let failed = |error| Error::internal("the report cannot be serialized").caused_by(error);
        let mut text = serde_json::to_string_pretty(self).map_err(failed)?;
        text.push('\n');
        Ok(text)
    }

    /// Writes the report as JSON and as a page to the paths. No other file is changed.
    ///
    /// # Errors
    ///
    /// A file cannot be written.
    pub fn write(&self, json: Option<&Path>, html: Option<&Path>) -> Result<()> {
        output::put_all(self.stage(json, html)?)
    }

    /// Writes the files of [`Report::write`] under temporary names.
    pub(crate) fn stage(&self, json: Option<&Path>, html: Option<&Path>) -> Result<Staged> {
        let mut files = Vec::new();
        if let Some(path) = json {
            files.push(output::stage_text(path, &self.to_json()?)?);
        }
        if let Some(path) = html {
            files.push(output::stage_text(path, &self.to_html()?)?);
        }
        Ok(files)
    }

    /// Returns the report as a self-contained HTML page, without references to other files or the network.
    ///
    /// # Errors
    ///
    /// None are known.
    pub fn to_html(&self) -> Result<String> {
        page::page(self)
    }

    /// Returns a small drawing of the net as SVG, in the colours of the text around it; `None` without a net,
    /// and for nets of thousands of layers.
    pub fn to_svg(&self) -> Option<String> {
        self.net.as_ref().and_then(drawing::draw)
    }
}
