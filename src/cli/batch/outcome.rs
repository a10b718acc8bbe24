//! The result of a batch for one model.

use std::path::PathBuf;
use std::time::Duration;

use onnx2ncnn::error::Error;

use super::child::{Reasons, Summary};

/// The result for a model.
#[derive(Debug)]
pub(super) enum Outcome {
    /// The net and the further files are written.
    Converted {
        summary: Summary,
        /// What the process printed, here and below.
        output: String,
        elapsed: Duration,
        /// The written files, below the folder of results.
        files: Vec<PathBuf>,
    },
    /// The results of an earlier run are those that this one would give.
    UpToDate { summary: Summary, files: Vec<PathBuf> },
    /// The process ended with this exit code, and reported why.
    Refused { code: u8, output: String, reasons: Reasons },
    /// The process was killed or crashed, or took too long.
    Broken {
        /// How it ended, for a message.
        how: String,
        is_late: bool,
        output: String,
    },
    /// No conversion, for a reason outside of the model.
    Failed(Error),
    /// Another run handles the model.
    Busy,
}
