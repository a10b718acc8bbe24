//! Reports: what was asked of a model and what came of it, for programs and, as a page, for people.
//!
//! The fields of the types here are those of the JSON, in this order; `docs/report.md` tells what they mean and `docs/report.schema.json`
//! what they may hold. The same run gives the same bytes: nothing in a report tells of the time or the machine.

mod diagnostic;
mod model;
mod net;
mod page;
mod source;

use std::path::Path;

use serde::Serialize;

use crate::common::output::{self, Staged};
use crate::error::{Error, ErrorKind, Errors, Result};
use crate::lower::Cut;
use crate::pipeline::Inspection;

pub use diagnostic::{Diagnostic, NodePlace, Place, ProposedCut};
pub use model::{ModelPart, Size, ValuePart};
pub use net::{Axes, LayerPart, NetPart, ParamPart, ParamValue, PortPart, StoragePart, WeightPart};
pub use source::{Becomes, NodePart};

pub(crate) use net::Converted;
pub(crate) use source::untraced;

/// The version of the form of reports. It grows when a field goes or changes its meaning; new fields leave it.
pub const REPORT_VERSION: u32 = 1;

/// What came of a model.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum Status {
    /// It was converted, and files were written.
    Converted,
    /// It can be converted; nothing was to be written.
    Convertible,
    /// It is invalid, or something in it cannot be expressed in ncnn.
    Refused,
    /// It cannot be told: a file cannot be read or written, the request does not fit the model, or the converter is at fault.
    Failed,
}

/// What was asked of a model and what came of it.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct Report {
    /// [`REPORT_VERSION`].
    pub report_version: u32,
    /// This program and its version.
    pub generator: String,
    /// What came of it.
    pub status: Status,
    /// The model, where it could be read.
    pub model: Option<ModelPart>,
    /// The net, where there is one.
    pub net: Option<NetPart>,
    /// What became of each node of the model, in the order of the model; empty where it could not be read.
    pub nodes: Vec<NodePart>,
    /// What was done, step by step.
    pub passes: Vec<PassPart>,
    /// What is in the way, or what should be known.
    pub diagnostics: Vec<Diagnostic>,
    /// A part of a refused model that can be converted.
    pub proposed_cut: Option<ProposedCut>,
}

/// A step and what it left.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct PassPart {
    /// What was done; names of passes are those that can be left out.
    pub name: String,
    /// What is counted.
    pub of: Unit,
    /// How many there were before it; none for the first step.
    pub before: Option<usize>,
    /// How many there were after it.
    pub after: usize,
}

/// What a step is counted in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum Unit {
    /// Nodes of the graph, in ONNX's words.
    Nodes,
    /// Layers of the net.
    Layers,
}

impl Report {
    /// A report that tells nothing yet.
    fn new(status: Status) -> Report {
        Report {
            report_version: REPORT_VERSION,
            generator: concat!(env!("CARGO_PKG_NAME"), " ", env!("CARGO_PKG_VERSION")).to_owned(),
            status,
            model: None,
            net: None,
            nodes: Vec::new(),
            passes: Vec::new(),
            diagnostics: Vec::new(),
            proposed_cut: None,
        }
    }

    /// The report of a model that can be converted, where nothing is to be written.
    pub fn convertible(inspection: &Inspection) -> Report {
        Report { model: Some(ModelPart::of(inspection)), ..Report::new(Status::Convertible) }
    }

    /// The report of a model that was not converted.
    pub(crate) fn refused(
        errors: &Errors,
        cut: Option<&Cut>,
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
            proposed_cut: cut.map(ProposedCut::of),
            ..Report::new(status)
        }
    }

    /// The report as JSON, with a line feed at its end.
    ///
    /// # Errors
    ///
    /// None that are known.
    pub fn to_json(&self) -> Result<String> {
        let failed = |error| Error::internal("the report is no JSON").caused_by(error);
        let mut text = serde_json::to_string_pretty(self).map_err(failed)?;
        text.push('\n');
        Ok(text)
    }

    /// Writes the report as JSON and as a page, in the places that are given. No other file is touched.
    ///
    /// # Errors
    ///
    /// A file cannot be written.
    pub fn write(&self, json: Option<&Path>, html: Option<&Path>) -> Result<()> {
        output::put_all(self.stage(json, html)?)
    }

    /// The files of [`Report::write`], beside their places.
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

    /// The report as a page that needs nothing else: no other file and no network.
    ///
    /// # Errors
    ///
    /// None that are known.
    pub fn to_html(&self) -> Result<String> {
        page::page(self)
    }
}
