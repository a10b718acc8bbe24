//! The reasons why a model is not converted.

use crate::error::{Error, Errors};
use crate::lower::{Cut, LowerError};
use crate::onnx::Sources;
use crate::pipeline::{self, Inspection, Options};
use crate::report::{NodePart, Report, untraced};
use crate::tensor::Dim;

/// The sizes with which a model of free sizes is tried.
const SIZES: [i64; 3] = [64, 224, 8];

/// The errors of a model that is not converted, a convertible part of it, and convertible sizes.
#[derive(Debug)]
pub struct Refusal {
    errors: Errors,
    cut: Option<Cut>,
    input_shapes: Vec<(String, Vec<Dim>)>,
    model: Option<Box<(Inspection, Vec<NodePart>)>>,
}

impl Refusal {
    /// Creates the refusal of a model from the errors of the pipeline: proposes the first cut that can be
    /// converted, and inspects the model if the options ask for it.
    pub(super) fn new(error: LowerError, sources: &Sources, options: &Options) -> Refusal {
        let LowerError { errors, cuts } = error;
        let works = |cut: &Cut| pipeline::convert(sources, &options.cut_at(cut)).is_ok();
        let cut = cuts.into_iter().find(works);
        let input_shapes = convertible_shapes(sources, options).unwrap_or_default();
        let explained = options.explain || options.report.is_some() || options.html.is_some();
        // If the model cannot be inspected, the reason is among the errors.
        let model = if explained { describe(sources, options).map(Box::new) } else { None };
        Refusal { errors, cut, input_shapes, model }
    }

    /// Returns the errors, in the order of the nodes.
    pub fn errors(&self) -> &Errors {
        &self.errors
    }

    /// Returns each error, in the order of the nodes.
    pub fn iter(&self) -> std::slice::Iter<'_, Error> {
        self.errors.iter()
    }

    /// Returns a part of the model that can be converted.
    pub fn cut(&self) -> Option<&Cut> {
        self.cut.as_ref()
    }

    /// Returns shapes of inputs with which the whole model can be converted, if free sizes are the only
    /// obstacle.
    pub fn input_shapes(&self) -> &[(String, Vec<Dim>)] {
        &self.input_shapes
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
        Report::refused(&self.errors, self.cut.as_ref(), &self.input_shapes, inspection, nodes)
    }

    /// Adds an error.
    #[must_use]
    pub fn and(mut self, error: Error) -> Self {
        self.errors = self.errors.and(error);
        self
    }
}

/// Returns shapes of inputs without free sizes with which the model can be converted.
fn convertible_shapes(sources: &Sources, options: &Options) -> Option<Vec<(String, Vec<Dim>)>> {
    let free = pipeline::free_shapes(sources, options).ok().filter(|free| !free.is_empty())?;
    let fixed =
        |shape: &[Dim], size| shape.iter().map(|dim| Dim::Known(dim.known().unwrap_or(size))).collect();
    let tried = SIZES.map(|size| -> Vec<(String, Vec<Dim>)> {
        free.iter().map(|(name, shape)| (name.clone(), fixed(shape, size))).collect()
    });
    tried.into_iter().find(|shapes| {
        pipeline::convert(sources, &Options { input_shapes: shapes.clone(), ..options.clone() }).is_ok()
    })
}

fn describe(sources: &Sources, options: &Options) -> Option<(Inspection, Vec<NodePart>)> {
    let (inspection, graph) = pipeline::infer_model(sources, options).ok()?;
    let model = sources.read().ok()?;
    Some((inspection, untraced(&model.graph, &graph)))
}

impl<E: Into<Errors>> From<E> for Refusal {
    fn from(errors: E) -> Self {
        Refusal { errors: errors.into(), cut: None, input_shapes: Vec::new(), model: None }
    }
}

/// One line for each error; `{:#}` adds the causes.
impl std::fmt::Display for Refusal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.errors.fmt(f)
    }
}

impl std::error::Error for Refusal {}
