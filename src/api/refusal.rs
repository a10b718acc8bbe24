//! The reasons why a model is not converted.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::error::{Error, Errors};
use crate::onnx::Sources;
use crate::pipeline::{self, Inspection, Options, Remedy};
use crate::report::{NodePart, Report, untraced};

/// The errors of a model that is not converted, and options with which it, or a part of it, can be.
#[derive(Debug)]
pub struct Refusal {
    errors: Errors,
    remedies: Vec<Remedy>,
    model: Option<Box<(Inspection, Vec<NodePart>)>>,
}

impl Refusal {
    /// Creates the refusal of a model from the errors of the pipeline: searches for remedies, and inspects
    /// the model if the options ask for it.
    pub(super) fn new(errors: Errors, sources: &Sources, options: &Options) -> Refusal {
        let remedies = pipeline::remedies(sources, options, &errors);
        let explained = options.explain || options.report.is_some() || options.html.is_some();
        // If the model cannot be inspected, the reason is among the errors.
        let model = if explained { describe(sources, options).map(Box::new) } else { None };
        Refusal { errors, remedies, model }
    }

    /// Runs a function of the library in a program that must not end by a panic: a panic is an error of the
    /// kind [`Internal`](crate::error::ErrorKind::Internal). It has no effect in a build in which panics
    /// abort.
    ///
    /// # Errors
    ///
    /// Those of the function, and a panic.
    pub fn catch_panic<T>(work: impl FnOnce() -> Result<T, Refusal>) -> Result<T, Refusal> {
        catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|payload| Err(panicked(&*payload).into()))
    }

    /// Returns the errors, in the order of the nodes.
    pub fn errors(&self) -> &Errors {
        &self.errors
    }

    /// Returns each error, in the order of the nodes.
    pub fn iter(&self) -> std::slice::Iter<'_, Error> {
        self.errors.iter()
    }

    /// Returns options with which the model, or a part of it, can be converted, the best first. Each was
    /// tried.
    pub fn remedies(&self) -> &[Remedy] {
        &self.remedies
    }

    /// Returns the inspection of the model, if it was requested and the model could be read.
    pub fn inspection(&self) -> Option<&Inspection> {
        self.model.as_deref().map(|(inspection, _)| inspection)
    }

    /// Returns the report of the refused model.
    pub fn report(&self) -> Report {
        let (inspection, nodes) = match self.model.as_deref() {
            Some((inspection, nodes)) => (Some(inspection), nodes.clone()),
            None => (None, Vec::new()),
        };
        Report::refused(&self.errors, &self.remedies, inspection, nodes)
    }

    /// Adds what the errors are in.
    #[must_use]
    pub(super) fn in_part(mut self, whole: &str) -> Self {
        self.errors = self.errors.in_part(whole);
        self
    }

    /// Adds an error.
    #[must_use]
    pub fn and(mut self, error: Error) -> Self {
        self.errors = self.errors.and(error);
        self
    }
}

/// Returns the error for a panic with this payload.
fn panicked(payload: &(dyn Any + Send)) -> Error {
    let text = payload.downcast_ref::<&str>().map(|text| (*text).to_owned());
    let text = text.or_else(|| payload.downcast_ref::<String>().cloned()).unwrap_or_default();
    Error::internal(format!("the converter panicked: {text}"))
}

/// Returns the inspection of a model and its nodes; `None` if it cannot be read.
fn describe(sources: &Sources, options: &Options) -> Option<(Inspection, Vec<NodePart>)> {
    let (inspection, graph) = pipeline::infer_model(sources, options).ok()?;
    let model = sources.read().ok()?;
    Some((inspection, untraced(&model.graph, &graph)))
}

impl<E: Into<Errors>> From<E> for Refusal {
    fn from(errors: E) -> Self {
        Refusal { errors: errors.into(), remedies: Vec::new(), model: None }
    }
}

/// One line for each error; `{:#}` adds the causes.
impl std::fmt::Display for Refusal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.errors.fmt(f)
    }
}

impl std::error::Error for Refusal {}
