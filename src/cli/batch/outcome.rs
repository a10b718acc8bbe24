//! The result of a batch for one model.

use std::time::Duration;

use onnx2ncnn::error::Error;
use serde_json::Value;

use super::child::Answer;

/// The result for a model.
#[derive(Debug)]
pub(super) enum Outcome {
    Converted {
        answer: Answer,
        said: String,
        elapsed: Duration,
    },
    UpToDate,
    /// The process ended with this exit code, and reported why.
    Refused {
        code: u8,
        said: String,
        /// The errors, as in a report.
        diagnostics: Option<Value>,
    },
    /// The process was killed or crashed.
    Broken {
        how: String,
        said: String,
    },
    /// No conversion, for a reason outside of the model.
    Failed(Error),
    /// Another run handles the model.
    Busy,
}
