//! Errors and panics of the library as exceptions of Python.

use std::error::Error as _;
use std::io;
use std::path::PathBuf;

use onnx2ncnn::error::{Error, ErrorKind};
use onnx2ncnn::{Refusal, options};
use pyo3::exceptions::{PyIsADirectoryError, PyOSError, PyValueError};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyType;

/// Runs a function of the library without the global interpreter lock.
///
/// # Errors
///
/// `OSError` if a file cannot be read or written, `ValueError` if the options do not fit the model, and
/// `onnx2ncnn.Refused` for the rest, a panic among them.
pub fn run<T: Send, E: Into<Refusal>>(
    py: Python<'_>,
    work: impl FnOnce() -> Result<T, E> + Send,
) -> PyResult<T> {
    let done = py.detach(|| Refusal::catch_panic(|| work().map_err(Into::into)));
    done.map_err(|refusal| exception(py, &refusal))
}

fn exception(py: Python<'_>, refusal: &Refusal) -> PyErr {
    let of = |kind| refusal.iter().find(move |error: &&Error| error.kind() == kind);
    if let Some(error) = of(ErrorKind::Io) {
        return os_error(error);
    }
    if let Some(error) = of(ErrorKind::Usage) {
        return PyValueError::new_err(with_help(error));
    }
    let report = match refusal.report().to_json() {
        Ok(report) => report,
        Err(error) => return PyValueError::new_err(format!("{error:#}")),
    };
    refused(py, report).unwrap_or_else(|error| error)
}

/// Returns the exception `onnx2ncnn.Refused` with a report.
fn refused(py: Python<'_>, report: String) -> PyResult<PyErr> {
    static REFUSED: PyOnceLock<Py<PyType>> = PyOnceLock::new();
    let class = REFUSED.import(py, "onnx2ncnn._refused", "Refused")?;
    Ok(PyErr::from_value(class.call1((report,))?))
}

/// Returns an `OSError`, of the subclass for the error of the system.
fn os_error(error: &Error) -> PyErr {
    let text = with_help(error);
    let Some(cause) = error.source().and_then(|source| source.downcast_ref::<io::Error>()) else {
        return PyOSError::new_err(text);
    };
    match (cause.raw_os_error(), cause.kind()) {
        (Some(number), _) => {
            let file = error.at().file.clone().map(PathBuf::into_os_string);
            let cause = cause.to_string();
            let cause = cause.split(" (os error").next().unwrap_or_default();
            PyOSError::new_err((number, format!("{}: {cause}", error.message()), file))
        }
        (None, io::ErrorKind::IsADirectory) => PyIsADirectoryError::new_err(text),
        _ => PyOSError::new_err(text),
    }
}

fn with_help(error: &Error) -> String {
    let help = error.help_text().map(|help| format!("; {help}")).unwrap_or_default();
    with_arguments(&format!("{error:#}{help}"))
}

/// Returns a message in which options of the command are arguments of Python's functions.
#[pyfunction]
pub fn with_arguments(text: &str) -> String {
    let mut parts = text.split("--");
    let mut result = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let end = part.find(|c: char| !c.is_ascii_lowercase() && !c.is_ascii_digit() && c != '-');
        let (word, rest) = part.split_at(end.unwrap_or(part.len()));
        let known = options().iter().find(|info| info.long_name() == word);
        match (known, word) {
            (_, "") => result.push_str("--"),
            (Some(info), _) => result.push_str(&format!("`{}`", info.name)),
            (None, "list-passes") => result.push_str("`passes()`"),
            (None, _) => result.push_str(&format!("`{}`", word.replace('-', "_"))),
        }
        result.push_str(rest);
    }
    result
}
