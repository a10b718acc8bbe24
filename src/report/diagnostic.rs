//! The errors, warnings, assumptions, expectations and conditions of a report.

use std::collections::BTreeMap;
use std::error::Error as _;

use serde::Serialize;
use serde_json::Value;

use crate::error::{Error, ErrorKind, NodeAt, Where};
use crate::lower::Assumption;
use crate::pipeline::{Options, Remedy};
use crate::tensor::SizeCondition;

/// An error, a warning, an assumed or expected fact, or a condition on free sizes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Diagnostic {
    /// `error`, `warning`, `assumption`, `expectation` or `condition`.
    pub severity: &'static str,
    /// The kind of an error, or the name of an assumed or expected fact.
    pub kind: Option<&'static str>,
    /// The code of an error, such as `E0012`.
    pub code: Option<String>,
    /// The message, one phrase.
    pub reason: String,
    /// The causes, the nearest first.
    pub causes: Vec<String>,
    /// Advice for the user.
    pub help: Option<String>,
    /// The location.
    pub at: Location,
}

/// A location, as far as it is known.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Location {
    /// The file that was read or written.
    pub file: Option<String>,
    /// Names of the graphs around the node, outermost first.
    pub graph: Vec<String>,
    /// The node.
    pub node: Option<NodeLocation>,
    /// The input, output, attribute or tensor.
    pub part: Option<String>,
}

/// A node of the model.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct NodeLocation {
    /// Its index in the graph's list of nodes.
    pub index: usize,
    /// Its name; may be empty.
    pub name: String,
    /// Its operator.
    pub op_type: String,
    /// The version of the operator set that it follows.
    pub version: i64,
}

/// Options with which a refused model, or a part of it, can be converted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct RemedyPart {
    /// The options by their names in the library: flags are `true`; values and shapes are objects by the
    /// names of inputs.
    pub options: BTreeMap<&'static str, Value>,
    /// The options as words of the command line, without quotes.
    pub words: Vec<String>,
    /// The percentage that is converted.
    pub percent: u64,
    /// What it counts: `weights`; `weights and nodes`, if the model has hardly any weights.
    pub counted: &'static str,
}

impl Diagnostic {
    pub(super) fn of(error: &Error) -> Diagnostic {
        let mut causes = Vec::new();
        let mut below = error.source();
        while let Some(cause) = below {
            causes.push(cause.to_string());
            below = cause.source();
        }
        Diagnostic {
            severity: "error",
            kind: Some(kind_name(error.kind())),
            code: Some(error.code().to_string()),
            reason: error.message().to_owned(),
            causes,
            help: error.help_text().map(ToOwned::to_owned),
            at: Location::of(error.at()),
        }
    }

    /// Creates the diagnostic of a warning.
    pub fn warning(text: &str) -> Diagnostic {
        Diagnostic::text("warning", text.to_owned())
    }

    pub(super) fn condition(condition: &SizeCondition) -> Diagnostic {
        Diagnostic::text("condition", condition.to_string())
    }

    fn text(severity: &'static str, reason: String) -> Diagnostic {
        let (kind, code, causes, help, at) = Default::default();
        Diagnostic { severity, kind, code, reason, causes, help, at }
    }

    pub(super) fn assumption(assumption: &Assumption) -> Diagnostic {
        let Assumption { value, fact, node } = assumption;
        let subject = if value.is_empty() { assumption.subject() } else { "the elements".to_owned() };
        Diagnostic {
            severity: if fact.is_refused_if_strict() { "assumption" } else { "expectation" },
            kind: Some(fact.name()),
            code: None,
            reason: format!("{subject} are {}", fact.describe()),
            causes: Vec::new(),
            help: None,
            at: Location {
                node: node.as_ref().map(NodeLocation::of),
                part: Some(value).filter(|value| !value.is_empty()).map(|value| format!("value \"{value}\"")),
                ..Location::default()
            },
        }
    }
}

impl NodeLocation {
    fn of(node: &NodeAt) -> NodeLocation {
        NodeLocation {
            index: node.index,
            name: node.name.clone(),
            op_type: node.op_type.clone(),
            version: node.version,
        }
    }
}

impl Location {
    fn of(at: &Where) -> Location {
        let node = at.node.as_ref().map(NodeLocation::of);
        let file = at.file.as_ref().map(|file| file.display().to_string());
        Location { file, graph: at.graph.clone(), node, part: at.part.clone() }
    }
}

impl RemedyPart {
    pub(super) fn of(remedy: &Remedy) -> RemedyPart {
        let mut options = remedy.apply(&Options::default()).to_json();
        if !remedy.split_at.is_empty() {
            options.insert("split_at", remedy.split_at.clone().into());
        }
        RemedyPart { options, words: remedy.words(), percent: remedy.percent, counted: remedy.counted() }
    }
}

/// The name of a kind of error, which is stable across versions of the program.
fn kind_name(kind: ErrorKind) -> &'static str {
    match kind {
        ErrorKind::Io => "io",
        ErrorKind::Parse => "parse",
        ErrorKind::Invalid => "invalid",
        ErrorKind::Unsupported => "unsupported",
        ErrorKind::Limit => "limit",
        ErrorKind::Internal => "internal",
        ErrorKind::Usage => "usage",
        ErrorKind::Mismatch => "mismatch",
        ErrorKind::InvalidNet => "invalid_net",
    }
}
