//! Errors.
//!
//! | kind | meaning | exit code |
//! | --- | --- | --- |
//! | [`ErrorKind::Unsupported`] | valid ONNX that cannot be expressed in ncnn, or not yet | 1 |
//! | [`ErrorKind::Invalid`] | the model breaks the ONNX specification | 1 |
//! | [`ErrorKind::Parse`] | the bytes are not an ONNX model | 1 |
//! | [`ErrorKind::Limit`] | a size or count exceeds a limit | 1 |
//! | [`ErrorKind::Internal`] | a fault of the converter | 1 |
//! | [`ErrorKind::Usage`] | the options do not fit the model, or would overwrite it | 2 |
//! | [`ErrorKind::Io`] | a file cannot be read or written | 2 |
//! | [`ErrorKind::Mismatch`] | a result differs from the model's, as other runtimes show | 4 |
//!
//! A run with errors of several kinds ends with the highest of their exit codes. An invalid command line is 2
//! too.
//!
//! A message is a phrase that follows the name of its kind: `unsupported: a mask of 3 axes`, `invalid model:
//! axis 9 of 4`. It begins in lower case, has no full stop, and states the fault and the expectation, with
//! names of the model in double quotes and shapes as `[1, 3, H, W]`. "It" is the node, or the part of the
//! node, at which the error occurred. Advice for the user is the help, in the imperative.

mod code;

use std::fmt;
use std::path::{Path, PathBuf};

pub use code::ErrorCode;

/// The help of internal errors.
const REPORT: &str = "this is a fault of the converter; please report it";

/// The result type of this crate.
pub type Result<T> = std::result::Result<T, Error>;

/// The kind of an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum ErrorKind {
    /// A file could not be read or written.
    Io,
    /// The bytes are not an ONNX model.
    Parse,
    /// The model breaks the ONNX specification.
    Invalid,
    /// Valid ONNX that cannot be expressed in ncnn.
    Unsupported,
    /// A size or count exceeds a limit.
    Limit,
    /// A fault of the converter, whatever the model is.
    Internal,
    /// The options do not fit the model or the files.
    Usage,
    /// A result differs from the model's, as other runtimes show.
    Mismatch,
    /// The runtime does not load the files of a net, or misreads them.
    InvalidNet,
}

impl fmt::Display for ErrorKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            ErrorKind::Io => "i/o error",
            ErrorKind::Parse => "not an ONNX model",
            ErrorKind::Invalid => "invalid model",
            ErrorKind::Unsupported => "unsupported",
            ErrorKind::Limit => "limit exceeded",
            ErrorKind::Internal => "internal error",
            ErrorKind::Usage => "usage error",
            ErrorKind::Mismatch => "mismatch",
            ErrorKind::InvalidNet => "invalid net",
        })
    }
}

/// The node at which an error occurred.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeAt {
    /// The node's name; may be empty.
    pub name: String,
    /// Its index in the graph's list of nodes.
    pub index: usize,
    /// The operator, with its domain unless it is ONNX's.
    pub op_type: String,
    /// The version of the operator set that the model imports.
    pub version: i64,
}

/// As `node 3 "name" Conv-13`.
impl fmt::Display for NodeAt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let NodeAt { name, index, op_type, version } = self;
        write!(f, "node {index}")?;
        if !name.is_empty() {
            write!(f, " \"{name}\"")?;
        }
        write!(f, " {op_type}-{version}")
    }
}

/// The location of an error. Every field is optional; callers add what they know.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Where {
    /// The file that was read or written.
    pub file: Option<PathBuf>,
    /// Names of the graphs around the node, outermost first; empty for the main graph.
    pub graph: Vec<String>,
    /// The node.
    pub node: Option<NodeAt>,
    /// The input, output, attribute or tensor.
    pub part: Option<String>,
}

/// One reason why a model was not converted, and its location.
#[derive(Debug)]
pub struct Error(Box<Content>);

#[derive(Debug)]
struct Content {
    kind: ErrorKind,
    /// The code, if it is not that of the kind.
    code: Option<ErrorCode>,
    at: Where,
    message: String,
    help: Option<String>,
    source: Option<Box<dyn std::error::Error + Send + Sync>>,
}

impl Error {
    /// Creates an error; `message` is a lower-case phrase without a full stop.
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        let message = message.into();
        Error(Box::new(Content { kind, code: None, at: Where::default(), message, help: None, source: None }))
    }

    /// Creates an error for a model that breaks the specification.
    pub fn invalid(message: impl Into<String>) -> Self {
        Error::new(ErrorKind::Invalid, message)
    }

    /// Creates an error for valid ONNX that cannot be expressed.
    pub fn unsupported(message: impl Into<String>) -> Self {
        Error::new(ErrorKind::Unsupported, message)
    }

    /// Creates an error for an exceeded limit.
    pub fn limit(message: impl Into<String>) -> Self {
        Error::new(ErrorKind::Limit, message)
    }

    /// Creates an error for a broken rule of the converter itself.
    pub fn internal(message: impl Into<String>) -> Self {
        Error::new(ErrorKind::Internal, message).help(REPORT)
    }

    /// Makes the error one of the options.
    #[must_use]
    pub(crate) fn into_usage(mut self) -> Self {
        self.0.kind = ErrorKind::Usage;
        self
    }

    /// Turns an invalid-model error into an internal one, for a part of the model that the converter made.
    /// Other kinds stay.
    #[must_use]
    pub fn into_internal(mut self) -> Self {
        if self.0.kind == ErrorKind::Invalid {
            self.0.kind = ErrorKind::Internal;
            self.0.code = None;
            self.0.help = Some(REPORT.to_owned());
        }
        self
    }

    /// Creates an error for options that do not fit.
    pub fn usage(message: impl Into<String>) -> Self {
        Error::new(ErrorKind::Usage, message)
    }

    /// Creates an error for a file that cannot be read or written.
    pub fn io(message: impl Into<String>, source: std::io::Error) -> Self {
        let mut error = Error::new(ErrorKind::Io, message);
        error.0.source = Some(Box::new(source));
        error
    }

    /// Adds advice for the user.
    #[must_use]
    pub fn help(mut self, help: impl Into<String>) -> Self {
        self.0.help = Some(help.into());
        self
    }

    /// Adds advice for the user, if there is any.
    #[must_use]
    pub(crate) fn help_if_any(self, help: Option<String>) -> Self {
        match help {
            Some(help) => self.help(help),
            None => self,
        }
    }

    /// Adds the cause.
    #[must_use]
    pub fn caused_by(mut self, source: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Self {
        self.0.source = Some(source.into());
        self
    }

    /// Adds the file, unless one is known already.
    #[must_use]
    pub fn in_file(mut self, file: impl Into<PathBuf>) -> Self {
        self.0.at.file.get_or_insert_with(|| file.into());
        self
    }

    /// Adds the node, unless one is known already.
    #[must_use]
    pub fn at_node(mut self, node: impl FnOnce() -> NodeAt) -> Self {
        self.0.at.node.get_or_insert_with(node);
        self
    }

    /// Adds the input, output, attribute or tensor, unless one is known already.
    #[must_use]
    pub fn at_part(mut self, part: impl Into<String>) -> Self {
        self.0.at.part.get_or_insert_with(|| part.into());
        self
    }

    /// Adds what contains the part before it, or as the part if none is known.
    #[must_use]
    pub(crate) fn in_part(mut self, whole: &str) -> Self {
        let part = self.0.at.part.take();
        self.0.at.part = Some(part.map_or_else(|| whole.to_owned(), |part| format!("{whole}, {part}")));
        self
    }

    /// Removes the node and its part, for an error at a node by which another one is defined.
    #[must_use]
    pub(crate) fn at_no_node(mut self) -> Self {
        self.0.at = Where { node: None, part: None, ..self.0.at };
        self
    }

    /// Adds the name of an enclosing graph before those that are known.
    #[must_use]
    pub fn in_graph(mut self, graph: impl Into<String>) -> Self {
        self.0.at.graph.insert(0, graph.into());
        self
    }

    /// Sets the code.
    #[must_use]
    pub(crate) fn code_is(mut self, code: ErrorCode) -> Self {
        self.0.code = Some(code);
        self
    }

    /// Returns the code.
    pub fn code(&self) -> ErrorCode {
        self.0.code.unwrap_or_else(|| ErrorCode::of(self.0.kind))
    }

    /// Returns the kind.
    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }

    /// Returns the location.
    pub fn at(&self) -> &Where {
        &self.0.at
    }

    /// Returns the message, one phrase.
    pub fn message(&self) -> &str {
        &self.0.message
    }

    /// Returns the advice for the user.
    pub fn help_text(&self) -> Option<&str> {
        self.0.help.as_deref()
    }
}

/// The location and the message; `{:#}` adds the causes.
impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let at = &self.0.at;
        for graph in &at.graph {
            write!(f, "{graph}: ")?;
        }
        if let Some(node) = &at.node {
            write!(f, "{node}: ")?;
        } else if let Some(file) = &at.file {
            write!(f, "{}: ", file.display())?;
        }
        if let Some(part) = &at.part {
            write!(f, "{part}: ")?;
        }
        f.write_str(&self.0.message)?;
        let mut below = std::error::Error::source(self).filter(|_| f.alternate());
        while let Some(source) = below {
            write!(f, ": {source}")?;
            below = source.source();
        }
        Ok(())
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match &self.0.source {
            Some(source) => Some(source.as_ref()),
            None => None,
        }
    }
}

impl From<std::num::TryFromIntError> for Error {
    fn from(source: std::num::TryFromIntError) -> Self {
        Error::limit("a number is out of range").caused_by(source)
    }
}

impl From<ndarray::ShapeError> for Error {
    fn from(source: ndarray::ShapeError) -> Self {
        Error::internal("elements and shape do not match").caused_by(source)
    }
}

/// All errors of one run; never empty.
#[derive(Debug)]
pub struct Errors(Vec<Error>);

impl Errors {
    /// Returns `Err` if there are any errors.
    pub fn check(errors: Vec<Error>) -> std::result::Result<(), Errors> {
        if errors.is_empty() { Ok(()) } else { Err(Errors(errors)) }
    }

    /// Returns each error, in the order of the nodes.
    pub fn iter(&self) -> std::slice::Iter<'_, Error> {
        self.0.iter()
    }

    /// Adds the file to each error, unless one is known already.
    #[must_use]
    pub fn in_file(self, file: &Path) -> Self {
        Errors(self.0.into_iter().map(|error| error.in_file(file)).collect())
    }

    /// Makes errors of invalid data errors of the files of a net.
    #[must_use]
    pub(crate) fn into_invalid_net(self) -> Self {
        let of_net = |mut error: Error| {
            if error.0.kind == ErrorKind::Invalid {
                error.0.kind = ErrorKind::InvalidNet;
            }
            error
        };
        Errors(self.0.into_iter().map(of_net).collect())
    }

    /// Adds what contains the part of each error.
    #[must_use]
    pub(crate) fn in_part(self, whole: &str) -> Self {
        Errors(self.0.into_iter().map(|error| error.in_part(whole)).collect())
    }

    /// Adds an error.
    #[must_use]
    pub fn and(mut self, error: Error) -> Self {
        self.0.push(error);
        self
    }
}

impl From<Error> for Errors {
    fn from(error: Error) -> Self {
        Errors(vec![error])
    }
}

/// One line for each error; `{:#}` adds the causes.
impl fmt::Display for Errors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, error) in self.0.iter().enumerate() {
            if i > 0 {
                f.write_str("\n")?;
            }
            error.fmt(f)?;
        }
        Ok(())
    }
}

impl std::error::Error for Errors {}

/// Returns early with an [`Error`] of kind `Unsupported`.
macro_rules! unsupported {
    ($($message:tt)*) => { return Err($crate::error::Error::unsupported(format!($($message)*))) };
}

/// Returns early with an [`Error`] of kind `Invalid`.
macro_rules! invalid {
    ($($message:tt)*) => { return Err($crate::error::Error::invalid(format!($($message)*))) };
}

pub(crate) use {invalid, unsupported};

/// Indexing that does not panic.
pub(crate) trait At<T> {
    /// Returns the element at `index`.
    fn at(&self, index: usize) -> Result<&T>;

    /// Replaces the element at `index`, if there is one.
    fn put(&mut self, index: usize, element: T);
}

impl<T> At<T> for [T] {
    fn at(&self, index: usize) -> Result<&T> {
        let len = self.len();
        self.get(index)
            .ok_or_else(|| Error::invalid(format!("index {index} is out of range for {len} elements")))
    }

    fn put(&mut self, index: usize, element: T) {
        if let Some(slot) = self.get_mut(index) {
            *slot = element;
        }
    }
}
