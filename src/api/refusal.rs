//! The reasons why a model is not converted.

use crate::error::{Error, Errors};
use crate::lower::{Cut, LowerError};
use crate::onnx::Sources;
use crate::pipeline::{self, Inspection, Options};
use crate::report::{NodePart, Report, untraced};

/// Why a model is not converted: the errors, and a part of the model that can be converted.
#[derive(Debug)]
pub struct Refusal {
    errors: Errors,
    cut: Option<Cut>,
    model: Option<Box<(Inspection, Vec<NodePart>)>>,
}

impl Refusal {
    /// The refusal of a model that the pipeline could not convert: proposes the first cut that can be converted, and inspects the
    /// model if the options ask for it.
    pub(super) fn new(error: LowerError, sources: &Sources, options: &Options) -> Refusal {
        let LowerError { errors, cuts } = error;
        let works = |cut: &Cut| pipeline::convert(sources, &options.cut_at(cut)).is_ok();
        let cut = cuts.into_iter().find(works);
        let explained = options.explain || options.report.is_some() || options.html.is_some();
        // If the model cannot be inspected, the reason is among the errors.
        let model = if explained { describe(sources, options).map(Box::new) } else { None };
        Refusal { errors, cut, model }
    }

    /// The errors, in the order of the nodes.
    pub fn errors(&self) -> &Errors {
        &self.errors
    }

    /// Each error, in the order of the nodes.
    pub fn iter(&self) -> std::slice::Iter<'_, Error> {
        self.errors.iter()
    }

    /// A part of the model that can be converted.
    pub fn cut(&self) -> Option<&Cut> {
        self.cut.as_ref()
    }

    /// The inspection of the model, if it was asked for and the model could be read.
    pub fn inspection(&self) -> Option<&Inspection> {
        self.model.as_deref().map(|(inspection, _)| inspection)
    }

    /// The report of the refused model.
    pub fn report(&self) -> Report {
        let (inspection, nodes) = match self.model.as_deref() {
            Some((inspection, nodes)) => (Some(inspection), nodes.clone()),
            None => (None, Vec::new()),
        };
        Report::refused(&self.errors, self.cut.as_ref(), inspection, nodes)
    }

    /// The same with one error more.
    #[must_use]
    pub fn and(mut self, error: Error) -> Self {
        self.errors = self.errors.and(error);
        self
    }
}

fn describe(sources: &Sources, options: &Options) -> Option<(Inspection, Vec<NodePart>)> {
    let (inspection, graph) = pipeline::infer_model(sources, options).ok()?;
    let model = sources.read().ok()?;
    Some((inspection, untraced(&model.graph, &graph)))
}

impl<E: Into<Errors>> From<E> for Refusal {
    fn from(errors: E) -> Self {
        Refusal { errors: errors.into(), cut: None, model: None }
    }
}

/// One line for each error; with `{:#}` also its causes.
impl std::fmt::Display for Refusal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.errors.fmt(f)
    }
}

impl std::error::Error for Refusal {}
